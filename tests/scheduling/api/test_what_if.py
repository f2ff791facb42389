"""What-ifs over the API: place, start, finish, cost and whom it delays; nothing is written."""

import math
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
import redis
from django.apps import apps

from scheduling import snapshot
from scheduling.api import what_if
from scheduling.models import Job, PolicyVersion
from tenants.controls import control_number
from tests.scheduling.api.conftest import Caller, World, caller, job, person
from tests.scheduling.api.explain_ways import Stage
from tests.scheduling.api.test_explain_others import publish
from tests.scheduling.api.test_queue import header, row
from tests.scheduling.factories import make_worker


@pytest.fixture
def stage(world: World, web: Caller, foreign: Caller, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Another's job of 7 of 8 units runs; mine, another's and mine wait for 2 each."""
    make_worker()
    stage = Stage(world=world, web=web, foreign=foreign, monkeypatch=monkeypatch)
    stage.runs(foreign, cost=7)
    return stage


@pytest.fixture
def waiting(stage: Stage) -> list[str]:
    return [stage.submit(), stage.submit(stage.foreign), stage.submit()]


@pytest.fixture
def olga(world: World, django_user_model: Any) -> Caller:
    return person(django_user_model, "olga", "operator", None)


def tried(who: Caller, name: str, **change: Any) -> dict[str, Any]:
    response = who.post(f"/jobs/{name}/what-if", change)
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    return answer


def seconds(since: str, until: str) -> float:
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


def rows() -> dict[str, int]:
    return {model._meta.db_table: model._default_manager.count() for model in apps.get_models()}


def test_a_larger_budget_lets_the_job_start_now_and_writes_nothing(stage, waiting):
    before = rows(), control_number()
    found = tried(stage.web, waiting[0], budget=20)
    assert (found["place"], found["before"]["place"], found["approximate"]) == (1, 1, False)
    assert found["sooner_s"] == pytest.approx(600, abs=5)
    assert found["delayed"]["jobs"] == found["delayed"]["own"]["jobs"] == 0
    assert (found["cost"], found["never_fits"]) == (2, False)
    assert seconds(found["start"], found["finish"]) > 0
    assert found["finish_low"] <= found["finish"] <= found["finish_high"]
    assert (rows(), control_number()) == before


def test_another_class_moves_the_job_ahead_of_others_who_are_named_to_operators_alone(stage, olga):
    jobs = [stage.submit(cost=8), stage.submit(stage.foreign, cost=8), stage.submit(cost=8)]
    found = tried(stage.web, jobs[2], **{"class": "expedite"})
    assert (found["place"], found["before"]["place"]) == (1, 3)
    assert (found["delayed"]["jobs"], found["delayed"]["own"]["jobs"]) == (1, 1)
    assert found["delayed"]["total_s"] > 0
    assert "named" not in found["delayed"]
    assert "other" not in str(found)
    assert tried(olga, jobs[2], **{"class": "expedite"})["delayed"]["named"] == ["other"]


def test_a_greater_weight_brings_the_tenants_later_jobs_forward(stage, waiting):
    for _ in range(2):
        stage.submit(stage.foreign)
    found = tried(stage.web, stage.submit(), weight=9)
    assert (found["before"]["place"], found["place"]) == (6, 4)


def test_a_budget_below_the_cost_leaves_no_start(stage, waiting):
    found = tried(stage.web, waiting[0], budget=3)
    assert (found["start"], found["finish"], found["never_fits"]) == (None, None, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"budget": 9, "weight": 2}, "body"),
        ({"cost": 3}, "cost"),
        ({"budget": 0}, "budget"),
        ({"budget": True}, "budget"),
        ({"weight": 1001}, "weight"),
        ({"class": "vip"}, "class"),
    ],
)
def test_wrong_changes_are_named(stage, waiting, body, field):
    response = stage.web.post(f"/jobs/{waiting[0]}/what-if", body)
    assert response.status_code == 400
    assert [one["field"] for one in response.json()["errors"]] == [field]


def test_only_a_job_that_stands_in_line_can_be_tried(stage):
    running = str(Job.objects.get(state="running").id)
    response = stage.foreign.post(f"/jobs/{running}/what-if", {"budget": 9})
    assert (response.status_code, response.json()["code"]) == (409, "not_waiting")
    assert stage.web.post(f"/jobs/{running}/what-if", {"budget": 9}).status_code == 404
    assert stage.web.post(f"/jobs/{uuid.uuid4()}/what-if", {"budget": 9}).status_code == 404


def test_a_submission_is_told_what_would_become_of_it_and_is_not_made(stage, waiting):
    before = rows(), control_number()
    response = stage.web.post("/jobs/what-if", job(**{"class": "expedite"}))
    assert response.status_code == 200, response.content
    told = response.json()
    assert told["decision"]["verdict"] == "queued"
    assert told["decision"]["reservation_id"] is None
    assert float(told["spend"]) >= 0
    found = told["what_if"]
    assert (found["place"], found["before"]["place"], found["cost"]) == (1, None, 2)
    assert found["start"] < found["finish"]
    assert (rows(), control_number()) == before
    last = stage.web.post("/jobs/what-if", job()).json()["what_if"]
    assert last["place"] == 4
    assert last["delayed"]["jobs"] == 0


def test_a_submission_that_is_denied_has_nothing_to_foretell(stage):
    told = stage.web.post("/jobs/what-if", job(cost=9)).json()
    assert (told["decision"]["verdict"], told["what_if"]) == ("denied", None)
    assert stage.web.post("/jobs/what-if", job(kind="dance")).status_code == 400
    viewer = caller(stage.world.web, "viewer")
    assert viewer.post("/jobs/what-if", job()).status_code == 403


def test_behind_the_front_only_the_dial_is_told_by_proportion(
    stage, waiting, valkey: redis.Redis, monkeypatch
):
    monkeypatch.setattr(what_if, "FRONT", 1)
    publish(valkey, stage.world, waiting, len(waiting))
    found = tried(stage.web, waiting[2], budget=20)
    assert (found["place"], found["approximate"]) == (3, True)
    deep = tried(stage.web, waiting[2], weight=3)
    assert (deep["place"], deep["start"], deep["approximate"]) == (None, None, True)
    ahead = tried(stage.web, waiting[2], **{"class": "expedite"})
    assert (ahead["place"], ahead["approximate"]) == (1, False)


@pytest.fixture
def deep(stage, waiting, valkey: redis.Redis, monkeypatch) -> Callable[[float], str]:
    """Publish the waiting jobs and return the last, behind the front, with a start in so many seconds."""
    monkeypatch.setattr(what_if, "FRONT", 1)

    def published(start_s: float) -> str:
        times = [time.time() + start_s + more for more in (0, 10, 8, 12)]
        rows = [(*row(uuid.UUID(name), 0, 0, at=n)[:-4], *times) for n, name in enumerate(waiting)]
        made = header(stage.world, len(rows), startable=len(rows), at=time.time())
        snapshot.write(valkey, made, snapshot.pack(rows))
        return waiting[2]

    return published


def test_behind_the_front_the_reserve_is_no_part_of_the_proportion(stage, deep):
    found = tried(stage.web, deep(600), budget=18)  # 8 units beside the reserve become 16
    assert (found["sooner_s"], found["approximate"]) == (pytest.approx(300, abs=3), True)
    outgrown = tried(stage.web, deep(600), budget=3)
    assert (outgrown["start"], outgrown["never_fits"]) == (None, True)


def test_behind_the_front_nobody_is_said_to_wait_longer_by_nothing(stage, deep):
    found = tried(stage.web, deep(600), budget=18)
    nobody = {"jobs": 0, "mean_s": 0.0, "most_s": 0.0, "total_s": 0.0}
    assert {name: found["delayed"][name] for name in nobody} == nobody
    assert (found["delayed"]["tenants"], found["delayed"]["own"]) == (0, nobody)


def test_a_start_that_the_published_order_does_not_know_is_null(stage, deep):
    found = tried(stage.web, deep(math.nan), budget=18)
    assert (found["before"]["start"], found["start"], found["sooner_s"]) == (None, None, None)


def test_a_submission_that_would_wait_for_another_job_has_nothing_to_foretell(stage, waiting):
    told = stage.web.post("/jobs/what-if", job(after=[{"job": waiting[0]}])).json()
    assert (told["decision"]["reason"], told["what_if"]) == ("dependency", None)


def test_one_caller_asks_one_what_if_at_a_time(stage, waiting):
    seen = []

    def at_work(*_args: Any, **_more: Any) -> Any:
        seen.append(stage.web.post("/jobs/what-if", job()))
        raise PolicyVersion.DoesNotExist

    stage.monkeypatch.setattr(what_if, "scene_of", at_work)
    assert stage.web.post("/jobs/what-if", job()).status_code == 503
    assert (seen[0].status_code, seen[0]["Retry-After"]) == (429, "2")
    assert "ask again in 2 seconds" in seen[0].json()["detail"]
    stage.monkeypatch.undo()
    assert stage.web.post("/jobs/what-if", job()).status_code == 200
