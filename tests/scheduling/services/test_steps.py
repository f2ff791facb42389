"""Steps: a placement that ends one leaves the job to the next, with its money and its state."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from billing.models import Balance, LedgerEntry, Reservation
from billing.services.checks import balances_differ
from scheduling.executors.contract import ErrorClass, Next, Outcome
from scheduling.models import Attempt, Job, JobDependency, JobEvent
from scheduling.services.cancel import job_cancel
from scheduling.services.endings import LOST_LIMIT
from scheduling.services.retention import jobs_forget
from tenants.models import Workspace
from tests.scheduling.factories import (
    LONG_AGO,
    WHO,
    accepted,
    claim,
    done,
    failed,
    make_budget,
    place,
    running,
    settle,
)

HALF = 500_000


def stepped(checkpoint: dict[str, Any] | None = None, *, waits: bool = False) -> Outcome:
    """Return the outcome of a step of half a US dollar that another one follows."""
    following = Next(checkpoint=checkpoint or {"round": 1}, waits=waits)
    return replace(done({"text": "so far"}, output_total=HALF), next=following)


def job_now() -> Job:
    return Job.objects.get(parent=None)


def next_step(job: Job, worker: int) -> Attempt:
    """Place the job again, as the governor would, and claim it."""
    fresh = Job.objects.get(id=job.id)
    return running(fresh, worker, fresh.fence + 1, step=fresh.step)


@pytest.fixture
def job(acme: Workspace) -> Job:
    make_budget(acme, "10")
    return accepted(acme).job


def test_a_steps_end_queues_the_job_with_its_age_its_checkpoint_and_its_reservation(
    job: Job, worker: int
) -> None:
    attempt = running(job, worker)
    assert settle([attempt], stepped({"round": 1})).settled == 1
    after = job_now()
    assert (after.state, after.reason, after.step, after.step_fence) == (
        "queued",
        "step_done",
        1,
        1,
    )
    assert (after.checkpoint, after.result) == ({"round": 1}, {"text": "so far"})
    assert (after.finished_at, after.submitted_at) == (None, job.submitted_at)
    assert after.changed != LONG_AGO
    attempt.refresh_from_db()
    assert (attempt.state, attempt.spend) == ("complete", Decimal("0.5"))
    assert Reservation.objects.get().state == "open"
    balance = Balance.objects.get()
    assert (balance.spent, balance.held) == (Decimal("0.5"), Decimal(1))
    told = JobEvent.objects.latest("id")
    assert (told.event, told.reason) == ("stepped", "step_done")


def test_the_last_step_ends_the_job_and_every_step_is_on_the_bill_once(
    job: Job, worker: int
) -> None:
    for number in (1, 2):
        attempt = next_step(job, worker)
        settle([attempt], stepped({"round": number}))
        assert settle([attempt], stepped({"round": number})).stale == 1
    settle([next_step(job, worker)], done({"text": "whole"}, output_total=HALF))
    after = job_now()
    assert (after.state, after.result, after.step) == ("done", {"text": "whole"}, 2)
    booked = LedgerEntry.objects.filter(meter="output").values_list("amount", "kind")
    assert list(booked) == [(Decimal("0.5"), "incurred")] * 3
    assert Reservation.objects.get().state == "settled"
    assert Balance.objects.get().held == 0
    assert list(balances_differ()) == []
    assert list(Attempt.objects.order_by("fence").values_list("step", flat=True)) == [0, 1, 2]


def test_all_steps_together_are_one_attempt_to_a_budget_of_attempts(
    acme: Workspace, worker: int
) -> None:
    make_budget(acme, "10", dimension="attempts")
    job = accepted(acme).job
    settle([next_step(job, worker)], stepped())
    settle([next_step(job, worker)], failed(ErrorClass.TIMEOUT))
    Job.objects.update(state="queued", wake_at=None)
    settle([next_step(job, worker)], done())
    assert Balance.objects.get().spent == 2  # the work, and the try that failed
    assert list(balances_differ()) == []


def test_a_worker_gets_the_step_and_what_the_last_one_left(job: Job, worker: int) -> None:
    first = claim(worker, [place(job)])[0]
    assert (first.step_fence, first.checkpoint) == (0, None)
    settle([first], stepped({"round": 1, "said": "olá"}))
    fresh = job_now()
    second = claim(worker, [place(fresh, fence=2, step=fresh.step)])[0]
    assert (second.step_fence, second.checkpoint) == (1, {"round": 1, "said": "olá"})


def test_each_step_has_the_tries_of_the_job_for_itself(acme: Workspace, worker: int) -> None:
    job = accepted(acme, max_attempts=2).job
    for _ in range(3):
        settle([next_step(job, worker)], failed(ErrorClass.TIMEOUT))
        assert job_now().state == "waiting"
        Job.objects.update(state="queued", wake_at=None)
        settle([next_step(job, worker)], stepped())
        assert (job_now().state, job_now().tries, job_now().error) == ("queued", 0, None)
    for _ in range(2):
        Job.objects.update(state="queued", wake_at=None)
        settle([next_step(job, worker)], failed(ErrorClass.TIMEOUT))
    after = job_now()
    assert (after.state, after.reason, after.step) == ("failed", "attempts_exhausted", 3)
    assert after.result == {"text": "so far"}


def test_a_lost_worker_costs_the_step_alone(job: Job, worker: int) -> None:
    settle([next_step(job, worker)], stepped({"round": 1}))
    settle([next_step(job, worker)], None)
    after = job_now()
    assert (after.state, after.step, after.checkpoint) == ("queued", 1, {"round": 1})
    assert (after.fence, after.step_fence) == (2, 1)


def test_workers_lost_in_earlier_steps_are_not_held_against_the_present_one(
    acme: Workspace, worker: int
) -> None:
    job = accepted(acme, max_attempts=1).job
    for _ in range(2):
        for _ in range(LOST_LIMIT):
            settle([next_step(job, worker)], None)
            assert job_now().state == "queued"
        settle([next_step(job, worker)], stepped())
    for _ in range(LOST_LIMIT + 1):
        settle([next_step(job, worker)], None)
    assert (job_now().state, job_now().reason) == ("failed", "worker_lost")


def test_a_ceiling_fails_the_job_with_what_it_has_and_its_work_is_incurred(
    job: Job, worker: int
) -> None:
    whole = replace(done({"text": "so far"}, output_total=HALF), ceiling="It has used its 2 steps.")
    settle([running(job, worker)], whole)
    after = job_now()
    assert (after.state, after.reason, after.result) == (
        "failed", "hard_ceiling", {"text": "so far"},
    )  # fmt: skip
    assert after.error == {"class": "hard_ceiling", "message": "It has used its 2 steps."}
    assert Attempt.objects.get().state == "complete"
    assert LedgerEntry.objects.get(meter="output").kind == "incurred"
    assert Reservation.objects.get().state == "settled"


def test_a_step_of_a_job_that_is_to_stop_is_its_last(job: Job, worker: int) -> None:
    attempt = running(job, worker)
    job_cancel(job_id=job.id, acting_user=WHO, reason="no need", now=timezone.now())
    settle([attempt], stepped())
    assert (job_now().state, job_now().step, job_now().checkpoint) == ("canceled", 0, None)


def waiting_parent(acme: Workspace, worker: int, children: int = 1) -> tuple[Attempt, list[Job]]:
    """Return a parent's attempt that runs, with jobs that it waits for when its step ends."""
    parent = accepted(acme).job
    attempt = running(parent, worker)
    kids = [accepted(acme).job for _ in range(children)]
    for place_of, kid in enumerate(kids):
        Job.objects.filter(id=kid.id).update(parent=parent, parent_call=f"0.{place_of}", depth=1)
        JobDependency.objects.create(job=parent, on=kid, condition="ended", open=True)
    return attempt, kids


