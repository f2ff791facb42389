"""POST /jobs/bulk: one verdict a row; wrong rows are told, good ones are stored."""

import pytest

from scheduling.models import Job
from tests.scheduling.api.conftest import caller, job, person

pytestmark = pytest.mark.django_db


def test_each_row_gets_its_own_answer_in_order(web, world):
    rows = [
        {"payload": {"seconds": 1}},
        {"payload": {"seconds": "x"}},
        {"payload": {"seconds": 1}, "cost": 9},
        {"payload": {"seconds": 1}, "colour": "red", "cost": "3"},
        7,
        {"payload": {"seconds": 1}, "workflow": "nope"},
        {"payload": {"seconds": 1}, "class": "batch"},
    ]
    response = web.post("/jobs/bulk", {"workflow": "build", "kind": "simulated", "jobs": rows})
    told = response.json()
    assert response.status_code == 200
    assert told["counts"] == {"admitted": 0, "queued": 2, "deferred": 0, "denied": 1, "invalid": 4}
    assert [row["index"] for row in told["results"]] == list(range(7))
    verdicts = [row.get("verdict", "invalid") for row in told["results"]]
    assert verdicts == ["queued", "invalid", "denied", "invalid", "invalid", "invalid", "queued"]
    named = [[e["field"] for e in row.get("errors", ())] for row in told["results"]]
    assert named[1] == ["jobs[1].payload.seconds"]
    assert named[3] == ["jobs[3].colour", "jobs[3].cost"]
    assert named[4] == ["jobs[4]"]
    assert named[5] == ["jobs[5].workflow"]
    assert told["results"][2]["reason"] == "never_fits"
    assert "9" in told["results"][2]["sentence"]
    stored = {str(one.id): one for one in Job.objects.all()}
    assert len(stored) == 3
    assert stored[told["results"][6]["id"]].job_class == "batch"
    assert {one.workspace for one in stored.values()} == {world.web}


def test_10001_rows_are_refused_by_name_of_the_limit_and_nothing_is_stored(web):
    rows = [{"payload": {"seconds": 1}}] * 10_001
    response = web.post("/jobs/bulk", {"workflow": "build", "kind": "simulated", "jobs": rows})
    assert (response.status_code, response.json()["limit"]) == (413, 10_000)
    assert "10000" in response.json()["detail"]
    assert "10001" in response.json()["detail"]
    assert not Job.objects.exists()


@pytest.mark.slow
def test_10000_rows_are_stored_in_one_call(web):
    rows = [{"payload": {"seconds": 1}}] * 10_000
    response = web.post("/jobs/bulk", {"workflow": "build", "kind": "simulated", "jobs": rows})
    told = response.json()
    assert response.status_code == 200
    assert told["counts"]["queued"] == 10_000
    assert len({row["id"] for row in told["results"]}) == Job.objects.count() == 10_000


@pytest.mark.parametrize("rows", [None, [], {}, "x"])
def test_a_call_without_rows_is_refused(web, rows):
    response = web.post("/jobs/bulk", {"jobs": rows})
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == "jobs"


def test_a_wrong_default_refuses_the_whole_call(web):
    rows = [{"payload": {"seconds": 1}}]
    response = web.post(
        "/jobs/bulk", {"workflow": "build", "kind": "simulated", "cots": 1, "jobs": rows}
    )
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == "cots"
    assert not Job.objects.exists()


def test_a_row_cannot_name_another_workspace(web):
    rows = [job(workspace="other/main")]
    told = web.post("/jobs/bulk", {"jobs": rows}).json()
    assert told["results"][0]["errors"][0]["field"] == "jobs[0].workspace"
    assert not Job.objects.exists()


def test_a_foreign_workspace_is_404_and_nothing_is_stored(world, django_user_model):
    ann = person(django_user_model, "ann", "submitter", world.acme)
    response = ann.post("/jobs/bulk", {"workspace": "other/main", "jobs": [job()]})
    assert response.status_code == 404
    assert not Job.objects.exists()


def test_a_viewer_may_not_submit_in_bulk(world):
    assert caller(world.web, "viewer").post("/jobs/bulk", {"jobs": [job()]}).status_code == 403
    assert not Job.objects.exists()


def test_a_repeat_of_a_bulk_call_replays_every_result(web):
    body = {"jobs": [job(), job(cost=9), job(colour=1)]}
    first = web.post("/jobs/bulk", body, Idempotency_Key="bulk-1")
    again = web.post("/jobs/bulk", body, Idempotency_Key="bulk-1")
    assert again.json() == first.json()
    assert again["Idempotent-Replayed"] == "true"
    assert Job.objects.count() == 2
