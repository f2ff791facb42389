"""Jobs that wait for jobs: queued as the last one ends well, canceled as one ends otherwise."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from billing.models import Balance
from billing.services.checks import balances_differ
from scheduling.controls.jobs import jobs_cancel, jobs_requeue
from scheduling.executors.contract import ErrorClass
from scheduling.models import Executor, Job, JobDependency, JobEvent
from scheduling.services.cancel import job_cancel
from scheduling.services.drafts import After, Refused
from scheduling.services.readmission import jobs_readmit
from scheduling.services.retention import jobs_forget
from tenants.controls import tenant_weight
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
    make_tenant,
    running,
    settle,
    submit_all,
)


def after(*jobs: Job, condition: str = "done") -> tuple[After, ...]:
    return tuple(After(job=job.id, condition=condition) for job in jobs)


def dependant(space: Workspace, *jobs: Job, condition: str = "done", **more: Any) -> Job:
    return accepted(space, after=after(*jobs, condition=condition), **more).job


def standing(job: Job) -> tuple[str, str]:
    job.refresh_from_db()
    return job.state, job.reason


def test_a_job_with_open_dependencies_is_funded_and_waits(acme: Workspace) -> None:
    make_budget(acme, "5")
    first = accepted(acme).job
    one = accepted(acme, after=after(first))
    assert (one.decision.verdict, one.decision.reason) == ("queued", "dependency")
    assert "waits for 1 job that it depends on" in one.decision.sentence
    assert standing(one.job) == ("waiting", "dependency")
    assert one.job.wake_at is None
    assert Balance.objects.get().held == 2


def test_it_is_queued_when_the_last_of_them_is_done(acme: Workspace, worker: int) -> None:
    first, second = accepted(acme).job, accepted(acme).job
    waits = dependant(acme, first, second)
    Job.objects.update(changed=LONG_AGO)
    settle([running(first, worker)], done())
    assert standing(waits) == ("waiting", "dependency")
    settle([running(second, worker)], done())
    assert standing(waits) == ("queued", "in_order")
    assert waits.changed != LONG_AGO
    told = JobEvent.objects.filter(job=waits).order_by("id").values_list("event", flat=True)
    assert list(told) == ["queued", "queued"]


def test_what_is_done_already_is_not_waited_for(acme: Workspace, worker: int) -> None:
    first = accepted(acme).job
    settle([running(first, worker)], done())
    assert standing(dependant(acme, first)) == ("queued", "in_order")
    assert JobDependency.objects.get().open is False


def test_a_failed_attempt_that_is_tried_again_ends_nothing(acme: Workspace, worker: int) -> None:
    first = accepted(acme).job
    waits = dependant(acme, first)
    settle([running(first, worker)], failed(ErrorClass.PROVIDER_ERROR))
    assert standing(first)[0] == "waiting"
    assert standing(waits) == ("waiting", "dependency")


def fails(job: Job, worker: int) -> None:
    settle([running(job, worker)], failed(ErrorClass.INVALID_REQUEST))


def is_canceled(job: Job, _: int) -> None:
    job_cancel(job_id=job.id, now=timezone.now(), **WHO)


@pytest.mark.parametrize("end", [fails, is_canceled])
def test_what_waits_for_a_job_to_be_done_is_canceled_with_all_that_waits_for_it(
    acme: Workspace, worker: int, end: Callable[[Job, int], None]
) -> None:
    make_budget(acme, "10")
    first = accepted(acme).job
    second = dependant(acme, first)
    third = dependant(acme, second)
    either = dependant(acme, third, condition="ended")
    both = dependant(acme, accepted(acme).job, first)
    end(first, worker)
    for job in (second, third, both):
        assert standing(job) == ("canceled", "dependency")
        assert job.finished_at is not None
    assert standing(either) == ("queued", "in_order")
    told = JobEvent.objects.get(job=third, event="canceled")
    assert (told.reason, told.data) == ("dependency", {"on": str(second.id)})
    assert Balance.objects.get().held == 2  # `either`, and the other one that `both` waited for
    assert balances_differ() == []


def test_a_deferred_dependant_ends_too_and_a_list_may_name_both(acme: Workspace) -> None:
    first = accepted(acme).job
    later = dependant(acme, first, not_before=timezone.now() + timedelta(hours=1))
    assert standing(later) == ("deferred", "not_before")
    changes = jobs_cancel(job_ids=[first.id, later.id], now=timezone.now(), **WHO)
    assert [one.refused for one in changes] == [None, None]
    assert standing(later) == ("canceled", "canceled")


def test_a_deferred_job_that_is_let_in_still_waits_for_what_it_named(
    acme: Workspace, worker: int
) -> None:
    first = accepted(acme).job
    now = timezone.now()
    later = dependant(acme, first, not_before=now + timedelta(hours=1))
    jobs_readmit(now=now + timedelta(hours=2))
    assert standing(later) == ("waiting", "dependency")
    settle([running(first, worker)], done())
    assert standing(later) == ("queued", "in_order")


def test_a_job_that_is_denied_when_it_is_taken_up_again_ends_what_waits_for_it(
    acme: Workspace,
) -> None:
    now = timezone.now()
    first = accepted(acme, not_before=now + timedelta(hours=1)).job
    waits = dependant(acme, first)
    make_budget(acme, "0.5")
    jobs_readmit(now=now + timedelta(hours=2))
    assert standing(first) == ("denied", "budget")
    assert standing(waits) == ("canceled", "dependency")


def test_both_put_back_wait_again_in_their_order(acme: Workspace, worker: int) -> None:
    first = accepted(acme).job
    waits = dependant(acme, first)
    fails(first, worker)
    now = timezone.now()
    jobs_requeue(job_ids=[first.id, waits.id], now=now, **WHO)
    jobs_readmit(now=now)
    assert standing(first) == ("queued", "in_order")
    assert standing(waits) == ("waiting", "dependency")
    settle([running(first, worker, fence=2)], done())
    assert standing(waits) == ("queued", "in_order")


def test_a_held_tenants_dependant_waits_and_has_no_place(acme: Workspace) -> None:
    first = accepted(acme).job
    tenant_weight(tenant_id=acme.tenant_id, weight=0, **WHO)
    one = accepted(acme, after=after(first))
    assert one.decision.reason == "tenant_held"
    assert standing(one.job) == ("waiting", "dependency")
    assert one.decision.place is None


def test_an_unknown_a_foreign_and_a_failed_job_are_refused_by_their_place(
    acme: Workspace, executor: Executor, worker: int
) -> None:
    foreign = accepted(make_tenant("other", executor.pool)).job
    bad = accepted(acme).job
    fails(bad, worker)
    named = (*after(accepted(acme).job, foreign, bad), After(job=uuid.UUID(int=7)))
    answer, fine = submit_all(acme, [asked(after=named), asked()])
    assert isinstance(answer, Refused)
    assert [error.field for error in answer.errors] == ["after[1]", "after[2]", "after[3]"]
    assert answer.errors[0].sentence == f"There is no job {foreign.id} in this tenant."
    assert not isinstance(fine, Refused)
    assert standing(dependant(acme, bad, condition="ended")) == ("queued", "in_order")


def test_jobs_that_were_waited_for_can_be_forgotten(acme: Workspace, worker: int) -> None:
    first = accepted(acme).job
    waits = dependant(acme, first)
    settle([running(first, worker)], done())
    assert jobs_forget(before=timezone.now() + timedelta(seconds=1)) == 1
    assert standing(waits) == ("queued", "in_order")
    assert not JobDependency.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_dependencies_that_end_at_once_lose_no_wake_up_and_no_newcomer(
    acme: Workspace, worker: int
) -> None:
    """Two end together, on connections of their own, while somebody names one of them."""
    for _ in range(10):
        _one_race(acme, worker)


def _one_race(space: Workspace, worker: int) -> None:
    pair = [accepted(space).job, accepted(space).job]
    waits = dependant(space, *pair)
    attempts = [running(job, worker) for job in pair]
    late: list[Job] = []
    at_once(
        [
            lambda: settle([attempts[0]], done()),
            lambda: settle([attempts[1]], done()),
            lambda: late.append(dependant(space, pair[0])),
        ]
    )
    assert standing(waits) == ("queued", "in_order")
    assert standing(late[0]) == ("queued", "in_order")


def passes(job: Job, worker: int) -> None:
    settle([running(job, worker)], done())


ENDS = {"done": passes, "failed": fails, "canceled": is_canceled}


@pytest.mark.parametrize(
    ("end", "condition", "standing_then"),
    [
        ("done", "accepted", ("queued", "in_order")),
        ("done", "failed", ("canceled", "dependency")),
        ("done", "rejected", ("canceled", "dependency")),
        ("failed", "failed", ("queued", "in_order")),
        ("failed", "accepted", ("canceled", "dependency")),
        ("canceled", "failed", ("canceled", "dependency")),
        ("canceled", "ended", ("queued", "in_order")),
    ],
)
def test_what_waits_for_an_outcome_is_queued_by_it_and_canceled_by_any_other(
    acme: Workspace, worker: int, end: str, condition: str, standing_then: tuple[str, str]
) -> None:
    first = accepted(acme).job
    waits = dependant(acme, first, condition=condition)
    ENDS[end](first, worker)
    assert standing(waits) == standing_then


@pytest.mark.parametrize(
    ("end", "condition", "words"),
    [
        ("done", "failed", "is done and accepted already and will not be failed"),
        ("done", "rejected", "is done and accepted already and will not be rejected"),
        ("failed", "accepted", "is failed already and will not be accepted"),
        ("canceled", "failed", "is canceled already and will not be failed"),
    ],
)
def test_an_outcome_that_can_be_had_no_more_is_refused(
    acme: Workspace, worker: int, end: str, condition: str, words: str
) -> None:
    first = accepted(acme).job
    ENDS[end](first, worker)
    answer = submit_all(acme, [asked(after=after(first, condition=condition))])[0]
    assert isinstance(answer, Refused)
    assert words in answer.errors[0].sentence


def test_an_outcome_that_is_there_already_is_not_waited_for(acme: Workspace, worker: int) -> None:
    good, bad = accepted(acme).job, accepted(acme).job
    passes(good, worker)
    fails(bad, worker)
    assert standing(dependant(acme, good, condition="accepted")) == ("queued", "in_order")
    assert standing(dependant(acme, bad, condition="failed")) == ("queued", "in_order")
