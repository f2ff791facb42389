"""The lean reader of submissions: what each field takes, and what it says when it does not."""

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from scheduling.api.submissions import CHECKS, fields_read, submission_read
from scheduling.services.drafts import After, Submission
from tests.scheduling.api.conftest import job

ID, OTHER = "01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8058"


def test_every_field_is_read_into_the_submission():
    read = submission_read(
        job(
            model="m", mission="go", cost=3, expected_s=2, max_attempts=4, region="eu",
            deadline="2026-02-01T12:00:00+02:00", not_before="2026-01-31T12:00:00Z",
            expires_at="2026-01-31T13:00:00Z", ttl_s=60,
            labels=["gpu", "eu"], idempotent=False, paused=True, risk="high", **{"class": "batch"},
            estimate={"tool_calls": 4, "review_minutes": 1.5, "seconds": None}, tools=["web", "web"],
            data_class="secret", compute_class="gpu", keys=["repo:a"], max_spend="12.50",
            max_tokens=9, review=True, after=[ID, {"job": OTHER, "condition": "ended"}],
        )
    )  # fmt: skip
    assert read == Submission(
        workflow="build", kind="simulated", payload={"seconds": 1}, model="m", mission="go",
        job_class="batch", cost=3, expected_s=2.0, max_attempts=4, region="eu",
        deadline=datetime(2026, 2, 1, 10, tzinfo=UTC),
        not_before=datetime(2026, 1, 31, 12, tzinfo=UTC),
        expires_at=datetime(2026, 1, 31, 13, tzinfo=UTC), ttl_s=60.0,
        labels=("gpu", "eu"), idempotent=False, paused=True, risk="high",
        estimate={"tool_calls": 4, "review_minutes": 1.5}, tools=("web",), data_class="secret",
        compute_class="gpu", keys=("repo:a",), max_spend=Decimal("12.5"), max_tokens=9, review=True,
        after=(After(job=UUID(ID)), After(job=UUID(OTHER), condition="ended")),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("workflow", 1, "at most 63 characters"),
        ("workflow", None, "at most 63 characters"),
        ("model", "x" * 201, "at most 200 characters"),
        ("payload", [], "an object"),
        ("payload", None, "an object"),
        ("cost", True, "whole number"),
        ("cost", 1.5, "whole number"),
        ("cost", "1", "not '1'"),
        ("expected_s", -1, "0 to"),
        ("expected_s", True, "0 to"),
        ("expected_s", float("nan"), "0 to"),
        ("expected_s", 10**9, "0 to"),
        ("expires_at", "2026-01-01T00:00:00", "time zone"),
        ("expires_at", 60, "ISO 8601"),
        ("ttl_s", 0.5, "from 1 to"),
        ("ttl_s", True, "from 1 to"),
        ("ttl_s", "60", "not '60'"),
        ("ttl_s", float("nan"), "from 1 to"),
        ("ttl_s", 10**9, "from 1 to"),
        ("deadline", 5, "ISO 8601"),
        ("deadline", "soon", "ISO 8601"),
        ("deadline", "2026-01-01T00:00:00", "time zone"),
        ("deadline", "1970-01-01T00:00:00Z", "1971"),
        ("deadline", "9999-12-31T23:59:59Z", "9000"),
        ("labels", ["ok", ""], "1 to 60"),
        ("labels", ["x" * 61], "1 to 60"),
        ("labels", ["x"] * 51, "at most 50"),
        ("idempotent", 1, "true or false"),
        ("estimate", 5, "an object with any of input_tokens"),
        ("tools", ["x" * 61], "1 to 60"),
        ("keys", "repo", "1 to 200"),
        ("keys", ["x" * 201], "1 to 200"),
        ("data_class", "x" * 61, "at most 60"),
        ("compute_class", 1, "at most 60"),
        ("max_spend", 1.5, "US dollars as a text"),
        ("max_spend", "-1", "US dollars as a text"),
        ("max_spend", "1e3", "US dollars as a text"),
        ("max_spend", "NaN", "US dollars as a text"),
        ("max_spend", "1.00000000001", "ten decimal places"),
        ("max_spend", "1000000001", "from 0 to 1000000000"),
        ("max_tokens", -1, "whole number from 0"),
        ("max_tokens", True, "whole number from 0"),
        ("review", "yes", "true or false"),
        ("after", ID, "a list of at most 50 jobs"),
        ("after", [ID] * 51, "a list of at most 50 jobs"),
        ("after", [ID, ID], "twice"),
    ],
)
def test_a_wrong_value_is_refused_in_words(name, value, words):
    values, errors = fields_read({name: value}, at="jobs[17].")
    assert name not in values
    assert [error.field for error in errors] == [f"jobs[17].{name}"]
    assert words in errors[0].sentence


@pytest.mark.parametrize(
    ("name", "value", "field", "words"),
    [
        ("estimate", {"luck": 1}, "estimate.luck", "known are input_tokens"),
        ("estimate", {"tool_calls": 1.5}, "estimate.tool_calls", "whole number"),
        ("estimate", {"network_bytes": -1}, "estimate.network_bytes", "whole number"),
        ("estimate", {"seconds": -1}, "estimate.seconds", "number of seconds"),
        ("estimate", {"review_minutes": "5"}, "estimate.review_minutes", "Must be a number"),
        ("estimate", {"environment_seconds": True}, "estimate.environment_seconds", "a number"),
        ("after", [ID, "x"], "after[1]", "the id of a job"),
        ("after", [5], "after[0]", "the id of a job"),
        ("after", [{"job": ID, "condition": "never"}], "after[0]", "done, ended, failed"),
        ("after", [{"job": ID, "when": 1}], "after[0]", "job and condition"),
        ("after", [{"condition": "done"}], "after[0]", "job and condition"),
    ],
)
def test_a_wrong_part_of_a_field_is_named_by_its_path(name, value, field, words):
    values, errors = fields_read({name: value}, at="jobs[17].")
    assert name not in values
    assert [error.field for error in errors] == [f"jobs[17].{field}"]
    assert words in errors[0].sentence


def test_a_long_wrong_value_is_not_echoed_whole():
    (error,) = fields_read({"cost": "x" * 10_000})[1]
    assert len(error.sentence) < 120


def test_null_is_the_same_as_left_out_for_optional_fields():
    nulls = dict.fromkeys(set(CHECKS) - {"workflow", "kind", "payload"})
    assert submission_read(job(**nulls)) == submission_read(job())
