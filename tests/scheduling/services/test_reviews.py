"""Work that is done and needs a review: taken, judged, given back, canceled, each exactly once."""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from billing.models import Balance, LedgerEntry, Reservation
from billing.reports import cost_of_job, costs_total, tenant_costs
from billing.services.checks import balances_differ
from scheduling.core.states import WorkOutcome
from scheduling.executors.contract import ErrorClass
from scheduling.models import Attempt, Executor, Job, JobEvent, Workflow
from scheduling.services.cancel import JobEnded, job_cancel
from scheduling.services.drafts import After
from scheduling.services.expiry import jobs_expire
from scheduling.services.readmission import reservations_sweep
from scheduling.services.reviews import (
    Judgement,
    ReviewRefused,
    review_claim,
    review_judge,
    review_release,
)
from tenants.models import Workspace
from tests.at_once import at_once
from tests.scheduling.factories import (
    WHO,
    accepted,
    done,
    failed,
    make_budget,
    make_reviewers,
    place,
    running,
    settle,
    submit,
)

GOOD = Judgement(verdict=WorkOutcome.ACCEPTED, note="well done")
BAD = Judgement(verdict=WorkOutcome.REJECTED, note="it is wrong")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def reviewers(executor: Executor) -> Executor:
    return make_reviewers(executor.pool, minute="0.5")


@pytest.fixture
def now() -> datetime:
    return timezone.now()


@pytest.fixture
def worked(acme: Workspace, reviewers: Executor, executor: Executor, worker: int) -> Job:
    """Return a job whose work is done, for 1 USD, and that waits for its review."""
    make_budget(acme, "100")
    job = accepted(acme, review=True).job
    settle([running(job, worker, executor=executor)], done(output_total=1_000_000))
    job.refresh_from_db()
    return job


@pytest.fixture
def open_review(worked: Job, reviewers: Executor) -> Attempt:
    return lying(worked, reviewers)


def lying(job: Job, reviewers: Executor, fence: int = 2) -> Attempt:
    """Place a review as the governor would."""
    placed = {"fence": fence, "cost": 0, "job_class": "review", "step": 1, "sent_at": None}
    return place(job, executor=reviewers, **placed)


def again(job: Job) -> Job:
    job.refresh_from_db()
    return job


def refusal(deed: Callable[..., Any], **named: Any) -> str:
    with pytest.raises(ReviewRefused) as refused:
        deed(**named)
    return refused.value.code


def story(job: Job) -> list[str]:
    return list(JobEvent.objects.filter(job=job).order_by("id").values_list("event", flat=True))


def test_work_that_is_done_and_needs_a_review_stands_in_the_order_again(worked: Job) -> None:
    assert (worked.state, worked.phase, worked.reason) == ("queued", "review", "review")
    assert (worked.outcome, worked.step, worked.tries, worked.finished_at) == (
        "unreviewed", 1, 0, None,
    )  # fmt: skip
    assert worked.result == {"text": "ok"}
    assert story(worked)[-1] == "review_waits"
    assert Reservation.objects.get(job_id=worked.id).state == "open"
    assert cost_of_job(worked.id).incurred == 1


@pytest.mark.parametrize("who", ["job", "workflow"])
def test_a_review_is_asked_for_by_a_job_or_by_its_workflow(
    acme: Workspace, reviewers: Executor, executor: Executor, worker: int, who: str
) -> None:
    Workflow.objects.update(needs_review=who == "workflow")
    job = submit(acme, review=who == "job")[0]
    settle([running(job, worker, executor=executor)], done())
    assert again(job).phase == "review"


@pytest.mark.parametrize("outcome", [failed(ErrorClass.INVALID_REQUEST), None])
def test_work_that_failed_is_not_reviewed(
    acme: Workspace, reviewers: Executor, executor: Executor, worker: int, outcome: Any
) -> None:
    job = submit(acme, review=True)[0]
    settle([running(job, worker, executor=executor)], outcome)
    assert again(job).phase == "work"


def test_a_review_that_waits_for_a_slot_can_be_neither_taken_nor_judged(
    worked: Job, now: datetime
) -> None:
    named = {"job_id": worked.id, "reviewer": "rita", "now": now}
    assert refusal(review_claim, **named) == "review_waits"
    assert refusal(review_judge, **named, judgement=GOOD) == "review_waits"


