"""The OpenAPI page: complete, without warnings, and true to what the API takes and gives."""

from typing import Any

import pytest
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema

from scheduling.api.documents import BULK_EXAMPLES, JOB_EXAMPLES, RowSerializer
from scheduling.api.submissions import CHECKS, REQUIRED, submission_read
from scheduling.core.reasons import REASON_SENTENCES
from scheduling.core.types import Reason
from scheduling.kinds.registry import kind_named
from scheduling.selectors.reasons import reason_sentence
from scheduling.services.drafts import Submission
from tests.scheduling.api.conftest import Caller, job

pytestmark = pytest.mark.django_db


@pytest.fixture
def schema() -> dict[str, Any]:
    with GENERATOR_STATS.silence():
        built: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
        assert not GENERATOR_STATS._warn_cache
        assert not GENERATOR_STATS._error_cache
    return built


def test_the_schema_is_valid_and_builds_without_a_warning(schema):
    validate_schema(schema)
    paths = {path.removeprefix("/api/v1") for path in schema["paths"]}
    assert paths >= {
        "/jobs", "/jobs/bulk", "/jobs/cancel", "/jobs/{job_id}", "/jobs/{job_id}/cancel",
        "/jobs/{job_id}/events", "/jobs/{job_id}/decisions", "/queue", "/executors", "/shares",
        "/pools", "/tenants", "/costs",
    }  # fmt: skip


def test_every_operation_has_a_summary_and_describes_its_errors_as_problems(schema):
    for path, methods in schema["paths"].items():
        if path.startswith("/api/v1/schema"):
            continue
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            assert "application/problem+json" in operation["responses"]["401"]["content"]


def test_the_schema_describes_exactly_the_fields_that_are_taken():
    fields = RowSerializer().fields
    assert set(fields) == set(CHECKS)
    assert {name for name, field in fields.items() if field.required} == set(REQUIRED)


def test_the_answers_have_exactly_the_described_fields(web, schema):
    described = schema["components"]["schemas"]
    submitted = web.post("/jobs", job()).json()
    assert set(submitted) == set(described["Submitted"]["properties"])
    detail = web.get(f"/jobs/{submitted['id']}").json()
    assert set(detail) == set(described["JobDetail"]["properties"])


def test_the_examples_are_good_submissions():
    bulk = BULK_EXAMPLES[0].value
    defaults = {name: value for name, value in bulk.items() if name != "jobs"}
    for example in [JOB_EXAMPLES[0].value, *({**defaults, **row} for row in bulk["jobs"])]:
        read = submission_read(example)
        assert isinstance(read, Submission)
        kind_named(read.kind).validate(read.payload)


def test_the_pages_are_served_under_the_strict_policy(world, settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}
    client = Caller().client
    assert client.get("/api/v1/schema/").status_code == 200
    page = client.get("/api/v1/docs/")
    html = page.content.decode()
    assert page.status_code == 200
    assert "script-src 'self'" in page["Content-Security-Policy"]
    assert "<script>" not in html


def test_every_reason_has_a_sentence():
    assert set(REASON_SENTENCES) == set(Reason)
    assert reason_sentence("from_a_later_version") == "from_a_later_version"
