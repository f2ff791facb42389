"""A new leader's memory, built from the rows, is what the last leader knew."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from scheduling.controls.pools import pool_dial
from scheduling.core.types import Reason
from scheduling.executors.contract import ErrorClass
from scheduling.governor.book import Book
from scheduling.governor.dispatch import remember
from scheduling.governor.durations import LAST_RUNS
from scheduling.models import Attempt, Job, PolicyVersion, Pool, Workflow
from tenants.models import Tenant, Workspace
from tests.scheduling.factories import (
    WHO,
    done,
    failed,
    make_policy,
    make_tenant,
    submit,
)
from tests.scheduling.governor.desk import Desk


@pytest.fixture
def one_unit(pool: Pool) -> Pool:
    pool_dial(pool_id=pool.id, budget=1, reserve=0, **WHO)
    return pool


def picture(book: Book, pool: Pool) -> dict[str, object]:
    state = book.states[str(pool.id)]
    return {
        "order": [(s.job.id, s.class_name, s.turn) for s in state.order.walk_all()],
        "blocked": [job.id for job in state.order.blocked_jobs()],
        "live": {(one.job_id, one.cost, one.executor) for one in state.live.values()},
        "parked": dict(book.parked),
        "never": sorted(state.never_fits),
        "rows": sorted(book.rows),
    }


def test_a_restart_finds_order_live_parked_and_held_jobs_as_they_were(
    desk: Desk, pool: Pool
) -> None:
    pool_dial(pool_id=pool.id, budget=4, reserve=0, **WHO)
    spaces = [make_tenant(f"t{n}", pool, weight=n) for n in (1, 2, 3)]
    held = make_tenant("held", pool)
    Tenant.objects.filter(id=held.tenant_id).update(held=True)
    for space in spaces:
        submit(space, 6)
    submit(held, 2)
    submit(spaces[0], paused=True)
    submit(spaces[0], not_before=timezone.now() + timedelta(hours=1))
    submit(spaces[1], job_class="batch")
    desk.turn()
    desk.finish(failed(ErrorClass.PROVIDER_ERROR), jobs=[])
    desk.claim()
    first = Attempt.objects.order_by("dispatched_at", "id").first()
    assert first is not None
    desk.finish(failed(ErrorClass.PROVIDER_ERROR), jobs=[first.job])
    desk.turn()
    before = picture(desk.leader.book, pool)
    assert len(before["parked"]) == 3  # type: ignore[arg-type]
    assert len(before["blocked"]) == 2  # type: ignore[arg-type]
    desk.restart()
    after = picture(desk.leader.book, pool)
    assert after == before
    assert sorted(desk.leader.book.parked.values()) == sorted(
        [Reason.JOB_PAUSED, Reason.NOT_BEFORE, Reason.RETRY_WAIT]
    )


def test_a_restart_forgets_no_tenants_turns(desk: Desk, one_unit: Pool) -> None:
    make_policy(share_by="turns")
    old, new = make_tenant("old", one_unit), make_tenant("new", one_unit)
    submit(old, 12)
    own = {str(job.id) for job in submit(new, 6)}
    placed = desk.turn()
    for _ in range(9):
        desk.finish()
        desk.restart()
        placed += desk.turn()
    assert sum(one in own for one in placed) == 5


def test_a_crash_right_after_a_dispatch_forgets_none_of_its_charges(
    desk: Desk, one_unit: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(make_tenant("acme", one_unit))[0]
    with monkeypatch.context() as patch:
        patch.setattr("scheduling.governor.loop.remember", lambda *_: None)
        desk.turn()
    desk.restart(give_up=False)
    state = desk.state(one_unit)
    assert list(state.live) == [str(job.id)]
    key = ("normal", str(job.tenant_id), None)
    assert state.order.memory(key).turn == 1


def test_a_correction_that_was_not_stored_is_applied_by_the_next_leader_once(
    desk: Desk, one_unit: Pool
) -> None:
    acme = make_tenant("acme", one_unit)
    submit(acme, 2)
    desk.turn()
    attempt = Attempt.objects.get()
    desk.finish(failed(ErrorClass.UNREACHABLE))
    attempt.refresh_from_db()
    assert (attempt.charge, attempt.charge_due) == (1, 0)
    desk.restart(give_up=False)
    key = ("normal", str(acme.tenant_id), None)
    assert desk.state(one_unit).order.memory(key).turn == 0
    desk.leader._take_up()
    remember(desk.leader.book, desk.leader.epoch)
    attempt.refresh_from_db()
    assert (attempt.charge, attempt.charge_due) == (0, None)
    desk.restart()
    assert desk.state(one_unit).order.memory(key).turn == 0


def test_a_correction_for_a_class_that_the_policy_no_longer_has_is_dropped(
    desk: Desk, one_unit: Pool
) -> None:
    acme = make_tenant("acme", one_unit)
    submit(acme, 2, job_class="batch")
    desk.turn()
    desk.finish(failed(ErrorClass.UNREACHABLE))
    make_policy(classes=[{"name": "normal"}])
    desk.restart(give_up=False)
    desk.turn()
    assert not Attempt.objects.filter(charge_due__isnull=False).exists()


def test_a_live_job_of_a_class_that_the_policy_no_longer_has_runs_on_and_ends(
    desk: Desk, one_unit: Pool
) -> None:
    acme = make_tenant("acme", one_unit)
    first, second = submit(acme, 2, job_class="batch")
    assert desk.turn() == [str(first.id)]
    make_policy(classes=[{"name": "normal"}])
    desk.turn()
    assert desk.leader.book.config.policy.number == PolicyVersion.objects.get(state="active").number
    desk.finish(failed(ErrorClass.UNREACHABLE))
    assert desk.turn() == [str(second.id)]


def test_a_restart_keeps_what_a_tenant_was_behind(desk: Desk, one_unit: Pool) -> None:
    make_policy(share_by="tokens")
    big, small = make_tenant("big", one_unit), make_tenant("small", one_unit)
    submit(big, 3, tokens={"input": 0, "output": 50})
    own = {str(job.id) for job in submit(small, 30, tokens={"input": 1, "output": 0})}
    placed = desk.turn()
    desk.finish(done(output_total=50))
    for _ in range(10):
        placed += desk.turn()
        desk.restart()
        desk.finish(done(input_total=1))
    assert sum(one in own for one in placed) == 10


def test_parked_jobs_of_a_restart_wake_like_any_other(desk: Desk, one_unit: Pool) -> None:
    acme = make_tenant("acme", one_unit)
    job = submit(acme, max_attempts=3)[0]
    desk.turn()
    desk.finish(failed(ErrorClass.PROVIDER_ERROR))
    desk.restart()
    assert desk.turn() == []
    Job.objects.filter(id=job.id).update(wake_at=timezone.now() - timedelta(seconds=1))
    desk.leader._wake()
    assert desk.turn() == [str(job.id)]


def test_a_job_with_a_stranger_for_a_workspace_weight_is_ordered(
    desk: Desk, one_unit: Pool
) -> None:
    acme = make_tenant("acme", one_unit)
    desk.turn()
    other = Workspace.objects.create(tenant_id=acme.tenant_id, slug="late", name="Late", weight=2)
    job = submit(other)[0]
    assert desk.turn() == [str(job.id)]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM scheduling_servicememory WHERE workspace_id = %s", [str(other.id)]
        )
        assert cursor.fetchone()[0] == 1


def test_what_a_workflows_runs_take_is_known_again_however_many_of_its_jobs_wait(
    desk: Desk, pool: Pool
) -> None:
    space = make_tenant("a", pool)
    submit(space)
    desk.turn()
    desk.finish()
    desk.turn()
    submit(space, 4 * LAST_RUNS + 1)
    desk.restart()
    assert desk.leader.book.durations.knows(str(Workflow.objects.get().id))
