"""POST /jobs: what is stored, what is told, and what is refused with which words."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from billing.models import Reservation
from scheduling.core.policy.document import to_dict
from scheduling.core.policy.settings import BacklogCaps, Policy
from scheduling.models import Decision, Job, PolicyVersion
from tests.scheduling.api.conftest import Caller, caller, job, person

pytestmark = pytest.mark.django_db


def fields(response: Any) -> dict[str, str]:
    return {error["field"]: error["sentence"] for error in response.json()["errors"]}


def test_a_job_is_stored_and_told_with_its_decision(web, world):
    response = web.post("/jobs", job(cost=3, **{"class": "batch"}))
    told = response.json()
    stored = Job.objects.get()
    assert response.status_code == 201
    assert response["Location"] == f"/api/v1/jobs/{stored.id}"
    assert (told["id"], told["workspace"], told["class"]) == (str(stored.id), "acme/web", "batch")
    assert (told["cost"], told["state"]) == (3, "queued")
    assert (told["decision"]["verdict"], told["decision"]["reason"]) == ("queued", "in_order")
    assert told["decision"]["sentence"] == Decision.objects.get().sentence
    assert stored.workspace == world.web
    assert stored.submitted_by.startswith("key:")


def test_left_out_and_null_fields_take_the_defaults(web):
    told = web.post("/jobs", job(cost=None, model=None, deadline=None)).json()
    assert (told["cost"], told["class"], told["model"]) == (2, "normal", "")


def test_a_wrong_key_is_401_with_a_challenge_and_is_not_echoed(world):
    secret = "tlm_abcdef012345_" + "s3cret" * 6
    response = Caller(secret).post("/jobs", job())
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert response["Content-Type"] == "application/problem+json"
    assert "s3cret" not in response.content.decode()
    assert "key" in response.json()["detail"]
    assert not Job.objects.exists()


def test_no_credentials_are_401_too(world):
    response = Caller().get("/jobs")
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"workflow": "build",\n  "kind" "x"}', "line 2, column 10"),
        ("", "Is required"),
        ("[1]", "a list"),
        ("null", "null"),
        ('{"cost": 1, "cost": 2}', "'cost' stands twice"),
        ('{"cost": NaN}', "NaN"),
        ('{"cost": -Infinity}', "Infinity"),
        ('{"cost": 1e999}', "1e999"),
        ('{"cost": ' + "9" * 5000 + "}", "too many digits"),
        (b'{"cost": "\xff"}', "byte 10"),
        ('{"payload": {"a": "x\\u0000"}}', "payload.a"),
        ('{"payload": {"a": ["\\ud800"]}}', "payload.a[0]"),
        ('{"a": ' * 100_000, "nested too deeply"),
        ('{"a":' * 80 + "1" + "}" * 80, "nested too deeply"),
    ],
)
def test_a_malformed_body_is_400_and_says_what_is_wrong(web, body, words):
    response = web.post("/jobs", body)
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    assert words in response.content.decode()
    assert not Job.objects.exists()


def test_an_escaped_backslash_before_u0000_is_plain_text(web):
    body = job(payload={"seconds": 1, "note": "\\u0000"})
    response = web.post("/jobs", json.dumps(body))
    assert fields(response).keys() == {"payload.note"}  # unknown to the kind, but good text


def test_another_content_type_is_415(web):
    response = web.client.post(
        "/api/v1/jobs", "a=1", content_type="text/plain", headers=web.headers
    )
    assert (response.status_code, response.json()["code"]) == (415, "unsupported_content_type")


def test_a_body_that_is_too_large_is_413(web, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    response = web.post("/jobs", job(payload={"seconds": 1, "note": "x" * 1000}))
    assert (response.status_code, response.json()["code"]) == (413, "too_large")


def test_a_body_without_a_length_is_411_and_not_taken_for_an_empty_one(web):
    response = web.client.post(
        "/api/v1/jobs", job(), content_type="application/json", CONTENT_LENGTH="",
        headers=web.headers | {"Transfer-Encoding": "chunked"},
    )  # fmt: skip
    assert (response.status_code, response.json()["code"]) == (411, "length_required")


def test_every_wrong_field_is_named_at_once(web):
    response = web.post(
        "/jobs",
        job(cost=0, labels="x", paused="yes", deadline="2026-01-01T00:00:00", colour="red", risk=1),
    )
    assert response.status_code == 400
    told = fields(response)
    assert told.keys() == {"cost", "labels", "paused", "deadline", "colour", "risk"}
    assert "no field of a job" in told["colour"]
    assert "time zone" in told["deadline"]
    assert not Job.objects.exists()


def test_missing_fields_are_named(web):
    assert fields(web.post("/jobs", {})).keys() == {"workflow", "kind", "payload"}


def test_what_only_the_tenant_knows_is_refused_by_field_as_well(web):
    response = web.post("/jobs", job(workflow="nope", kind="nope"))
    assert response.status_code == 400
    assert fields(response).keys() == {"workflow", "kind"}
    assert not Job.objects.exists()


def test_a_payload_fault_names_the_field_inside_the_payload(web):
    assert "payload.seconds" in fields(web.post("/jobs", job(payload={"seconds": "long"})))


def test_a_submitter_may_not_ask_for_the_incident_class_and_an_operator_may(
    web, world, django_user_model
):
    body = job(**{"class": "incident"})
    assert fields(web.post("/jobs", body)).keys() == {"class"}
    operator = person(django_user_model, "op", "operator", None)
    response = operator.post("/jobs", body | {"workspace": "acme/web"})
    assert (response.status_code, response.json()["class"]) == (201, "incident")


def test_a_job_that_can_never_fit_is_422_with_both_numbers_and_its_id(web):
    response = web.post("/jobs", job(cost=9))
    told = response.json()
    stored = Job.objects.get()
    assert response.status_code == 422
    assert response["Content-Type"] == "application/problem+json"
    assert (told["code"], told["job"]) == ("never_fits", str(stored.id))
    assert "9" in told["detail"]
    assert "8" in told["detail"]
    assert told["alternatives"]
    assert stored.state == "denied"
    assert not Reservation.objects.exists()


def test_a_full_backlog_is_429_with_retry_after(web):
    full = Policy(number=2, backlog=BacklogCaps(workspace=1))
    PolicyVersion.objects.filter(number=1).update(state="retired")
    PolicyVersion.objects.create(
        number=2, state="active", body=to_dict(full), note="", author="t",
        published_at=datetime.now(UTC),
    )  # fmt: skip
    assert web.post("/jobs", job()).status_code == 201
    response = web.post("/jobs", job(), Idempotency_Key="k")
    assert (response.status_code, response.json()["code"]) == (429, "backlog_full")
    assert int(response["Retry-After"]) >= 1
    Job.objects.filter(state="queued").update(state="done", finished_at=datetime.now(UTC))
    assert web.post("/jobs", job(), Idempotency_Key="k").status_code == 201


def test_a_deferred_job_is_stored_with_the_time_of_its_next_try(web):
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    told = web.post("/jobs", job(not_before=later)).json()
    assert (told["state"], told["decision"]["verdict"]) == ("deferred", "deferred")
    assert told["decision"]["retry_at"]


def test_without_a_policy_a_submission_is_503_and_stores_nothing(web):
    PolicyVersion.objects.update(state="retired")
    response = web.post("/jobs", job())
    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert not Job.objects.exists()


def test_a_person_names_the_workspace_by_path_or_id(world, django_user_model):
    ann = person(django_user_model, "ann", "submitter", world.acme)
    assert fields(ann.post("/jobs", job())).keys() == {"workspace"}
    for named in ("acme/web", str(world.web.id)):
        assert ann.post("/jobs", job(workspace=named)).json()["workspace"] == "acme/web"
    assert Job.objects.values_list("submitted_by", flat=True).distinct().get() == "ann"


@pytest.mark.parametrize("named", ["other/main", "acme/ops", "nowhere/none", "x", ""])
def test_a_key_cannot_name_another_workspace(web, named):
    response = web.post("/jobs", job(workspace=named))
    assert response.status_code == (404 if named else 400)
    assert not Job.objects.exists()


def test_a_foreign_workspace_reads_exactly_like_an_unknown_one(world, django_user_model):
    ann = person(django_user_model, "ann", "submitter", world.acme)
    foreign = ann.post("/jobs", job(workspace="other/main"))
    unknown = ann.post("/jobs", job(workspace="other/none"))
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    assert not Job.objects.exists()


def test_a_viewer_is_403_and_stores_nothing(world):
    response = caller(world.web, "viewer").post("/jobs", job())
    assert (response.status_code, response.json()["code"]) == (403, "forbidden")
    assert not Job.objects.exists()


def test_a_session_without_a_csrf_token_is_403(world, django_user_model):
    ann = person(django_user_model, "ann", "submitter", world.acme)
    ann.client.handler.enforce_csrf_checks = True
    assert ann.post("/jobs", job(workspace="acme/web")).status_code == 403
    assert not Job.objects.exists()


def test_query_parameters_of_a_submission_are_refused(web):
    assert fields(web.post("/jobs?dry_run=1", job())).keys() == {"dry_run"}
    assert not Job.objects.exists()