def test_a_job_that_is_not_in_review_cannot_be_judged(acme: Workspace, now: datetime) -> None:
    job = submit(acme)[0]
    named = {"job_id": job.id, "reviewer": "rita", "now": now}
    assert refusal(review_judge, **named, judgement=GOOD) == "not_in_review"
    with pytest.raises(Job.DoesNotExist):
        review_claim(job_id=Workspace.objects.get().id, reviewer="rita", now=now)


def test_an_accepted_job_is_done_with_its_minutes_metered(
    open_review: Attempt, now: datetime, settings: Any
) -> None:
    job = open_review.job
    taken = review_claim(job_id=job.id, reviewer="rita", now=now)
    assert (taken.state, taken.reviewer) == ("running", "rita")
    assert taken.lease_until == now + timedelta(seconds=settings.REVIEW_LEASE_S)
    review_judge(job_id=job.id, reviewer="rita", judgement=GOOD, now=now + 3 * MINUTE)
    ended = again(job)
    assert (ended.state, ended.outcome, ended.reason) == ("done", "accepted", "accepted")
    assert ended.result == {"text": "ok"}
    assert story(job)[-3:] == ["review_waits", "review_claimed", "accepted"]
    told = JobEvent.objects.filter(job=job).latest("id").data
    assert (told["by"], told["note"]) == ("rita", "well done")
    metered = LedgerEntry.objects.get(meter="review_minutes")
    assert (metered.quantity, metered.amount, metered.kind) == (3, Decimal("1.5"), "incurred")
    assert (metered.provider, metered.model) == ("human", "human")
    cost = cost_of_job(job.id)
    assert (cost.incurred, cost.wasted, cost.reserved) == (Decimal("2.5"), 0, 0)
    assert Balance.objects.get().spent == Decimal("2.5")
    assert balances_differ() == []


def test_the_work_of_a_rejected_job_was_wasted_and_its_review_was_not(
    open_review: Attempt, now: datetime
) -> None:
    job = open_review.job
    review_claim(job_id=job.id, reviewer="rita", now=now)
    review_judge(job_id=job.id, reviewer="rita", judgement=BAD, now=now + 2 * MINUTE)
    ended = again(job)
    assert (ended.state, ended.outcome, ended.reason) == ("done", "rejected", "rejected")
    cost = cost_of_job(job.id)
    assert (cost.incurred, cost.wasted, cost.total) == (1, 1, 2)
    assert cost.output_tokens == 1_000_000
    since = now - timedelta(days=1)
    for by in ("tenant", "model", "failure_class", "executor", "attempt"):
        rows = tenant_costs(tenants=None, since=since, until=now + timedelta(days=1), by=by)
        total = costs_total(rows)
        assert (total.incurred, total.wasted) == (1, 1), by
    by_class = {row.key: row for row in tenant_costs(
        tenants=None, since=since, until=now + timedelta(days=1), by="failure_class"
    )}  # fmt: skip
    assert by_class["rejected"].wasted == 1
    assert Balance.objects.get().spent == 2
    assert balances_differ() == []


def test_a_budget_of_attempts_and_minutes_counts_each_once(
    acme: Workspace, reviewers: Executor, executor: Executor, worker: int, now: datetime
) -> None:
    tries = make_budget(acme, "9", "attempts")
    minutes = make_budget(acme, "9", "review_minutes")
    job = accepted(acme, review=True, estimate={"review_minutes": 5}).job
    assert Balance.objects.get(budget=minutes).held == 5
    settle([running(job, worker, executor=executor)], done())
    lying(job, reviewers)
    review_claim(job_id=job.id, reviewer="rita", now=now)
    review_judge(job_id=job.id, reviewer="rita", judgement=BAD, now=now + 2 * MINUTE)
    assert Balance.objects.get(budget=tries).spent == 1
    assert Balance.objects.get(budget=minutes).spent == 2
    assert Balance.objects.get(budget=minutes).held == 0
    assert balances_differ() == []


def test_a_review_is_part_of_what_a_job_is_expected_to_cost(
    acme: Workspace, reviewers: Executor
) -> None:
    spend = make_budget(acme, "100")
    accepted(acme, review=True, estimate={"review_minutes": 6})
    assert Balance.objects.get(budget=spend).held == 4  # 1 for its work, 3 for six minutes
    accepted(acme, estimate={"review_minutes": 6})
    assert Balance.objects.get(budget=spend).held == 5


