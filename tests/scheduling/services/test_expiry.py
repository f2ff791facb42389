"""Jobs that are not wanted any more: past their time to live, or past their deadline."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from billing.models import Balance
from billing.services.checks import balances_differ
from scheduling.controls.jobs import jobs_pause, jobs_requeue
from scheduling.executors.contract import ErrorClass
from scheduling.governor.sweep import expiry_is_due
from scheduling.models import Job, JobEvent
from scheduling.services.drafts import After, Refused
from scheduling.services.expiry import jobs_expire
from scheduling.services.readmission import jobs_readmit
from tenants.models import Workspace
from tests.at_once import at_once
from tests.scheduling.factories import (
    LONG_AGO,
    WHO,
    accepted,
    asked,
    done,
    failed,
    make_budget,
    running,
    settle,
    submit,
    submit_all,
)

SOON = timedelta(minutes=1)


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def standing(job: Job) -> tuple[str, str]:
    job.refresh_from_db()
    return job.state, job.reason


def test_a_time_to_live_counts_from_the_submission(acme: Workspace, now: datetime) -> None:
    job = accepted(acme, now, ttl_s=60.0).job
    assert job.expires_at == now + SOON
    assert accepted(acme, now, expires_at=now + SOON).job.expires_at == now + SOON
    assert accepted(acme, now).job.expires_at is None


def test_two_ends_or_a_bad_one_are_refused_by_their_field(acme: Workspace, now: datetime) -> None:
    both, short = submit_all(
        acme, [asked(ttl_s=60.0, expires_at=now + SOON), asked(ttl_s=0.0)], now=now
    )
    assert isinstance(both, Refused)
    assert [(e.field, "one of the two" in e.sentence) for e in both.errors] == [("ttl_s", True)]
    assert isinstance(short, Refused)
    assert [one.field for one in short.errors] == ["ttl_s"]


def test_one_that_would_expire_before_it_may_start_is_denied(
    acme: Workspace, now: datetime
) -> None:
    over = accepted(acme, now, expires_at=now - SOON)
    assert (over.job.state, over.decision.reason) == ("denied", "expired")
    never = accepted(acme, now, ttl_s=60.0, not_before=now + 2 * SOON)
    assert (never.job.state, never.decision.reason) == ("denied", "expired")


def test_a_job_that_did_not_start_in_its_time_expires_and_frees_its_budget(
    acme: Workspace, now: datetime
) -> None:
    make_budget(acme, "5")
    short, long = accepted(acme, now, ttl_s=60.0).job, accepted(acme, now, ttl_s=120.0).job
    Job.objects.update(changed=LONG_AGO)
    assert jobs_expire(now=now + SOON - timedelta(seconds=1)) == 0
    assert jobs_expire(now=now + SOON) == 1
    assert jobs_expire(now=now + SOON) == 0
    assert standing(short) == ("expired", "expired")
    assert short.finished_at == now + SOON
    assert short.changed != LONG_AGO
    assert standing(long) == ("queued", "in_order")
    told = JobEvent.objects.filter(job=short).latest("id")
    assert (told.event, told.reason) == ("expired", "expired")
    assert Balance.objects.get().held == 1
    assert balances_differ() == []


def test_every_way_of_waiting_can_expire(acme: Workspace, now: datetime) -> None:
    first = accepted(acme, now).job
    jobs = [
        accepted(acme, now, ttl_s=120.0, after=(After(job=first.id),)).job,
        accepted(acme, now, ttl_s=120.0, not_before=now + SOON).job,
        accepted(acme, now, deadline=now + SOON).job,
        accepted(acme, now, ttl_s=120.0, deadline=now + SOON).job,
        accepted(acme, now, ttl_s=120.0).job,
    ]
    assert [job.state for job in jobs] == ["waiting", "deferred", "queued", "queued", "queued"]
    jobs_pause(job_ids=[jobs[4].id], **WHO)
    assert jobs_expire(now=now + 3 * SOON) == 5
    reasons = ["expired", "expired", "deadline", "deadline", "expired"]
    assert [standing(job) for job in jobs] == [("expired", reason) for reason in reasons]


def test_once_started_a_job_outlives_its_time_to_live_but_not_its_deadline(
    acme: Workspace, worker: int, now: datetime
) -> None:
    lived, late = accepted(acme, now, ttl_s=60.0).job, accepted(acme, now, deadline=now + SOON).job
    attempts = [running(job, worker) for job in (lived, late)]
    Job.objects.update(started_at=now)
    assert jobs_expire(now=now + 2 * SOON) == 0
    settle(attempts, failed(ErrorClass.PROVIDER_ERROR), now)
    assert [standing(job)[0] for job in (lived, late)] == ["waiting", "waiting"]
    assert jobs_expire(now=now + 2 * SOON) == 1
    assert standing(lived) == ("waiting", "retry_wait")
    assert standing(late) == ("expired", "deadline")


def test_what_runs_past_its_deadline_is_let_end(
    acme: Workspace, worker: int, now: datetime
) -> None:
    job = accepted(acme, now, deadline=now + SOON).job
    attempt = running(job, worker)
    assert jobs_expire(now=now + 2 * SOON) == 0
    settle([attempt], done(), now + 2 * SOON)
    assert standing(job)[0] == "done"


def test_what_waits_for_an_expired_job_is_canceled_or_queued_by_its_condition(
    acme: Workspace, now: datetime
) -> None:
    make_budget(acme, "10")
    first = accepted(acme, now, ttl_s=60.0).job
    waits = {
        condition: accepted(acme, now, after=(After(job=first.id, condition=condition),)).job
        for condition in ("done", "accepted", "failed", "ended")
    }
    jobs_expire(now=now + SOON)
    assert {condition: standing(job)[0] for condition, job in waits.items()} == {
        "done": "canceled", "accepted": "canceled", "failed": "queued", "ended": "queued",
    }  # fmt: skip
    assert Balance.objects.get().held == 2
    assert balances_differ() == []


def test_a_budget_that_an_expired_job_frees_lets_a_deferred_one_in(
    acme: Workspace, now: datetime
) -> None:
    make_budget(acme, "1")
    first, second = accepted(acme, now, ttl_s=60.0).job, accepted(acme, now).job
    assert standing(second) == ("deferred", "budget")
    jobs_expire(now=now + SOON)
    assert jobs_readmit(now=now + SOON) == 1
    assert standing(second) == ("queued", "in_order")
    assert standing(first)[0] == "expired"


def test_a_job_that_is_put_back_loses_an_end_that_has_passed(
    acme: Workspace, now: datetime
) -> None:
    job = accepted(acme, now - 2 * SOON, ttl_s=60.0).job
    jobs_expire(now=now)
    (change,) = jobs_requeue(job_ids=[job.id], now=now, **WHO)
    assert "Its time to live, which is over." in change.step.lost
    jobs_readmit(now=now)
    assert standing(job) == ("queued", "in_order")
    assert job.expires_at is None


def test_the_leader_asks_only_for_what_waits(acme: Workspace, now: datetime) -> None:
    assert not expiry_is_due()
    job = submit(acme, expires_at=now + SOON, deadline=now + SOON)[0]
    assert not expiry_is_due()
    Job.objects.filter(id=job.id).update(expires_at=now - SOON)
    assert expiry_is_due()
    Job.objects.filter(id=job.id).update(started_at=now)
    assert not expiry_is_due()
    Job.objects.filter(id=job.id).update(deadline=now - SOON)
    assert expiry_is_due()
    Job.objects.filter(id=job.id).update(state="running", fence=1)
    assert not expiry_is_due()


@pytest.mark.django_db(transaction=True)
def test_several_sweeps_at_once_end_each_job_once(acme: Workspace, now: datetime) -> None:
    make_budget(acme, "100")
    submit(acme, 40, expires_at=now + SOON)
    ended: list[int] = []

    def sweep() -> None:
        while some := jobs_expire(now=now + SOON, limit=7):
            ended.append(some)

    at_once([sweep] * 4)
    assert sum(ended) == 40
    assert set(Job.objects.values_list("state", flat=True)) == {"expired"}
    assert JobEvent.objects.filter(event="expired").count() == 40
    assert Balance.objects.get().held == 0
    assert balances_differ() == []
