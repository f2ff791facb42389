"""Levers act on the backlog that is there, within a turn, and stop nothing that runs."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.controls.pools import pool_dial
from scheduling.models import Attempt, Executor, Pool, Workflow
from tenants.controls import tenant_weight
from tenants.limits import tenant_limit
from tenants.models import Tenant, Workspace
from tests.scheduling.factories import (
    WHO,
    make_executor,
    make_policy,
    make_pool,
    make_tenant,
    make_workflow,
    set_circuit,
    submit,
)
from tests.scheduling.governor.desk import Desk


def dial(pool: Pool, budget: int, reserve: int = 0) -> None:
    pool_dial(pool_id=pool.id, budget=budget, reserve=reserve, **WHO)


def weigh(space: Workspace, weight: int) -> None:
    tenant_weight(tenant_id=space.tenant_id, weight=weight, **WHO)


def order(desk: Desk, pool: Pool) -> list[str]:
    return [spot.job.id for spot in desk.state(pool).order.walk_all()]


@pytest.fixture
def closed(pool: Pool) -> Pool:
    """The pool with its dial at 1, so that one job runs and the others wait."""
    dial(pool, 1)
    return pool


def test_a_weight_changes_the_order_of_those_who_wait(desk: Desk, closed: Pool) -> None:
    a, b = make_tenant("a", closed), make_tenant("b", closed)
    first = submit(make_tenant("z", closed))[0]
    assert desk.turn() == [str(first.id)]
    own, other = submit(a, 4), submit(b, 4)
    desk.turn()
    weigh(b, 3)
    desk.turn()
    ids = [str(one.id) for one in (own[0], *other[:3], own[1], other[3], *own[2:])]
    assert order(desk, closed) == ids


def test_a_held_tenant_is_shown_and_not_placed_until_it_is_unheld(desk: Desk, closed: Pool) -> None:
    a, b = make_tenant("a", closed), make_tenant("b", closed)
    held, other = submit(a), submit(b)
    weigh(a, 0)
    assert desk.turn() == [str(other[0].id)]
    more = submit(a)
    desk.finish()
    assert desk.turn() == []
    blocked = [job.id for job in desk.state(closed).order.blocked_jobs()]
    assert blocked == [str(held[0].id), str(more[0].id)]
    weigh(a, 2)
    assert desk.turn() == [str(held[0].id)]
    assert desk.state(closed).order.weight(("normal", str(a.tenant_id), None)) == 2


def test_a_hold_lets_what_runs_run_on(desk: Desk, closed: Pool) -> None:
    a = make_tenant("a", closed)
    submit(a)
    desk.turn()
    desk.claim()
    weigh(a, 0)
    desk.turn()
    assert desk.finish() == 1


def test_a_lower_dial_kills_nothing_and_waits_until_the_pool_has_drained(
    desk: Desk, pool: Pool
) -> None:
    jobs = submit(make_tenant("a", pool, cost=2), 7)
    assert len(desk.turn()) == 5
    dial(pool, 4)
    assert desk.turn() == []
    assert desk.state(pool).free("normal") == -6
    for left in (0, 0, 0, 1):
        first = Attempt.objects.filter(state__in=["dispatched", "running"]).earliest("id")
        desk.finish(jobs=[first.job])
        assert len(desk.turn()) == left
    assert len(jobs) == 7


def test_a_higher_dial_places_at_once(desk: Desk, closed: Pool) -> None:
    submit(make_tenant("a", closed), 5)
    assert len(desk.turn()) == 1
    dial(closed, 4)
    assert len(desk.turn()) == 3


def test_the_reserve_serves_incidents_alone(desk: Desk, pool: Pool) -> None:
    dial(pool, 4, reserve=3)
    a = make_tenant("a", pool)
    normal = submit(a, 2)
    incident = submit(a, 3, job_class="incident")
    assert set(desk.turn()) == {str(job.id) for job in incident} | {str(normal[0].id)}


def test_a_job_that_the_dial_has_outgrown_does_not_stop_the_pool_and_comes_back(
    desk: Desk, pool: Pool
) -> None:
    big, small = make_tenant("big", pool, cost=8), make_tenant("small", pool)
    dial(pool, 8)
    holder = submit(small)[0]
    desk.turn()
    large = submit(big)[0]
    dial(pool, 2)
    rest = submit(small)[0]
    assert desk.turn() == [str(rest.id)]
    assert list(desk.state(pool).never_fits) == [str(large.id)]
    desk.finish()
    desk.turn()
    dial(pool, 8)
    assert desk.turn() == [str(large.id)]
    assert holder.state == "queued"


def test_a_workflows_cost_acts_on_waiting_jobs_without_one_of_their_own(
    desk: Desk, closed: Pool
) -> None:
    a = make_tenant("a", closed)
    runs = submit(a)[0]
    desk.turn()
    plain, own = submit(a)[0], submit(a, cost=1)[0]
    desk.turn()
    make_workflow(a.tenant, closed, cost=3)
    dial(closed, 20)
    desk.turn()
    costs = dict(Attempt.objects.values_list("job_id", "cost"))
    assert costs == {runs.id: 1, plain.id: 3, own.id: 1}
    state = desk.state(closed)
    assert {one.job_id: one.cost for one in state.live.values()} == {
        str(runs.id): 3, str(plain.id): 3, str(own.id): 1,
    }  # fmt: skip
    assert state.free("normal") == 13


def test_a_workflows_cost_leaves_other_tenants_alone(desk: Desk, closed: Pool) -> None:
    a, b = make_tenant("a", closed), make_tenant("b", closed)
    submit(a)
    desk.turn()
    mine, theirs = submit(a)[0], submit(b)[0]
    desk.turn()
    make_workflow(a.tenant, closed, cost=3)
    desk.turn()
    orders = desk.state(closed).order
    never = desk.state(closed).never_fits
    assert (never[str(mine.id)].cost, orders.get(str(theirs.id)).cost) == (3, 1)


@pytest.mark.parametrize("off", [{"enabled": False}, {"draining": True}, {"health": "down"}])
def test_an_executor_that_is_off_is_given_nothing_and_keeps_what_it_runs(
    desk: Desk, pool: Pool, off: dict[str, Any]
) -> None:
    a = make_tenant("a", pool)
    submit(a)
    desk.turn()
    Executor.objects.update(**off)
    desk.leader._reconfigure()
    submit(a)
    assert desk.turn() == []
    assert len(desk.state(pool).live) == 1
    Executor.objects.update(enabled=True, draining=False, health="ok")
    desk.leader._reconfigure()
    assert len(desk.turn()) == 1


def test_an_open_circuit_is_given_nothing(desk: Desk, pool: Pool) -> None:
    set_circuit("open", timezone.now() + timedelta(hours=1))
    desk.leader._reconfigure()
    submit(make_tenant("a", pool))
    assert desk.turn() == []


def test_more_slots_are_used_at_once(desk: Desk, pool: Pool) -> None:
    make_executor(pool, "one", slots=1, models_offered=["m"])
    submit(make_tenant("a", pool), 4, model="m")
    assert len(desk.turn()) == 1
    make_executor(pool, "one", slots=3, models_offered=["m"])
    assert len(desk.turn()) == 2


def test_a_new_policy_rebuilds_the_memory_with_nothing_lost(desk: Desk, closed: Pool) -> None:
    a, b = make_tenant("a", closed), make_tenant("b", closed)
    submit(a, 3)
    submit(b, 3)
    desk.turn()
    before = desk.leader.book
    waiting = order(desk, closed)
    number = make_policy(share_by="turns")
    desk.turn()
    assert desk.leader.book is not before
    assert desk.leader.book.config.policy.number == number
    assert order(desk, closed) == waiting
    assert len(desk.state(closed).live) == 1
    assert desk.leader.book.served == before.served


def test_a_new_pool_is_opened_with_holds_and_weights(desk: Desk, pool: Pool) -> None:
    a = make_tenant("a", pool)
    desk.turn()
    weigh(a, 0)
    late = make_pool("late")
    make_executor(late)
    make_workflow(a.tenant, late, "there")
    job = submit(a, workflow="there")[0]
    assert desk.turn() == []
    assert [one.id for one in desk.state(late).order.blocked_jobs()] == [str(job.id)]
    weigh(a, 4)
    assert desk.turn() == [str(job.id)]


@pytest.mark.parametrize("model", [Tenant, Workspace, Workflow])
def test_a_running_cap_keeps_the_others_waiting_without_blocking_anybody(
    desk: Desk, pool: Pool, model: Any
) -> None:
    a, b = make_tenant("a", pool), make_tenant("b", pool)
    if model is Tenant:
        Tenant.objects.filter(id=a.tenant_id).update(max_running=1)
    else:
        model.objects.filter(tenant=a.tenant_id).update(max_running=1)
    own, other = submit(a, 3), submit(b, 2)
    assert set(desk.turn()) == {str(job.id) for job in (own[0], *other)}
    desk.finish(jobs=[own[0]])
    assert desk.turn() == [str(own[1].id)]


def test_a_cap_that_is_taken_away_frees_the_jobs(desk: Desk, pool: Pool) -> None:
    a = make_tenant("a", pool)
    tenant_limit(tenant_id=a.tenant_id, max_running=1, **WHO)
    submit(a, 3)
    assert len(desk.turn()) == 1
    tenant_limit(tenant_id=a.tenant_id, max_running=None, **WHO)
    assert len(desk.turn()) == 2
