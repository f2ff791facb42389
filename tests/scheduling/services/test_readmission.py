"""Admission anew: what was deferred, and jobs whose reservation ran out."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from billing.models import Balance, Reservation
from billing.services.checks import balances_differ
from scheduling.events import nudge_on_commit
from scheduling.executors.contract import ErrorClass
from scheduling.models import Attempt, Decision, Executor, Job, JobEvent, Pool
from scheduling.services.cancel import job_cancel
from scheduling.services.health import executor_health_set
from scheduling.services.readmission import jobs_readmit, reservations_sweep
from tenants.models import Workspace
from tests.scheduling.factories import (
    LONG_AGO,
    WHO,
    claim,
    failed,
    make_budget,
    make_policy,
    make_tenant,
    place,
    settle,
    submit,
)

SOON = timedelta(hours=1)
LATER = timedelta(days=2)
FINAL = failed(ErrorClass.INVALID_REQUEST)


def final(attempts: list[Attempt]) -> int:
    return settle(attempts, FINAL).settled


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def test_a_job_is_admitted_when_its_time_has_come_and_not_before(
    acme: Workspace, now: datetime
) -> None:
    make_budget(acme, "10")
    job = submit(acme, not_before=now + SOON)[0]
    assert jobs_readmit(now=now) == 0
    Job.objects.update(changed=LONG_AGO)
    assert jobs_readmit(now=now + SOON) == 1
    again = Job.objects.get()
    assert (again.state, again.reason, again.wake_at, again.changed != LONG_AGO) == (
        "queued", "in_order", None, True,
    )  # fmt: skip
    assert (again.seq, again.submitted_at) == (job.seq, job.submitted_at)
    assert Balance.objects.get().held == 1
    assert list(Decision.objects.values_list("verdict", flat=True)) == ["deferred", "queued"]
    assert JobEvent.objects.latest("id").event == "queued"
    assert jobs_readmit(now=now + SOON) == 0


def test_the_oldest_get_in_first_and_the_rest_wait_on(acme: Workspace, now: datetime) -> None:
    make_budget(acme, "2")
    jobs = submit(acme, 5, not_before=now + SOON)
    assert jobs_readmit(now=now + SOON) == 5
    states = [Job.objects.get(id=job.id).state for job in jobs]
    assert states == ["queued", "queued", "deferred", "deferred", "deferred"]
    assert jobs_readmit(now=now + SOON) == 0


def test_a_limit_takes_the_oldest_of_all_workspaces(
    acme: Workspace, pool: Pool, now: datetime
) -> None:
    beta = make_tenant("beta", pool)
    first = submit(beta, not_before=now + SOON)
    submit(acme, 3, not_before=now + SOON)
    assert jobs_readmit(now=now + SOON, limit=2) == 2
    assert Job.objects.get(id=first[0].id).state == "queued"
    assert Job.objects.filter(state="deferred").count() == 2


def test_a_full_backlog_turns_nobody_away_who_is_part_of_it(acme: Workspace, now: datetime) -> None:
    make_policy(backlog={"workspace": 2})
    submit(acme, 2, not_before=now + SOON)
    assert jobs_readmit(now=now + SOON) == 2
    assert set(Job.objects.values_list("state", flat=True)) == {"queued"}


def test_a_deadline_that_passed_meanwhile_denies_the_job(acme: Workspace, now: datetime) -> None:
    submit(acme, not_before=now + SOON, deadline=now + 2 * SOON)
    assert jobs_readmit(now=now + 3 * SOON) == 1
    job = Job.objects.get()
    assert (job.state, job.reason) == ("denied", "deadline")
    assert job.finished_at is not None


def test_a_job_that_somebody_works_on_is_left_for_the_next_time(
    acme: Workspace, now: datetime
) -> None:
    submit(acme, not_before=now + SOON)
    with transaction.atomic():
        assert jobs_readmit(now=now + SOON) == 1


@pytest.mark.django_db(transaction=True)
def test_readmitting_many_tenants_and_settling_them_at_once_never_deadlocks(
    acme: Workspace, pool: Pool, worker: int, now: datetime
) -> None:
    spaces = [acme, *(make_tenant(f"t{n}", pool) for n in range(3))]
    for space in spaces:
        make_budget(space, "100000")
    barrier = threading.Barrier(3)

    def together(call: Any) -> Any:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=20)
            return call()
        finally:
            connection.close()

    for _ in range(5):
        attempts = [place(job) for space in spaces[::-1] for job in submit(space, 4)]
        claim(worker, attempts)
        for space in spaces:
            submit(space, 4, not_before=now + SOON)
        calls = [
            partial(jobs_readmit, now=now + SOON),
            partial(final, attempts[::2]),
            partial(final, attempts[1::2][::-1]),
        ]
        with ThreadPoolExecutor(3) as threads:
            assert list(threads.map(together, calls)) == [16, 8, 8]
    assert balances_differ() == []


def test_a_queued_job_whose_reservation_ran_out_goes_back_to_admission(
    acme: Workspace, now: datetime
) -> None:
    make_budget(acme, "10")
    submit(acme)
    assert reservations_sweep(now=now) == 0
    Job.objects.update(changed=LONG_AGO)
    assert reservations_sweep(now=now + LATER) == 1
    job = Job.objects.get()
    assert (job.state, job.reason, job.changed != LONG_AGO) == ("deferred", "budget", True)
    assert Balance.objects.get().held == 0
    assert jobs_readmit(now=now + LATER) == 1
    job.refresh_from_db()
    assert job.state == "queued"
    assert Balance.objects.get().held == 1
    assert reservations_sweep(now=now + LATER) == 0


def test_what_a_swept_reservation_held_lets_another_in(acme: Workspace, now: datetime) -> None:
    make_budget(acme, "1")
    submit(acme, 2)
    make_budget(acme, "2")
    assert reservations_sweep(now=now + LATER) == 1
    assert jobs_readmit(now=now + LATER) == 2
    assert set(Job.objects.values_list("state", flat=True)) == {"queued"}


def test_what_runs_or_waits_for_its_retry_stays_funded(
    acme: Workspace, worker: int, now: datetime
) -> None:
    make_budget(acme, "10")
    runs, waits = submit(acme, 2)
    attempts = [place(runs), place(waits)]
    claim(worker, attempts)
    settle(attempts[1:], failed(ErrorClass.PROVIDER_ERROR))
    assert reservations_sweep(now=now + LATER) == 0
    assert Reservation.objects.filter(state="open", expires_at__gt=now + LATER).count() == 2
    assert Balance.objects.get().held == 2


@pytest.mark.django_db(transaction=True)
def test_a_sweep_and_cancels_at_once_never_deadlock(acme: Workspace, now: datetime) -> None:
    make_budget(acme, "10000")
    for _ in range(4):
        jobs = submit(acme, 8)
        barrier = threading.Barrier(3)

        def sweep(at: threading.Barrier = barrier) -> None:
            try:
                at.wait(timeout=20)
                reservations_sweep(now=now + LATER)
            finally:
                connection.close()

        def cancel(own: list[Job], at: threading.Barrier = barrier) -> None:
            try:
                at.wait(timeout=20)
                for job in own:
                    job_cancel(job_id=job.id, now=now, **WHO)
            finally:
                connection.close()

        with ThreadPoolExecutor(3) as threads:
            calls = [threads.submit(sweep)]
            calls += [threads.submit(cancel, own) for own in (jobs[::2], jobs[1::2][::-1])]
            for call in calls:
                call.result()
    assert set(Job.objects.values_list("state", flat=True)) == {"canceled"}
    assert not Reservation.objects.filter(state="open").exists()
    assert balances_differ() == []


def test_a_probes_finding_is_stored_once(executor: Executor) -> None:
    assert executor_health_set(executor_id=executor.id, health="down")
    assert not executor_health_set(executor_id=executor.id, health="down")
    assert Executor.objects.get().health == "down"


def test_a_nudge_waits_for_the_commit(
    db: None, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    told: list[str] = []
    monkeypatch.setattr("scheduling.events.nudge", lambda: told.append("now"))
    with django_capture_on_commit_callbacks(execute=True):
        nudge_on_commit()
        assert told == []
    assert told == ["now"]
