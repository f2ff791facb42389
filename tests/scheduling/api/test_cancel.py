"""Canceling one job or several; what another tenant's ids are told (cases C54, C66)."""

import uuid

import pytest
from django.utils import timezone

from billing.models import Reservation
from scheduling.models import Job, JobEvent
from tests.scheduling.api.conftest import Caller, caller, job

pytestmark = pytest.mark.django_db


def submit(client: Caller) -> str:
    return str(client.post("/jobs", job()).json()["id"])


def test_a_waiting_job_is_canceled_at_once_and_its_hold_released(web):
    job_id = submit(web)
    response = web.post(f"/jobs/{job_id}/cancel", {"reason": "typo"})
    assert (response.status_code, response.json()["state"]) == (200, "canceled")
    assert Reservation.objects.get().state == "released"
    event = JobEvent.objects.get(event="canceled")
    assert event.data["why"] == "typo"
    assert event.data["by"].startswith("key:")


def test_canceling_twice_changes_nothing_more(web):
    job_id = submit(web)
    web.post(f"/jobs/{job_id}/cancel")
    again = web.post(f"/jobs/{job_id}/cancel")
    assert (again.status_code, again.json()["state"]) == (200, "canceled")
    assert JobEvent.objects.filter(event="canceled").count() == 1


def test_a_job_that_is_done_stays_done(web):
    job_id = submit(web)
    Job.objects.update(state="done", finished_at=timezone.now())
    response = web.post(f"/jobs/{job_id}/cancel")
    assert (response.status_code, response.json()["code"]) == (409, "job_ended")
    assert response.json()["state"] == "done"
    assert Job.objects.get().state == "done"


def test_a_repeated_cancel_with_a_key_is_replayed(web):
    job_id = submit(web)
    first = web.post(f"/jobs/{job_id}/cancel", {}, Idempotency_Key="c")
    again = web.post(f"/jobs/{job_id}/cancel", {}, Idempotency_Key="c")
    assert again["Idempotent-Replayed"] == "true"
    assert again.json() == first.json()


def test_another_job_under_the_same_key_is_409(web):
    first, second = submit(web), submit(web)
    web.post(f"/jobs/{first}/cancel", {}, Idempotency_Key="c")
    assert web.post(f"/jobs/{second}/cancel", {}, Idempotency_Key="c").status_code == 409
    assert Job.objects.get(id=second).state == "queued"


@pytest.mark.parametrize(
    "body", [{"reason": ""}, {"reason": 3}, {"why": "x"}, {"reason": "x" * 501}]
)
def test_a_bad_body_is_400_and_changes_nothing(web, body):
    job_id = submit(web)
    assert web.post(f"/jobs/{job_id}/cancel", body).status_code == 400
    assert Job.objects.get().state == "queued"


def test_a_viewer_may_not_cancel(web, world):
    job_id = submit(web)
    assert caller(world.web, "viewer").post(f"/jobs/{job_id}/cancel").status_code == 403
    assert Job.objects.get().state == "queued"


def test_several_are_canceled_together(web):
    ids = [submit(web), submit(web), submit(web)]
    web.post(f"/jobs/{ids[0]}/cancel")
    told = web.post("/jobs/cancel", {"ids": ids}).json()
    assert told["ended_before"] == [ids[0]]
    assert sorted(told["canceled"]) == sorted(ids[1:])
    assert set(Job.objects.values_list("state", flat=True)) == {"canceled"}


@pytest.mark.django_db(transaction=True)
def test_one_foreign_id_refuses_all_and_reads_like_an_unknown_one(web, foreign):
    own = [submit(web), submit(web)]
    other = submit(foreign)
    with_foreign = web.post("/jobs/cancel", {"ids": [*own, other]})
    with_unknown = web.post("/jobs/cancel", {"ids": [*own, str(uuid.uuid4())]})
    assert with_foreign.status_code == with_unknown.status_code == 404
    assert with_foreign.content == with_unknown.content
    assert set(Job.objects.values_list("state", flat=True)) == {"queued"}


@pytest.mark.parametrize("ids", [None, [], ["x"], [1], ["x"] * 1001])
def test_a_bad_list_of_ids_is_400(web, ids):
    response = web.post("/jobs/cancel", {"ids": ids})
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == "ids"


def test_a_job_cannot_be_patched_or_moved(web, foreign):
    job_id = submit(web)
    for method in ("patch", "put", "delete"):
        call = getattr(web.client, method)
        response = call(
            f"/api/v1/jobs/{job_id}", {"workspace": "other/main"},
            content_type="application/json", headers=web.headers,
        )  # fmt: skip
        assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")
        assert "GET" in response["Allow"]
    assert web.get(f"/jobs/{job_id}").json()["workspace"] == "acme/web"
