"""Retention forgets what ended long ago, and nothing else."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from billing.models import LedgerEntry, Reservation
from scheduling.models import Attempt, Decision, Job, JobEvent, Pool
from scheduling.services.retention import jobs_forget
from tests.scheduling.factories import make_tenant, submit
from tests.scheduling.governor.desk import Desk


@pytest.fixture
def three_ended(desk: Desk, pool: Pool) -> list[Job]:
    jobs = submit(make_tenant("a", pool), 3)
    desk.turn()
    desk.finish()
    desk.turn()
    Job.objects.filter(id=jobs[0].id).update(finished_at=timezone.now() - timedelta(days=40))
    Reservation.objects.filter(job_id=jobs[0].id).update(
        closed_at=timezone.now() - timedelta(days=40)
    )
    return jobs


def test_only_jobs_that_ended_before_are_forgotten_and_their_bills_stay(three_ended):
    booked = LedgerEntry.objects.count()
    call_command("retention", "--days", "30")
    kept = {job.id for job in three_ended[1:]}
    assert set(Job.objects.values_list("id", flat=True)) == kept
    for model in (Attempt, Decision, JobEvent):
        assert set(model.objects.values_list("job_id", flat=True)) == kept
    assert set(Reservation.objects.values_list("job_id", flat=True)) == kept
    assert LedgerEntry.objects.count() == booked


def test_jobs_that_still_wait_are_never_forgotten(desk: Desk, pool: Pool):
    submit(make_tenant("a", pool), 2)
    assert jobs_forget(before=timezone.now() + timedelta(days=365)) == 0
    assert Job.objects.count() == 2


def test_a_limit_of_no_days_is_refused():
    with pytest.raises(CommandError, match="at least 1"):
        call_command("retention", "--days", "0")