def test_a_verdict_without_taking_it_first_takes_it(open_review: Attempt, now: datetime) -> None:
    review_judge(job_id=open_review.job_id, reviewer="rita", judgement=GOOD, now=now)
    assert story(open_review.job)[-2:] == ["review_claimed", "accepted"]
    assert not LedgerEntry.objects.filter(meter="review_minutes").exists()


def test_a_rejection_without_a_note_changes_nothing(open_review: Attempt, now: datetime) -> None:
    named = {"job_id": open_review.job_id, "reviewer": "rita", "now": now}
    bad = Judgement(verdict=WorkOutcome.REJECTED, note="  ")
    assert refusal(review_judge, **named, judgement=bad) == "note_required"
    assert again(open_review.job).state == "running"
    review_judge(**named, judgement=Judgement(verdict=WorkOutcome.ACCEPTED))


def test_nobody_judges_his_own_work(open_review: Attempt, now: datetime) -> None:
    named = {"job_id": open_review.job_id, "reviewer": open_review.job.submitted_by, "now": now}
    assert refusal(review_claim, **named) == "own_work"
    assert refusal(review_judge, **named, judgement=GOOD) == "own_work"


def test_what_one_has_taken_nobody_else_judges_or_gives_back(
    open_review: Attempt, now: datetime
) -> None:
    review_claim(job_id=open_review.job_id, reviewer="rita", now=now)
    other = {"job_id": open_review.job_id, "reviewer": "karl", "now": now}
    assert refusal(review_claim, **other) == "taken"
    assert refusal(review_judge, **other, judgement=GOOD) == "taken"
    assert refusal(review_release, **other) == "not_taken"


def test_taking_it_again_takes_it_for_longer_and_keeps_its_minutes(
    open_review: Attempt, now: datetime
) -> None:
    named = {"job_id": open_review.job_id, "reviewer": "rita"}
    first = review_claim(**named, now=now)
    second = review_claim(**named, now=now + MINUTE)
    assert second.lease_until == first.lease_until + MINUTE
    assert second.started_at == now
    assert story(open_review.job).count("review_claimed") == 1


def test_a_review_that_is_given_back_goes_back_in_the_order(
    open_review: Attempt, reviewers: Executor, now: datetime
) -> None:
    job, named = open_review.job, {"job_id": open_review.job_id, "reviewer": "rita"}
    assert refusal(review_release, **named, now=now) == "not_taken"
    review_claim(**named, now=now)
    review_release(**named, now=now + MINUTE)
    back = again(job)
    assert (back.state, back.phase, back.reason, back.error) == ("queued", "review", "review", None)
    assert story(job)[-1] == "review_returned"
    assert again_attempt(open_review).state == "canceled"
    assert not LedgerEntry.objects.filter(meter="review_minutes").exists()
    lying(job, reviewers, fence=3)
    review_judge(**{**named, "reviewer": "karl"}, judgement=GOOD, now=now + 2 * MINUTE)
    assert again(job).outcome == "accepted"
    assert balances_differ() == []


def again_attempt(attempt: Attempt) -> Attempt:
    attempt.refresh_from_db()
    return attempt


def test_one_that_lies_too_long_goes_back_however_often_and_whatever_the_policy_says(
    acme: Workspace, reviewers: Executor, executor: Executor, worker: int, now: datetime
) -> None:
    job = accepted(acme, review=True, idempotent=False).job
    settle([running(job, worker, executor=executor)], done())
    for fence in range(2, 16):
        attempt = lying(job, reviewers, fence=fence)
        review_claim(job_id=job.id, reviewer="rita", now=now)
        settle([attempt], None)  # as the leader's sweep does when the lease is over
        back = again(job)
        assert (back.state, back.phase, back.reason) == ("queued", "review", "review")
        assert (back.error, back.tries) == (None, 0)
    named = {"job_id": job.id, "reviewer": "rita", "now": now}
    assert refusal(review_judge, **named, judgement=GOOD) == "review_waits"


def test_a_job_is_canceled_while_its_review_waits_or_lies_open(
    worked: Job, reviewers: Executor, now: datetime
) -> None:
    attempt = lying(worked, reviewers)
    job_cancel(job_id=worked.id, now=now, **WHO)
    ended = again(worked)
    assert (ended.state, ended.outcome, ended.result) == ("canceled", "unreviewed", {"text": "ok"})
    assert again_attempt(attempt).state == "canceled"
    assert Balance.objects.get().held == 0
    named = {"job_id": worked.id, "reviewer": "rita", "now": now}
    assert refusal(review_judge, **named, judgement=GOOD) == "not_in_review"


