"""Settling: every end exactly once, with its money, its charge and what follows from it."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from billing.models import Balance, LedgerEntry, Reservation
from billing.services.checks import balances_differ
from scheduling.executors.contract import ErrorClass, Outcome
from scheduling.models import Attempt, Executor, Job, JobEvent, Workflow
from scheduling.services.cancel import JobEnded, job_cancel
from scheduling.services.settlement import BOOKING_FAULTS
from scheduling.services.settlement_rows import attempts_lock
from tenants.models import Workspace
from tests.scheduling.factories import (
    LONG_AGO,
    WHO,
    accepted,
    done,
    failed,
    make_budget,
    make_policy,
    running,
    settle,
    submit,
)

MILLION = 1_000_000


@pytest.fixture
def attempt(acme: Workspace, worker: int) -> Attempt:
    """A claimed attempt of a job that reserved 1 USD under a budget of 10."""
    make_budget(acme, "10")
    return running(submit(acme)[0], worker)


def again(job: Job, worker: int, fence: int) -> Attempt:
    Job.objects.filter(id=job.id).update(state="queued", wake_at=None)
    return running(job, worker, fence)


def sums() -> tuple[Any, Any]:
    balance = Balance.objects.get()
    return balance.spent, balance.held


def states(attempt: Attempt) -> tuple[str, str]:
    attempt.refresh_from_db()
    return attempt.state, Job.objects.get(id=attempt.job_id).state


def booked() -> list[tuple[str, str, Decimal]]:
    rows = LedgerEntry.objects.filter(meter="output")
    return sorted(rows.values_list("kind", "failure_class", "amount"))


def test_a_complete_attempt_ends_its_job_and_closes_the_reservation(attempt: Attempt) -> None:
    assert settle([attempt], done({"text": "hi"}, output_total=MILLION // 2)).settled == 1
    assert states(attempt) == ("complete", "done")
    job = Job.objects.get()
    assert (job.result, job.error, job.outcome, job.reason) == (
        {"text": "hi"}, None, "accepted", "finished",
    )  # fmt: skip
    assert job.changed != LONG_AGO
    assert job.finished_at is not None
    assert attempt.spend == Decimal("0.5")
    assert Reservation.objects.get().state == "settled"
    assert sums() == (Decimal("0.5"), 0)
    assert JobEvent.objects.latest("id").event == "finished"


def test_work_that_needs_review_is_not_accepted_yet(attempt: Attempt) -> None:
    Workflow.objects.update(needs_review=True)
    settle([attempt], done())
    assert Job.objects.get().outcome == "unreviewed"


def test_the_same_report_twice_settles_once(attempt: Attempt) -> None:
    outcome = done(output_total=MILLION)
    assert settle([attempt], outcome).settled == 1
    before = list(Job.objects.values()), JobEvent.objects.count()
    again = settle([attempt], outcome)
    assert (again.settled, again.stale) == (0, 1)
    assert (list(Job.objects.values()), JobEvent.objects.count()) == before
    assert sums() == (1, 0)
    assert LedgerEntry.objects.filter(meter="worker_seconds").count() == 1


def test_a_report_named_twice_in_one_set_settles_once(attempt: Attempt) -> None:
    assert settle([attempt, attempt], done()).settled == 1
    assert JobEvent.objects.filter(event="finished").count() == 1


def test_a_failure_waits_and_keeps_its_reservation(attempt: Attempt) -> None:
    now = timezone.now()
    settle([attempt], failed(ErrorClass.PROVIDER_ERROR, output_total=MILLION // 10), now)
    assert states(attempt) == ("error", "waiting")
    job = Job.objects.get()
    assert (job.tries, job.reason) == (1, "retry_wait")
    assert job.error == {"class": "provider_error", "message": "it was provider_error"}
    assert job.wake_at is not None
    assert timedelta(seconds=0.5) <= job.wake_at - now <= timedelta(seconds=1)
    assert Reservation.objects.get().state == "open"
    assert sums() == (Decimal("0.1"), 1)
    assert booked() == [("wasted", "provider_error", Decimal("0.1"))]


def test_the_last_try_fails_the_job_and_every_try_is_on_the_bill(
    attempt: Attempt, worker: int
) -> None:
    job = Job.objects.get()
    settle([attempt], failed(ErrorClass.INTERRUPTED, output_total=1000))
    settle([again(job, worker, 2)], failed(ErrorClass.RATE_LIMITED))
    last = again(job, worker, 3)
    settle([last], failed(ErrorClass.PROVIDER_ERROR, output_total=500))
    assert states(last) == ("error", "failed")
    job.refresh_from_db()
    assert (job.tries, job.reason) == (3, "attempts_exhausted")
    assert Reservation.objects.get().state == "settled"
    assert LedgerEntry.objects.filter(meter="worker_seconds").count() == 3
    assert sums() == (Decimal("0.0015"), 0)


def test_the_usage_of_failed_attempts_stays_in_the_cost_of_the_job(
    attempt: Attempt, worker: int
) -> None:
    job = Job.objects.get()
    settle([attempt], failed(ErrorClass.INTERRUPTED, output_total=1000))
    settle([again(job, worker, 2)], failed(ErrorClass.RATE_LIMITED))
    settle([again(job, worker, 3)], done(output_total=1000))
    assert booked() == [
        ("incurred", "", Decimal("0.001")), ("wasted", "interrupted", Decimal("0.001")),
    ]  # fmt: skip
    kinds = LedgerEntry.objects.filter(meter="worker_seconds").values_list("kind", flat=True)
    assert sorted(kinds) == ["incurred", "wasted", "wasted"]


@pytest.mark.parametrize(
    "error", [ErrorClass.INVALID_REQUEST, ErrorClass.UNAUTHORIZED, ErrorClass.MAX_RUNTIME]
)
def test_what_would_only_fail_again_fails_at_once(attempt: Attempt, error: ErrorClass) -> None:
    settle([attempt], failed(error))
    assert states(attempt) == ("error", "failed")
    assert sums() == (0, 0)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ErrorClass.TIMEOUT, "failed"),
        (ErrorClass.INTERRUPTED, "failed"),
        (ErrorClass.PROVIDER_ERROR, "failed"),
        (ErrorClass.INTERNAL, "failed"),
        (ErrorClass.RATE_LIMITED, "waiting"),
        (ErrorClass.UNREACHABLE, "waiting"),
    ],
)
def test_what_must_not_run_twice_is_tried_again_only_if_nothing_was_done(
    attempt: Attempt, error: ErrorClass, state: str
) -> None:
    Job.objects.update(idempotent=False)
    settle([attempt], failed(error))
    assert states(attempt) == ("interrupted" if error == "interrupted" else "error", state)


def test_an_attempt_that_reached_nobody_costs_no_try(attempt: Attempt) -> None:
    settle([attempt], failed(ErrorClass.UNREACHABLE))
    assert (Job.objects.get().tries, Job.objects.get().state) == (0, "waiting")


def test_a_retry_after_is_waited_for(attempt: Attempt) -> None:
    now = timezone.now()
    settle([attempt], failed(ErrorClass.RATE_LIMITED, retry_after_s=120), now)
    wake_at = Job.objects.get().wake_at
    assert wake_at is not None
    assert wake_at - now >= timedelta(seconds=120)


def test_no_retry_goes_past_the_deadline(acme: Workspace, worker: int) -> None:
    now = timezone.now()
    attempt = running(submit(acme, deadline=now + timedelta(seconds=60))[0], worker)
    settle([attempt], failed(ErrorClass.RATE_LIMITED, retry_after_s=120), now)
    job = Job.objects.get()
    assert (job.state, job.reason) == ("failed", "deadline")


def test_ten_early_failures_leak_no_reservation(acme: Workspace, worker: int) -> None:
    make_budget(acme, "5", scope="member", scope_id="7")
    for error in (ErrorClass.UNAUTHORIZED, ErrorClass.PROVIDER_ERROR, ErrorClass.TIMEOUT) * 4:
        attempt = running(submit(acme, max_attempts=1)[0], worker)
        settle([attempt], failed(error))
        assert sums() == (0, 0)
    assert accepted(acme).decision.verdict == "queued"


# --- cancel and late reports ----------------------------------------------------------------------


def canceled(attempt: Attempt) -> None:
    job_cancel(job_id=attempt.job_id, now=timezone.now(), **WHO)


def test_a_success_after_a_cancel_is_kept_as_evidence_and_charged(attempt: Attempt) -> None:
    canceled(attempt)
    assert states(attempt) == ("stopping", "running")
    settle([attempt], done({"text": "late"}, output_total=MILLION))
    assert states(attempt) == ("complete", "canceled")
    job = Job.objects.get()
    assert (job.result, job.outcome, job.reason) == ({"text": "late"}, "unreviewed", "canceled")
    assert sums() == (1, 0)
    events = JobEvent.objects.order_by("id").values_list("event", flat=True)
    assert list(events) == ["queued", "cancel_requested", "canceled"]


def test_a_failure_after_a_cancel_is_not_retried(attempt: Attempt) -> None:
    canceled(attempt)
    settle([attempt], failed(ErrorClass.PROVIDER_ERROR, output_total=1000))
    assert states(attempt) == ("error", "canceled")
    assert Job.objects.get().wake_at is None
    assert booked() == [("wasted", "provider_error", Decimal("0.001"))]


def test_a_lost_worker_after_a_cancel_ends_the_job(attempt: Attempt) -> None:
    canceled(attempt)
    settle([attempt], None)
    assert states(attempt) == ("lost", "canceled")


def test_a_job_that_is_done_cannot_be_canceled(attempt: Attempt) -> None:
    settle([attempt], done())
    before = list(Job.objects.values())
    with pytest.raises(JobEnded, match="done already"):
        canceled(attempt)
    assert list(Job.objects.values()) == before


def test_a_second_cancel_changes_nothing(attempt: Attempt) -> None:
    canceled(attempt)
    before = list(Job.objects.values()), JobEvent.objects.count()
    canceled(attempt)
    assert (list(Job.objects.values()), JobEvent.objects.count()) == before


def test_a_stale_fence_changes_nothing(attempt: Attempt) -> None:
    wrong = Attempt(id=attempt.id, fence=2)
    assert settle([wrong], done(output_total=MILLION)).stale == 1
    assert states(attempt) == ("running", "running")
    assert not LedgerEntry.objects.exists()


def test_a_late_report_is_priced_as_what_its_attempt_ran_whatever_the_job_is_at_now(
    attempt: Attempt,
) -> None:
    Attempt.objects.update(model="m")
    Job.objects.update(phase="review", model="asked", runs_model="stand-in")
    with transaction.atomic():
        (locked,) = attempts_lock([attempt.id])
    assert locked.model == "m"


def test_the_late_report_of_a_lost_attempt_is_booked_as_wasted_and_no_more(
    attempt: Attempt, worker: int
) -> None:
    job = Job.objects.get()
    settle([attempt], None)
    assert states(attempt) == ("lost", "queued")
    second = running(job, worker, 2)
    late = done({"text": "old"}, output_total=MILLION // 2)
    assert settle([attempt], late).stale == 1
    assert settle([attempt], late).stale == 1
    assert states(second) == ("running", "running")
    assert Job.objects.get().result is None
    assert booked() == [("wasted", "lost", Decimal("0.5"))]
    settle([second], done({"text": "new"}, output_total=MILLION))
    assert Job.objects.get().result == {"text": "new"}
    assert sums() == (Decimal("1.5"), 0)
    assert balances_differ() == []


def test_a_late_result_is_kept_in_the_story_once_with_its_text_cut_short(
    attempt: Attempt, worker: int
) -> None:
    settle([attempt], None)
    second = running(Job.objects.get(), worker, 2)
    settle([attempt], done({"text": "x" * 3000}))
    settle([attempt], done({"text": "x" * 3000}))
    told = JobEvent.objects.get(event="late_result")
    assert (told.attempt_id, told.reason) == (attempt.id, "worker_lost")
    assert told.data["text"].startswith('{"text": "xxx')
    assert (len(told.data["text"]), told.data["shortened"]) == (2000, True)
    assert (told.data["outcome"], told.data["fence"]) == ("complete", 1)
    settle([second], None)
    settle([second], failed(ErrorClass.TIMEOUT))
    (failure,) = JobEvent.objects.filter(event="late_result", attempt_id=second.id)
    assert (failure.data["outcome"], failure.data["error"]) == ("error", "timeout")
    assert "text" not in failure.data


def test_a_job_that_loses_its_workers_again_and_again_ends(acme: Workspace, worker: int) -> None:
    job = submit(acme, max_attempts=1)[0]
    for fence in range(1, 12):
        settle([running(job, worker, fence)], None)
        job.refresh_from_db()
        assert job.state == ("queued" if fence < 11 else "failed")
    assert job.reason == "worker_lost"


def test_an_attempt_that_its_worker_gave_up_goes_on_elsewhere(attempt: Attempt) -> None:
    settle([attempt], failed(ErrorClass.CANCELED))
    assert states(attempt) == ("canceled", "waiting")
    assert Job.objects.get().tries == 0


def test_an_attempt_that_nobody_prices_undoes_the_set_and_says_so(
    attempt: Attempt, acme: Workspace, worker: int
) -> None:
    other = running(submit(acme)[0], worker)
    Executor.objects.update(provider="unknown")
    with pytest.raises(BOOKING_FAULTS):
        settle([attempt, other], done())
    assert states(attempt) == ("running", "running")


# --- charges --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share_by", "outcome", "due"),
    [
        ("turns", done(output_total=5), None),
        ("cost", done(output_total=5), None),
        ("tokens", done(input_total=10, output_total=5), 20),
        ("tokens", done(input_total=30, output_total=35), None),
        ("tokens", done(), 1),
        ("tokens", failed(ErrorClass.PROVIDER_ERROR, input_total=7), 7),
        ("cost_time", done(), 27),
        ("cost", failed(ErrorClass.UNREACHABLE), 0),
        ("turns", failed(ErrorClass.CANCELED), 0),
        ("turns", failed(ErrorClass.CANCELED, requests=1), None),
        ("tokens", None, None),
    ],
)
def test_a_charge_is_corrected_to_what_came_true(
    acme: Workspace, worker: int, share_by: str, outcome: Outcome | None, due: int | None
) -> None:
    make_policy(share_by=share_by)
    attempt = running(submit(acme)[0], worker, cost=4, charge=100)
    now = timezone.now()
    Attempt.objects.update(started_at=now - timedelta(seconds=6.6))
    settle([attempt], outcome, now)
    attempt.refresh_from_db()
    assert (attempt.charge, attempt.charge_due) == (100, due)


# --- what a settle sets free ----------------------------------------------------------------------


def test_a_retry_sets_nothing_free(acme: Workspace, worker: int) -> None:
    make_budget(acme, "1")
    attempt = running(submit(acme)[0], worker)
    submit(acme)
    settle([attempt], failed(ErrorClass.PROVIDER_ERROR))
    assert Job.objects.get(state="deferred").wake_at is None


def test_an_end_sends_the_oldest_jobs_that_wait_for_budget_back_to_admission(
    acme: Workspace, worker: int
) -> None:
    make_budget(acme, "1")
    attempt = running(submit(acme)[0], worker)
    waiting = submit(acme, 25)
    assert {job.state for job in waiting} == {"deferred"}
    now = timezone.now()
    settle([attempt], done(output_total=10), now)
    due = Job.objects.filter(state="deferred", wake_at__lte=now).order_by("seq")
    assert [job.id for job in due] == [job.id for job in waiting[:20]]