@pytest.mark.parametrize("end", [done(), failed(ErrorClass.INVALID_REQUEST)])
def test_a_parent_waits_without_a_slot_until_its_last_child_has_ended_in_any_way(
    acme: Workspace, worker: int, end: Outcome
) -> None:
    attempt, (first, second) = waiting_parent(acme, worker, 2)
    settle([attempt], stepped(waits=True))
    assert (job_now().state, job_now().reason) == ("waiting", "waiting_on_child")
    settle([running(first, worker)], end)
    assert job_now().state == "waiting"
    settle([running(second, worker)], end)
    assert (job_now().state, job_now().reason, job_now().step) == ("queued", "in_order", 1)


def test_children_that_end_before_their_parents_step_are_not_waited_for(
    acme: Workspace, worker: int
) -> None:
    attempt, (child,) = waiting_parent(acme, worker)
    settle([running(child, worker)], done())
    assert job_now().state == "running"
    settle([attempt], stepped(waits=True))
    assert (job_now().state, job_now().reason) == ("queued", "step_done")


def test_a_parent_can_be_forgotten_before_its_children(acme: Workspace, worker: int) -> None:
    attempt, (child,) = waiting_parent(acme, worker)
    settle([attempt], done())
    assert jobs_forget(before=timezone.now() + timedelta(seconds=1)) == 1
    assert Job.objects.get(id=child.id).parent_id is None