def test_a_job_whose_review_is_taken_is_canceled_by_the_leaders_next_sweep(
    open_review: Attempt, now: datetime
) -> None:
    job, named = open_review.job, {"job_id": open_review.job_id, "reviewer": "rita", "now": now}
    review_claim(**named)
    job_cancel(job_id=job.id, now=now, **WHO)
    attempt = again_attempt(open_review)
    assert (attempt.state, attempt.lease_until) == ("stopping", now)
    assert refusal(review_judge, **named, judgement=GOOD) == "job_canceled"
    settle([attempt], None)
    ended = again(job)
    assert (ended.state, ended.reason, ended.error) == ("canceled", "canceled", None)
    with pytest.raises(JobEnded):
        job_cancel(job_id=job.id, now=now, **WHO)
    assert balances_differ() == []


@pytest.mark.parametrize(
    ("judgement", "condition", "state"),
    [
        (GOOD, "accepted", "queued"),
        (GOOD, "rejected", "canceled"),
        (GOOD, "done", "queued"),
        (BAD, "accepted", "canceled"),
        (BAD, "rejected", "queued"),
        (BAD, "done", "queued"),
        (BAD, "ended", "queued"),
        (BAD, "failed", "canceled"),
    ],
)
def test_what_waits_for_the_verdict_hears_it_with_it(
    open_review: Attempt, now: datetime, judgement: Judgement, condition: str, state: str
) -> None:
    space = Workspace.objects.get()
    waits = accepted(space, after=(After(job=open_review.job_id, condition=condition),)).job
    assert again(waits).state == "waiting"
    review_judge(job_id=open_review.job_id, reviewer="rita", judgement=judgement, now=now)
    assert again(waits).state == state
    assert balances_differ() == []


def test_a_deadline_and_a_reservation_that_run_out_leave_a_review_alone(
    worked: Job, now: datetime
) -> None:
    Job.objects.filter(id=worked.id).update(deadline=now, expires_at=now, started_at=None)
    Job.objects.filter(id=worked.id).update(started_at=now)
    assert jobs_expire(now=now + MINUTE) == 0
    later = now + timedelta(days=3)
    assert reservations_sweep(now=later) == 0
    assert again(worked).state == "queued"
    assert Reservation.objects.get(job_id=worked.id).expires_at > later


def test_a_job_that_nobody_could_review_is_denied_before_it_costs_anything(
    acme: Workspace, executor: Executor
) -> None:
    told = accepted(acme, review=True)
    assert (told.job.state, told.decision.reason) == ("denied", "no_executor")
    assert "needs a review and nobody in pool main may do it" in told.decision.sentence
    assert told.decision.alternatives[0]["action"] == "ask_for_reviewers"
    make_reviewers(executor.pool, data_classes=["plain"])
    Executor.objects.filter(id=executor.id).update(data_classes=["secret", "plain"])
    assert accepted(acme, review=True).job.state == "queued"
    assert accepted(acme, review=True, data_class="plain").job.state == "queued"
    assert accepted(acme, review=True, data_class="secret").job.state == "denied"


@pytest.mark.django_db(transaction=True)
def test_of_reviewers_who_act_at_once_exactly_one_wins(open_review: Attempt, now: datetime) -> None:
    told: list[str] = []

    def judge(name: str, judgement: Judgement) -> Callable[[], None]:
        def deed() -> None:
            try:
                review_judge(job_id=open_review.job_id, reviewer=name, judgement=judgement, now=now)
                told.append(name)
            except ReviewRefused as refused:
                told.append(refused.code)

        return deed

    names = ("rita", "karl", "olga", "ines")
    at_once([judge(name, (GOOD, BAD)[at % 2]) for at, name in enumerate(names)])
    winners = [one for one in told if one in names]
    assert len(winners) == 1
    assert set(told) - {winners[0]} == {"not_in_review"}
    job = again(open_review.job)
    verdict = "accepted" if names.index(winners[0]) % 2 == 0 else "rejected"
    assert (job.state, job.outcome) == ("done", verdict)
    assert sum(event in ("accepted", "rejected") for event in story(job)) == 1
    assert balances_differ() == []
