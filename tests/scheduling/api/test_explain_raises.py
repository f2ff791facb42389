"""An explanation names the limit in force and what raises it, and who answers for it to whom it may."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.controls.limits import limit_set
from scheduling.controls.raises import LimitIncrease, limit_raise
from scheduling.models import Executor, Job, JobEvent
from tenants.limits import workspace_limit
from tests.scheduling.api.conftest import Caller, World, person
from tests.scheduling.api.explain_ways import Stage
from tests.scheduling.api.test_explain import stage, told
from tests.scheduling.factories import WHO

pytestmark = pytest.mark.django_db

__all__ = ["stage"]
"""The fixture of the table of reasons, at work here too."""


@pytest.fixture
def operator(world: World, django_user_model: Any) -> Caller:
    return person(django_user_model, "op", "operator", None)


def lift(scope: str, scope_id: object, extra: int = 1, measure: str = "running") -> str:
    now = timezone.now()
    increase = LimitIncrease(extra=extra, ends_at=now + timedelta(hours=1), owner="eve")
    subject = (scope, str(scope_id), measure)
    return str(limit_raise(subject=subject, increase=increase, now=now, **WHO).id)


def check(found: dict[str, Any], name: str) -> dict[str, Any]:
    one: dict[str, Any] = next(one for one in found["checks"] if one["check"] == name)
    return one


def capped(scope: str, scope_id: object, value: int, measure: str = "running") -> None:
    limit_set(scope=scope, scope_id=str(scope_id), measure=measure, value=value, **WHO)


def test_a_limit_that_is_full_in_spite_of_a_raise_names_both(stage: Stage) -> None:
    workspace_limit(workspace_id=stage.world.web.id, max_running=1, **WHO)
    made = lift("workspace", stage.world.web.id)
    for _ in range(2):
        stage.runs()
    found = told(stage.web, stage.submit())
    (limit,) = check(found, "own_limits")["facts"]["limits"]
    assert (limit["running"], limit["most"], limit["base"], limit["full"]) == (2, 2, 1, True)
    (named,) = limit["escalations"]
    assert named.pop("ends_at")
    assert named == {"id": made, "scope": "workspace", "running": 1, "owner": "eve", "needed": True}


def test_a_job_that_finds_room_only_by_a_raise_is_told_so(stage: Stage) -> None:
    workspace_limit(workspace_id=stage.world.web.id, max_running=1, **WHO)
    stage.runs()
    lift("workspace", stage.world.web.id)
    name = stage.submit()
    said = check(told(stage.web, name), "own_limits")
    assert said["status"] == "passed"
    assert "The workspace's limit is raised by 1 running until " in said["sentence"]
    Job.objects.exclude(id=name).update(state="done", finished_at=timezone.now())
    free = check(told(stage.web, name), "own_limits")
    assert "raised" not in free["sentence"]
    assert free["facts"]["limits"][0]["escalations"][0]["needed"] is False


def test_the_owner_of_a_shared_limits_raise_is_told_to_operators_alone(
    stage: Stage, operator: Caller
) -> None:
    capped("global", "all", 1)
    lift("global", "all")
    name = stage.submit()
    owners = []
    for who in (stage.web, operator):
        (limit,) = check(told(who, name), "shared_limits")["facts"]["limits"]
        assert (limit["most"], limit["base"]) == (2, 1)
        owners.append(limit["escalations"][0].get("owner"))
    assert owners == [None, "eve"]


def test_a_rate_names_its_base_and_its_raise(stage: Stage) -> None:
    tenant = stage.world.acme.id
    capped("tenant", tenant, 1, "requests_a_minute")
    made = lift("tenant", tenant, 2, "requests_a_minute")
    stage.runs()
    said = check(told(stage.web, stage.submit()), "rates")
    (window,) = said["facts"]["windows"]
    assert (window["requests_a_minute"], window["requests"]) == (3, 1)
    assert window["base"] == {"requests_a_minute": 1, "tokens_a_minute": None}
    assert [one["id"] for one in window["escalations"]] == [made]
    assert "raised by 2 requests until" in said["sentence"]


def test_a_raise_of_what_is_not_limited_any_more_is_not_told(stage: Stage) -> None:
    tenant = stage.world.acme.id
    for measure in ("requests_a_minute", "tokens_a_minute"):
        capped("tenant", tenant, 5, measure)
    lift("tenant", tenant, 2, "requests_a_minute")
    limit_set(scope="tenant", scope_id=str(tenant), measure="requests_a_minute", value=None, **WHO)
    (window,) = check(told(stage.web, stage.submit()), "rates")["facts"]["windows"]
    assert "escalations" not in window


def test_an_executors_raised_limit_is_told_with_its_slots(stage: Stage) -> None:
    executor = Executor.objects.get(slug="sim")
    capped("executor", executor.id, 1)
    lift("executor", executor.id)
    (one,) = check(told(stage.web, stage.submit()), "slots")["facts"]["executors"]
    assert (one["base"], one["escalations"][0]["running"]) == (1, 1)


def test_a_job_that_runs_names_what_let_it_start(stage: Stage) -> None:
    workspace_limit(workspace_id=stage.world.web.id, max_running=1, **WHO)
    made = lift("workspace", stage.world.web.id)
    runs = stage.runs()
    attempt = runs.attempts.get()
    JobEvent.objects.create(
        job=runs, tenant=stage.world.acme, attempt_id=attempt.id, event="placed",
        data={"escalations": [made]},
    )  # fmt: skip
    (named,) = check(told(stage.web, runs.id), "run")["facts"]["escalations"]
    assert (named["id"], named["running"], named["owner"]) == (made, 1, "eve")
