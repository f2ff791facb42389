"""Reviews in the leader's hands: placed before reviewers, beside all else, and taken back in time."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.controls.limits import limit_set
from scheduling.controls.pools import pool_dial
from scheduling.controls.workflows import workflow_cost
from scheduling.core.states import WorkOutcome
from scheduling.governor.sweep import settle_lost, unclaimed
from scheduling.models import Attempt, Executor, Job, Pool, Workflow
from scheduling.services.cancel import job_cancel
from scheduling.services.reviews import (
    Judgement,
    ReviewRefused,
    review_claim,
    review_judge,
    review_release,
)
from tenants.models import Workspace
from tests.scheduling.factories import WHO, make_reviewers, make_tenant, submit
from tests.scheduling.governor.desk import Desk

GOOD = Judgement(verdict=WorkOutcome.ACCEPTED)


@pytest.fixture
def reviewers(pool: Pool) -> Executor:
    return make_reviewers(pool, slots=2)


@pytest.fixture
def acme(pool: Pool, reviewers: Executor) -> Workspace:
    return make_tenant("acme", pool)


def worked(desk: Desk, acme: Workspace, count: int = 1, **more: Any) -> list[Job]:
    """Submit jobs that need a review and do their work."""
    jobs = submit(acme, count, review=True, **more)
    desk.turn()
    assert desk.finish() == count
    return jobs


def lying() -> list[Attempt]:
    return list(Attempt.objects.filter(job_class="review", state="dispatched").order_by("id"))


def test_a_review_lies_before_the_reviewers_and_no_worker_is_told(
    desk: Desk, acme: Workspace, reviewers: Executor
) -> None:
    (job,) = worked(desk, acme)
    assert desk.turn() == [str(job.id)]
    assert (desk.sent[-1].queue, desk.sent[-1].caller_of) == ("", "")
    (attempt,) = lying()
    assert (attempt.executor_id, attempt.cost, attempt.fence, attempt.step) == (
        reviewers.id, 0, 2, 1,
    )  # fmt: skip
    job.refresh_from_db()
    assert (job.state, job.phase, job.reason) == ("running", "review", "review")
    Attempt.objects.update(dispatched_at=timezone.now() - timedelta(days=9))
    assert unclaimed(desk.leader.book, desk.leader.epoch) == []
    assert settle_lost(desk.leader.epoch) == 0
    review_judge(job_id=job.id, reviewer="rita", judgement=GOOD, now=timezone.now())
    assert desk.turn() == []
    assert Job.objects.get().outcome == "accepted"
    assert not desk.leader.book.rows
    assert desk.state(job.pool).busy[str(reviewers.id)] == 0


def test_reviews_go_on_when_everything_else_is_full(
    desk: Desk, acme: Workspace, pool: Pool
) -> None:
    worked(desk, acme, 2)
    submit(acme, 3)
    desk.turn()
    pool_dial(pool_id=pool.id, budget=1, reserve=0, **WHO)
    subject = {"scope": "global", "scope_id": "all", "measure": "running"}
    limit_set(**subject, value=1, **WHO)
    Workspace.objects.update(max_running=1)
    Workflow.objects.update(max_running=1)
    desk.restart()
    state = desk.state(pool)
    assert state.free("normal") < 0
    assert [attempt.cost for attempt in lying()] == [0, 0]
    for attempt in lying():
        review_release_by("rita", attempt.job_id)
    desk.turn()
    assert len(lying()) == 2
    assert state.use.total == 3


def review_release_by(name: str, job_id: Any) -> None:
    now = timezone.now()
    review_claim(job_id=job_id, reviewer=name, now=now)
    review_release(job_id=job_id, reviewer=name, now=now)


def test_a_review_takes_no_units_no_limit_and_no_key_from_the_work_behind_it(
    desk: Desk, acme: Workspace, pool: Pool
) -> None:
    Workspace.objects.update(max_running=1)
    (job,) = worked(desk, acme, keys=("repo",))
    desk.turn()
    assert [attempt.job_id for attempt in lying()] == [job.id]
    second = submit(acme, keys=("repo",))[0]
    assert desk.turn() == [str(second.id)]


def test_there_lie_as_many_as_there_are_reviewers_and_the_next_says_why_it_waits(
    desk: Desk, acme: Workspace, pool: Pool
) -> None:
    jobs = worked(desk, acme, 3)
    desk.turn()
    assert [attempt.job_id for attempt in lying()] == [job.id for job in jobs[:2]]
    review_judge(job_id=jobs[0].id, reviewer="rita", judgement=GOOD, now=timezone.now())
    desk.turn()
    assert [attempt.job_id for attempt in lying()] == [job.id for job in jobs[1:]]


def test_tenants_share_the_reviewers_by_turns(desk: Desk, acme: Workspace, pool: Pool) -> None:
    beta = make_tenant("beta", pool)
    worked(desk, acme, 6)
    worked(desk, beta, 2)
    taken = []
    for _ in range(8):
        desk.turn()
        attempt = lying()[0]
        taken.append(attempt.job.tenant.slug)
        review_judge(job_id=attempt.job_id, reviewer="rita", judgement=GOOD, now=timezone.now())
    # Two of acme's lie before the reviewers as beta's come; from then on it is turn about.
    assert sorted(taken[:6]) == ["acme"] * 4 + ["beta"] * 2
    assert taken[6:] == ["acme", "acme"]


def test_one_that_lies_too_long_with_a_reviewer_goes_to_the_next(
    desk: Desk, acme: Workspace, settings: Any
) -> None:
    (job,) = worked(desk, acme)
    desk.turn()
    settings.REVIEW_LEASE_S = -1
    review_claim(job_id=job.id, reviewer="rita", now=timezone.now())
    assert settle_lost(desk.leader.epoch) == 1
    desk.turn()
    (attempt,) = lying()
    assert attempt.fence == 3
    with pytest.raises(ReviewRefused, match="not taken"):
        review_release(job_id=job.id, reviewer="rita", now=timezone.now())
    settings.REVIEW_LEASE_S = 60
    review_judge(job_id=job.id, reviewer="karl", judgement=GOOD, now=timezone.now())
    assert Job.objects.get().outcome == "accepted"


def test_a_canceled_job_leaves_its_reviewer_within_a_sweep(desk: Desk, acme: Workspace) -> None:
    (job,) = worked(desk, acme)
    desk.turn()
    review_claim(job_id=job.id, reviewer="rita", now=timezone.now())
    job_cancel(job_id=job.id, now=timezone.now() - timedelta(seconds=1), **WHO)
    assert settle_lost(desk.leader.epoch) == 1
    assert Job.objects.get().state == "canceled"
    desk.turn()
    assert not desk.leader.book.rows


def test_a_new_leader_finds_reviews_as_they_were(
    desk: Desk, acme: Workspace, pool: Pool, reviewers: Executor
) -> None:
    worked(desk, acme, 3)
    desk.turn()
    desk.restart()
    state = desk.state(pool)
    assert state.busy[str(reviewers.id)] == 2
    assert state.use.total == 0
    assert [spot.class_name for spot in state.order.walk_all()] == ["review"]
    workflow_cost(
        workflow_id=Workflow.objects.get().id, cost=5, **WHO
    )  # the cost of work is not that of its review
    desk.leader._reconfigure()
    assert state.use.total == 0
    assert [spot.job.cost for spot in state.order.walk_all()] == [0]


def test_how_long_a_review_takes_says_nothing_of_the_work(desk: Desk, acme: Workspace) -> None:
    (job,) = worked(desk, acme)
    desk.turn()
    Attempt.objects.filter(job_class="review").update(
        dispatched_at=timezone.now() - timedelta(days=2)
    )
    desk.restart()
    review_judge(job_id=job.id, reviewer="rita", judgement=GOOD, now=timezone.now())
    desk.turn()
    workflow = str(Workflow.objects.get().id)
    assert desk.leader.book.durations.expected(str(acme.tenant_id), workflow) < 60
    desk.restart()
    assert desk.leader.book.durations.measured()[workflow] < 60
