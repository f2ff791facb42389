"""What a head is told that others stop for, and what those are told that stop."""

from typing import Any

import pytest
from django.utils import timezone

from scheduling.api.streams import frame
from scheduling.core.types import Reason
from scheduling.models import Attempt, Job, JobEvent
from tenants.rbac import Principal
from tests.scheduling.api import explain_ways as ways
from tests.scheduling.api.conftest import Caller, World, person
from tests.scheduling.api.explain_ways import Stage
from tests.scheduling.api.test_explain import told
from tests.scheduling.factories import make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def stage(world: World, web: Caller, foreign: Caller, monkeypatch: pytest.MonkeyPatch) -> Stage:
    make_worker()
    return Stage(world=world, web=web, foreign=foreign, monkeypatch=monkeypatch)


def spoke(found: dict[str, Any]) -> dict[str, Any]:
    return next(one for one in found["checks"] if one["reason"] == found["reason"])


def check(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in found["checks"] if one["check"] == name)


def stops(stage: Stage, name: str) -> None:
    """Let what was asked to stop have stopped."""
    Attempt.objects.filter(job=name).update(state="preempted", ended_at=timezone.now())
    Job.objects.filter(id=name).update(state="queued", reason=Reason.PREEMPTED, preemptions=1)


def test_a_head_is_told_what_stops_for_it(stage: Stage) -> None:
    head = stage.submit(stage.foreign)
    ways.preempted(stage, head, cost=7)
    ways.preempted(stage, "another job", cost=1)
    found = told(stage.foreign, head)
    assert found["reason"] == "head_waits_for_units"
    assert found["sentence"].endswith("1 job of lower classes is stopping to make room for it.")
    assert spoke(found)["facts"]["preempts"] == {"jobs": 1, "units": 7, "named": []}


def test_who_may_see_what_stops_is_told_its_name(stage: Stage) -> None:
    head = stage.submit()
    victim = ways.preempted(stage, head, cost=7)
    preempts = spoke(told(stage.web, head))["facts"]["preempts"]
    assert preempts["named"] == [{"job": victim, "tenant": "acme", "units": 7}]


def test_what_stopped_is_told_for_which_class_and_that_it_goes_on(stage: Stage) -> None:
    name = ways.preempted(stage, "a job of others")
    stops(stage, name)
    retry = check(told(stage.web, name), "retry")
    assert "made room for a job of class incident, and goes on" in retry["sentence"]
    room = retry["facts"]["made_room"]
    assert (room["for_class"], room["times"], room["goes_on"]) == ("incident", 1, False)
    assert "for_job" not in room


def test_what_leaves_a_drained_executor_is_told_so(stage: Stage) -> None:
    name = ways.preempted(stage, stop_for="drain")
    assert "its executor, which is being drained" in spoke(told(stage.web, name))["sentence"]


def test_the_job_that_others_stop_for_is_named_to_operators_alone(
    stage: Stage, django_user_model: Any
) -> None:
    root = person(django_user_model, "root", "operator", None)
    name = ways.preempted(stage, "the head")
    assert spoke(told(root, name))["facts"]["makes_room"]["for_job"] == "the head"

    def asked(who: Caller) -> dict[str, Any]:
        events = who.get(f"/jobs/{name}/events").json()["results"]
        data: dict[str, Any] = next(one["data"] for one in events if one["event"] == "preempting")
        return data

    assert asked(root)["for_job"] == "the head"
    assert asked(stage.web) == {"stop_for": "preempt", "for_class": "incident"}


def test_a_job_with_no_story_of_it_is_told_no_more_than_that_it_waits(stage: Stage) -> None:
    name = ways.preempted(stage)
    stops(stage, name)
    JobEvent.objects.filter(event="preempting").delete()
    running = ways.preempted(stage, cost=1)
    JobEvent.objects.filter(event="preempting").delete()
    assert "make room for other work" in spoke(told(stage.web, running))["sentence"]
    assert "no retry" in check(told(stage.web, name), "retry")["sentence"]


def test_a_stream_names_the_job_of_others_to_an_operator_alone(stage: Stage) -> None:
    name = ways.preempted(stage, "a job of others")
    viewer, operator = Principal(name="v"), Principal(name="o", is_operator=True)
    events = JobEvent.objects.filter(job=name, event="preempting")
    assert b"a job of others" in frame(events.get(), operator)
    told = frame(events.get(), viewer)
    assert b"incident" in told
    assert b"a job of others" not in told
