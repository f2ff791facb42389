"""What the leader does by the clock: waking, sending again, and settling lost work."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from scheduling.controls.workflows import WorkflowSettings, workflow_put
from scheduling.governor.sweep import Woken, admission_is_due, settle_lost, unclaimed, wake
from scheduling.models import Attempt, Circuit, Executor, Job, Pool, Worker
from scheduling.tasks.process import LOCK_SPACE, _session
from tests.scheduling.factories import (
    LONG_AGO,
    claim,
    make_executor,
    make_pool,
    make_tenant,
    place,
    set_circuit,
    submit,
)
from tests.scheduling.governor.desk import Desk


@pytest.fixture
def desk_with_attempt(desk: Desk, pool: Pool) -> tuple[Desk, Attempt]:
    job = submit(make_tenant("acme", pool))[0]
    desk.turn()
    return desk, Attempt.objects.get(job=job)


def aged(attempt: Attempt, **columns: float) -> None:
    """Move times of an attempt so many seconds away from now."""
    now = timezone.now()
    times = {name: now + timedelta(seconds=s) for name, s in columns.items()}
    Attempt.objects.filter(id=attempt.id).update(**times)


def test_an_unclaimed_attempt_is_sent_again_with_growing_pauses(
    desk_with_attempt: tuple[Desk, Attempt],
) -> None:
    desk, attempt = desk_with_attempt
    for sends, pause in enumerate((2, 4, 8, 16, 32, 32), start=1):
        aged(attempt, sent_at=-pause + 0.5)
        assert unclaimed(desk.leader.book, desk.leader.epoch) == []
        aged(attempt, sent_at=-pause - 0.1)
        again = unclaimed(desk.leader.book, desk.leader.epoch)
        assert [(one.attempt, one.fence, one.queue) for one in again] == [
            (str(attempt.id), 1, "simulated")
        ]
        attempt.refresh_from_db()
        assert attempt.sends == sends + 1


def test_a_claimed_attempt_is_not_sent_again(desk_with_attempt: tuple[Desk, Attempt]) -> None:
    desk, attempt = desk_with_attempt
    desk.claim()
    aged(attempt, sent_at=-1000)
    assert unclaimed(desk.leader.book, desk.leader.epoch) == []


def lost(desk: Desk) -> bool:
    return settle_lost(desk.leader.epoch) == 1


def test_an_attempt_whose_lease_ran_out_is_lost_and_its_job_queued_again(
    desk_with_attempt: tuple[Desk, Attempt],
) -> None:
    desk, attempt = desk_with_attempt
    desk.claim()
    assert not lost(desk)
    aged(attempt, lease_until=-0.1)
    assert lost(desk)
    attempt.refresh_from_db()
    job = Job.objects.get(id=attempt.job_id)
    assert (attempt.state, job.state, job.reason, job.tries) == ("lost", "queued", "worker_lost", 0)
    assert not lost(desk)
    assert desk.turn() == [str(job.id)]
    assert Attempt.objects.get(job=job, fence=2).state == "dispatched"


def test_a_silent_worker_without_its_lock_is_lost_before_its_lease_ends(
    desk_with_attempt: tuple[Desk, Attempt], settings: Any
) -> None:
    desk, attempt = desk_with_attempt
    desk.claim()
    aged(attempt, lease_until=settings.WORKER_LEASE_S - 1.0)
    assert not lost(desk)
    aged(attempt, lease_until=settings.WORKER_LEASE_S - 1.3)
    assert lost(desk)


def test_a_silent_worker_that_holds_its_lock_keeps_its_lease(
    desk_with_attempt: tuple[Desk, Attempt], settings: Any
) -> None:
    desk, attempt = desk_with_attempt
    desk.claim()
    aged(attempt, lease_until=settings.WORKER_LEASE_S - 1.3)
    with _session() as session:
        session.execute("SELECT pg_advisory_lock(%s, %s)", (LOCK_SPACE, desk.worker))
        assert not lost(desk)
    aged(attempt, lease_until=-0.1)
    assert lost(desk)


def test_another_lock_of_that_number_does_not_count(
    desk_with_attempt: tuple[Desk, Attempt], settings: Any
) -> None:
    desk, attempt = desk_with_attempt
    desk.claim()
    aged(attempt, lease_until=settings.WORKER_LEASE_S - 1.3)
    with _session() as session:
        session.execute("SELECT pg_advisory_lock(%s, %s)", (LOCK_SPACE + 1, desk.worker))
        assert lost(desk)


def test_an_attempt_whose_worker_row_is_gone_is_lost(
    desk_with_attempt: tuple[Desk, Attempt], settings: Any
) -> None:
    desk, attempt = desk_with_attempt
    desk.claim()
    Worker.objects.filter(id=desk.worker).delete()
    aged(attempt, lease_until=settings.WORKER_LEASE_S - 1.3)
    assert lost(desk)


def test_lost_work_that_must_not_run_twice_fails(desk: Desk, pool: Pool) -> None:
    job = submit(make_tenant("acme", pool), idempotent=False)[0]
    desk.turn()
    desk.claim()
    Attempt.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert lost(desk)
    job.refresh_from_db()
    assert (job.state, job.reason) == ("failed", "worker_lost")
    assert job.error is not None
    assert job.error["class"] == "lost"


def test_lost_work_that_must_not_run_twice_waits_for_a_worker_that_holds_its_lock(
    desk: Desk, pool: Pool, settings: Any
) -> None:
    acme = make_tenant("acme", pool)
    once, twice = submit(acme, idempotent=False)[0], submit(acme)[0]
    desk.turn()
    desk.claim()
    for attempt in Attempt.objects.all():
        aged(attempt, lease_until=-9 * settings.WORKER_LEASE_S + 2)
    with _session() as session:
        session.execute("SELECT pg_advisory_lock(%s, %s)", (LOCK_SPACE, desk.worker))
        assert lost(desk)
        assert Attempt.objects.get(state="lost").job_id == twice.id
        assert not lost(desk)
        aged(Attempt.objects.get(job=once), lease_until=-9 * settings.WORKER_LEASE_S - 0.1)
        assert lost(desk)
    once.refresh_from_db()
    assert (once.state, once.reason) == ("failed", "worker_lost")


def test_a_new_leader_gives_workers_time_to_renew_their_leases(
    desk_with_attempt: tuple[Desk, Attempt], settings: Any
) -> None:
    desk, attempt = desk_with_attempt
    desk.claim()
    aged(attempt, lease_until=-1)
    desk.leader._settle_lost()
    attempt.refresh_from_db()
    assert attempt.state == "running"
    desk.leader._began -= settings.WORKER_LEASE_S
    desk.leader._settle_lost()
    attempt.refresh_from_db()
    assert attempt.state == "lost"


def test_one_lost_attempt_that_cannot_be_settled_does_not_stop_the_others(
    desk: Desk, pool: Pool
) -> None:
    bad_pool = make_pool("bad")
    bad = make_executor(bad_pool)
    good, poor = submit(make_tenant("acme", pool))[0], submit(make_tenant("beta", bad_pool))[0]
    attempts = [place(good), place(poor)]
    claim(desk.worker, attempts)
    Executor.objects.filter(id=bad.id).update(provider="nobody-prices-this")
    Attempt.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    settle_lost(desk.leader.epoch)
    states = dict(Attempt.objects.values_list("job_id", "state"))
    assert states == {good.id: "lost", poor.id: "running"}


def test_a_waiting_job_is_queued_when_it_is_due_and_not_before(desk: Desk, pool: Pool) -> None:
    job = submit(make_tenant("acme", pool))[0]
    soon = timezone.now() + timedelta(seconds=30)
    Job.objects.filter(id=job.id).update(state="waiting", wake_at=soon, changed=LONG_AGO)
    assert wake(desk.leader.epoch) == Woken(0, 0)
    Job.objects.update(wake_at=timezone.now() - timedelta(seconds=1))
    assert wake(desk.leader.epoch) == Woken(1, 0)
    job.refresh_from_db()
    assert (job.state, job.wake_at, job.reason, job.changed != LONG_AGO) == (
        "queued",
        None,
        "in_order",
        True,
    )


def test_an_open_circuit_is_half_open_when_its_rest_is_over(desk: Desk, pool: Pool) -> None:
    soon = timezone.now() + timedelta(seconds=30)
    set_circuit("open", soon)
    assert wake(desk.leader.epoch) == Woken(0, 0)
    assert Circuit.objects.get().state == "open"
    set_circuit("open", timezone.now() - timedelta(seconds=1))
    assert wake(desk.leader.epoch) == Woken(0, 1)
    assert Circuit.objects.get().state == "half_open"


def test_a_half_open_executor_is_given_one_job(desk: Desk, pool: Pool) -> None:
    set_circuit("half_open", timezone.now())
    submit(make_tenant("acme", pool), 3)
    assert len(desk.turn()) == 1


def test_admission_is_due_when_a_deferred_jobs_time_has_come(desk: Desk, pool: Pool) -> None:
    later = timezone.now() + timedelta(hours=1)
    job = submit(make_tenant("acme", pool), not_before=later)[0]
    assert job.state == "deferred"
    assert not admission_is_due()
    desk.leader._readmit()
    assert desk.control.count("scheduling.jobs_readmit") <= 1
    Job.objects.update(wake_at=timezone.now() - timedelta(seconds=1))
    assert admission_is_due()
    before = len(desk.control)
    desk.leader._readmit()
    assert desk.control[before:] == ["scheduling.jobs_readmit"]


def test_a_worker_that_was_not_seen_lately_gives_no_slots(desk: Desk, pool: Pool) -> None:
    Worker.objects.update(seen_at=timezone.now() - timedelta(seconds=6))
    submit(make_tenant("acme", pool))
    assert desk.turn() == []
    Worker.objects.update(seen_at=timezone.now() + timedelta(minutes=1))
    desk.leader._reconfigure()
    assert len(desk.turn()) == 1


def test_slots_are_the_threads_of_the_workers_that_serve_the_kind(desk: Desk, pool: Pool) -> None:
    Worker.objects.update(threads=2)
    Worker.objects.create(name="other", queues=["local-model"], threads=50, seen_at=timezone.now())
    submit(make_tenant("acme", pool), 5)
    assert len(desk.turn()) == 2


def test_a_workflow_made_after_the_leader_began_is_known_with_its_cost(
    desk: Desk, pool: Pool
) -> None:
    acme = make_tenant("acme", pool)
    desk.turn()
    settings = WorkflowSettings(pool=pool, cost=4)
    workflow_put(
        tenant=acme.tenant, slug="later", settings=settings, acting_user="root", reason="test"
    )
    job = submit(acme, workflow="later")[0]
    desk.turn()
    assert Attempt.objects.get(job=job).cost == 4
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM scheduling_attempt WHERE cost = 4")
        assert cursor.fetchone() == (1,)


def test_the_leader_has_expired_jobs_ended_and_starts_none_past_its_time(
    desk: Desk, pool: Pool
) -> None:
    acme = make_tenant("acme", pool)
    now = timezone.now()
    jobs = submit(acme, 3, expires_at=now + timedelta(hours=1), deadline=now + timedelta(hours=1))
    assert desk.turn() != []
    Job.objects.update(state="queued", started_at=None)  # as if nothing had been dispatched
    Attempt.objects.all().delete()
    desk.restart()
    Job.objects.filter(id=jobs[0].id).update(expires_at=now)
    Job.objects.filter(id=jobs[1].id).update(deadline=now)
    assert desk.turn() == [str(jobs[2].id)]
    assert "scheduling.jobs_expire" in desk.control
    assert desk.turn() == []
