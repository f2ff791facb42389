"""Each lever at work: the next ten placements after it, on a backlog that was there before it."""

from collections import Counter

import pytest
from django.utils import timezone

from scheduling.controls.executors import executor_capacity, executor_drain, executor_enable
from scheduling.controls.jobs import (
    jobs_cancel,
    jobs_pause,
    jobs_prioritise,
    jobs_requeue,
    jobs_resume,
)
from scheduling.controls.pools import pool_dial
from scheduling.controls.workflows import workflow_cost, workflow_limit
from scheduling.models import Executor, Job, Pool, Workflow
from scheduling.services.readmission import jobs_readmit
from tenants.controls import tenant_weight
from tenants.limits import tenant_limit, workspace_limit, workspace_weight
from tenants.models import Workspace
from tenants.services import workspace_create
from tests.scheduling.factories import WHO, make_executor, make_tenant, submit
from tests.scheduling.governor.desk import Desk


@pytest.fixture
def narrow(pool: Pool) -> Pool:
    """The pool with room for one job at a time, so that the order alone decides."""
    pool_dial(pool_id=pool.id, budget=1, **WHO)
    return pool


@pytest.fixture
def busy(desk: Desk, narrow: Pool) -> tuple[Workspace, Workspace]:
    """Two equal tenants with twenty jobs each; the first job runs."""
    a, b = make_tenant("a", narrow), make_tenant("b", narrow)
    submit(a, 20)
    submit(b, 20)
    desk.turn()
    return a, b


def ten(desk: Desk) -> list[Job]:
    """Return the next ten jobs that are placed, as slots free up one at a time."""
    placed: list[str] = []
    while len(placed) < 10:
        assert desk.finish(), placed
        placed += desk.turn()
    jobs = {str(job.id): job for job in Job.objects.filter(id__in=placed)}
    return [jobs[one] for one in placed[:10]]


def by_tenant(jobs: list[Job]) -> dict[str, int]:
    return dict(Counter(job.tenant.slug for job in jobs))


def waiting(workspace: Workspace) -> list[Job]:
    return list(Job.objects.filter(workspace=workspace, state="queued").order_by("seq"))


def test_before_any_lever_the_two_share_alike(
    desk: Desk, busy: tuple[Workspace, Workspace]
) -> None:
    assert by_tenant(ten(desk)) == {"a": 5, "b": 5}


def test_what_is_expedited_goes_first_in_the_order_of_age(
    desk: Desk, busy: tuple[Workspace, Workspace]
) -> None:
    late = waiting(busy[1])[-3:]
    ids = [job.id for job in reversed(late)]
    jobs_prioritise(job_ids=ids, job_class="expedite", **WHO)
    assert ten(desk)[:3] == late


def test_what_is_moved_down_goes_after_all_else(
    desk: Desk, busy: tuple[Workspace, Workspace]
) -> None:
    first = waiting(busy[1])[0]
    jobs_prioritise(job_ids=[first.id], job_class="batch", **WHO)
    assert first not in ten(desk)


def test_paused_jobs_are_passed_over_and_come_back_by_their_age(
    desk: Desk, busy: tuple[Workspace, Workspace]
) -> None:
    first = [job.id for job in waiting(busy[1])[:4]]
    jobs_pause(job_ids=first, **WHO)
    assert not {job.id for job in ten(desk)} & set(first)
    jobs_resume(job_ids=first, **WHO)
    assert [job.id for job in ten(desk) if job.tenant.slug == "b"][:4] == first


def test_a_held_tenants_old_and_new_jobs_wait_and_its_running_one_ends(
    desk: Desk, busy: tuple[Workspace, Workspace]
) -> None:
    a = busy[0]
    tenant_weight(tenant_id=a.tenant_id, weight=0, **WHO)
    new = submit(a)[0]
    assert by_tenant(ten(desk)) == {"b": 10}
    assert Job.objects.filter(tenant=a.tenant_id, state="done").count() == 1
    new.refresh_from_db()
    assert (new.state, new.reason) == ("queued", "tenant_held")
    tenant_weight(tenant_id=a.tenant_id, weight=1, **WHO)
    assert by_tenant(ten(desk))["a"] in (5, 6)  # lifted to the turn of now: no burst


def test_a_weight_of_four_gets_four_turns_of_five(
    desk: Desk, busy: tuple[Workspace, Workspace]
) -> None:
    tenant_weight(tenant_id=busy[1].tenant_id, weight=4, **WHO)
    assert by_tenant(ten(desk)) == {"a": 2, "b": 8}


