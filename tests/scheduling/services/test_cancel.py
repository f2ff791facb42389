"""Canceling in each state, and what it gives back."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from billing.models import Balance, LedgerEntry, Reservation
from billing.services.checks import balances_differ
from scheduling.core.states import ENDED_JOBS
from scheduling.executors.contract import ErrorClass
from scheduling.models import Attempt, Job, JobEvent
from scheduling.services.cancel import JobEnded, job_cancel
from tenants.models import Workspace
from tests.scheduling.factories import (
    LONG_AGO,
    WHO,
    claim,
    done,
    failed,
    make_budget,
    place,
    settle,
    submit,
)


def cancel(job: Job) -> Job:
    Job.objects.filter(id=job.id, finished_at=None).update(changed=LONG_AGO)
    return job_cancel(job_id=job.id, now=timezone.now(), **WHO)


def gone(job: Job) -> None:
    """Check that the job ended canceled, told so, and holds nothing."""
    job.refresh_from_db()
    assert (job.state, job.reason, job.changed != LONG_AGO) == ("canceled", "canceled", True)
    assert job.finished_at is not None
    assert job.wake_at is None
    told = JobEvent.objects.filter(job=job).latest("id")
    assert (told.event, told.data) == ("canceled", {"by": "root", "why": "test"})
    assert not Reservation.objects.filter(state="open").exists()
    assert balances_differ() == []


def test_a_queued_job_ends_at_once_and_gives_its_money_back(acme: Workspace) -> None:
    make_budget(acme, "10")
    job = submit(acme)[0]
    assert Balance.objects.get().held == 1
    cancel(job)
    gone(job)
    assert Balance.objects.get().held == 0


def test_a_deferred_job_ends_at_once(acme: Workspace) -> None:
    job = submit(acme, not_before=timezone.now() + timedelta(hours=1))[0]
    cancel(job)
    gone(job)


def test_a_paused_job_ends_at_once(acme: Workspace) -> None:
    job = submit(acme, paused=True)[0]
    cancel(job)
    gone(job)


def test_a_job_that_waits_for_its_retry_ends_at_once(acme: Workspace, worker: int) -> None:
    make_budget(acme, "10")
    job = submit(acme)[0]
    attempt = place(job)
    claim(worker, [attempt])
    settle([attempt], failed(ErrorClass.PROVIDER_ERROR))
    cancel(job)
    gone(job)


def test_an_attempt_that_nobody_has_claimed_is_taken_back_and_refunded(
    acme: Workspace, worker: int
) -> None:
    job = submit(acme)[0]
    attempt = place(job, charge=3)
    cancel(job)
    gone(job)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.charge_due) == ("canceled", 0)
    assert claim(worker, [attempt]) == []
    assert not LedgerEntry.objects.exists()


def test_a_running_job_is_asked_to_stop_and_keeps_its_capacity_until_it_has(
    acme: Workspace, worker: int
) -> None:
    job = submit(acme)[0]
    attempt = place(job)
    claim(worker, [attempt])
    assert cancel(job).cancel_requested
    attempt.refresh_from_db()
    job.refresh_from_db()
    assert (attempt.state, job.state) == ("stopping", "running")
    settle([attempt], failed(ErrorClass.CANCELED))
    job.refresh_from_db()
    assert (job.state, job.reason) == ("canceled", "canceled")
    assert not Reservation.objects.filter(state="open").exists()


@pytest.mark.parametrize("state", sorted(ENDED_JOBS))
def test_an_ended_job_stays_as_it_is(acme: Workspace, state: str) -> None:
    job = submit(acme)[0]
    Job.objects.filter(id=job.id).update(state=state, finished_at=timezone.now())
    before = Job.objects.values().get()
    with pytest.raises(JobEnded) as refused:
        cancel(job)
    assert refused.value.job.state == state
    assert Job.objects.values().get() == before


def test_an_unknown_job_is_said_to_be_unknown(acme: Workspace) -> None:
    with pytest.raises(Job.DoesNotExist):
        job_cancel(job_id=acme.id, now=timezone.now(), **WHO)


def test_what_a_canceled_job_held_lets_the_next_one_in(acme: Workspace) -> None:
    make_budget(acme, "1")
    holder, waits = submit(acme, 2)
    assert (holder.state, waits.state) == ("queued", "deferred")
    cancel(holder)
    waits.refresh_from_db()
    assert waits.wake_at is not None
    assert waits.wake_at <= timezone.now()


@pytest.mark.django_db(transaction=True)
def test_a_cancel_and_a_claim_at_once_leave_one_of_two_clear_ends(
    acme: Workspace, worker: int
) -> None:
    for job in submit(acme, 12):
        attempt = place(job)

        def claims(one: Attempt = attempt) -> int:
            try:
                return len(claim(worker, [one]))
            finally:
                connection.close()

        def cancels(one: Job = job) -> None:
            try:
                cancel(one)
            finally:
                connection.close()

        with ThreadPoolExecutor(2) as threads:
            claimed, asked = threads.submit(claims), threads.submit(cancels)
            asked.result()
            taken = claimed.result()
        attempt.refresh_from_db()
        job.refresh_from_db()
        ends = (taken, attempt.state, job.state)
        assert ends in [(0, "canceled", "canceled"), (1, "stopping", "running")]
        if taken:
            settle([attempt], done())
            job.refresh_from_db()
            assert job.state == "canceled"