def test_a_workspaces_weight_shares_out_its_tenants_turns_alone(
    desk: Desk, busy: tuple[Workspace, Workspace]
) -> None:
    side = workspace_create(tenant=busy[1].tenant, slug="side", name="Side", **WHO)
    submit(side, 20)
    workspace_weight(workspace_id=side.id, weight=4, **WHO)
    jobs = ten(desk)
    assert by_tenant(jobs) == {"a": 5, "b": 5}
    assert Counter(job.workspace_id for job in jobs)[side.id] == 4


def test_a_dearer_workflow_takes_the_room_of_four_and_no_other_tenants_does(
    desk: Desk, pool: Pool
) -> None:
    a, b = make_tenant("a", pool), make_tenant("b", pool)
    pool_dial(pool_id=pool.id, budget=5, **WHO)
    submit(a, 20)
    submit(b, 20)
    desk.turn()
    flow = Workflow.objects.get(tenant=a.tenant_id)
    workflow_cost(workflow_id=flow.id, cost=4, **WHO)
    assert by_tenant(ten(desk)) == {"a": 2, "b": 8}
    workflow_cost(workflow_id=flow.id, cost=1, **WHO)
    assert by_tenant(ten(desk))["a"] >= 4


def test_the_dial_goes_up_and_down_under_load(
    desk: Desk, busy: tuple[Workspace, Workspace]
) -> None:
    pool = Pool.objects.get()
    pool_dial(pool_id=pool.id, budget=4, **WHO)
    assert len(desk.turn()) == 3
    pool_dial(pool_id=pool.id, budget=1, **WHO)
    running = list(Job.objects.filter(state="running"))
    assert desk.turn() == []
    desk.finish(jobs=running[:3])
    assert desk.turn() == []
    desk.finish()
    assert len(desk.turn()) == 1


def test_a_canceled_job_is_passed_over(desk: Desk, busy: tuple[Workspace, Workspace]) -> None:
    gone = waiting(busy[1])[:2]
    jobs_cancel(job_ids=[job.id for job in gone], now=timezone.now(), **WHO)
    placed = ten(desk)
    assert not set(gone) & set(placed)
    assert by_tenant(placed) == {"a": 5, "b": 5}


def test_a_job_put_back_is_admitted_and_waits_behind_what_waited(
    desk: Desk, busy: tuple[Workspace, Workspace]
) -> None:
    old = waiting(busy[1])[0]
    jobs_cancel(job_ids=[old.id], now=timezone.now(), **WHO)
    desk.turn()
    jobs_requeue(job_ids=[old.id], now=timezone.now(), **WHO)
    desk.turn()
    assert jobs_readmit(now=timezone.now()) == 1
    assert old not in ten(desk)
    order = [spot.job.id for spot in desk.state(Pool.objects.get()).order.walk_all()]
    mine = [one for one in order if one in {str(job.id) for job in waiting(busy[1])}]
    assert mine[-1] == str(old.id)


@pytest.mark.parametrize("lever", ["tenant", "workspace", "workflow"])
def test_a_running_cap_of_one_leaves_the_room_to_the_other(
    desk: Desk, pool: Pool, lever: str
) -> None:
    a, b = make_tenant("a", pool), make_tenant("b", pool)
    flow = Workflow.objects.get(tenant=a.tenant_id)

    def cap(most: int | None) -> None:
        if lever == "tenant":
            tenant_limit(tenant_id=a.tenant_id, max_running=most, **WHO)
        elif lever == "workspace":
            workspace_limit(workspace_id=a.id, max_running=most, **WHO)
        else:
            workflow_limit(workflow_id=flow.id, max_running=most, **WHO)

    cap(1)
    submit(a, 20)
    submit(b, 20)
    desk.turn()
    assert by_tenant(list(Job.objects.filter(state="running"))) == {"a": 1, "b": 9}
    cap(None)
    desk.finish()
    desk.turn()
    assert Job.objects.filter(state="running", tenant=a.tenant_id).count() >= 5


def test_an_executor_is_drained_switched_off_and_given_fewer_slots(desk: Desk, pool: Pool) -> None:
    a = make_tenant("a", pool)
    second = make_executor(pool, "second", slots=5)
    first = Executor.objects.exclude(id=second.id).get()
    submit(a, 80)
    desk.turn()

    def used() -> dict[str, int]:
        return dict(Counter(job.attempts.latest("fence").executor.slug for job in ten(desk)))

    assert set(used()) == {"main-sim", "second"}
    executor_drain(executor_id=first.id, draining=True, **WHO)
    assert used() == {"second": 10}
    executor_drain(executor_id=first.id, draining=False, **WHO)
    executor_enable(executor_id=second.id, enabled=False, **WHO)
    assert used() == {"main-sim": 10}
    executor_enable(executor_id=second.id, enabled=True, **WHO)
    executor_enable(executor_id=first.id, enabled=False, **WHO)
    executor_capacity(executor_id=second.id, slots=2, **WHO)
    desk.finish()
    assert len(desk.turn()) == 2
