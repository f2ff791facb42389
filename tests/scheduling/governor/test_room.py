"""Making room: who is asked, that it goes on waiting, and that it is booked."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from billing.models import LedgerEntry
from scheduling.controls.executors import executor_drain
from scheduling.executors.contract import ErrorClass, Next, Outcome, Status, Usage
from scheduling.governor.room import room_make
from scheduling.governor.sweep import settle_lost
from scheduling.models import Attempt, Executor, Job, JobEvent, Pool
from scheduling.services.cancel import job_cancel
from tenants.models import Workspace
from tests.scheduling.factories import (
    WHO,
    done,
    failed,
    make_executor,
    make_policy,
    make_tenant,
    settle,
    submit,
)
from tests.scheduling.governor.desk import Desk

PREEMPTS = {"preemption": {"enabled": True, "min_run_s": 0, "most_times": 2}}


@pytest.fixture
def acme(pool: Pool) -> Workspace:
    make_policy(**PREEMPTS)
    return make_tenant("acme", pool, cost=5)


@pytest.fixture
def full(desk: Desk, acme: Workspace) -> list[Job]:
    """Two normal jobs that run and fill the pool."""
    jobs = submit(acme, 2)
    desk.turn()
    desk.claim()
    return jobs


def make_room(desk: Desk) -> int:
    desk.turn()
    now = timezone.now().timestamp() + 1
    return room_make(desk.leader.book, desk.leader.epoch, now)


def stopping() -> list[Attempt]:
    return list(Attempt.objects.filter(state="stopping").order_by("dispatched_at", "id"))


def stopped(seconds: int = 0, checkpoint: dict[str, Any] | None = None) -> Outcome:
    return Outcome(
        status=Status.CANCELED,
        error_class=ErrorClass.CANCELED,
        usage=Usage(worker_seconds=Decimal(seconds), output_total=1_000_000 if seconds else 0),
        next=None if checkpoint is None else Next(checkpoint=checkpoint),
    )


def events(job: Job) -> list[str]:
    return list(JobEvent.objects.filter(job=job).order_by("id").values_list("event", flat=True))


def test_an_incident_takes_the_place_of_the_job_that_began_last(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    fire = submit(acme, job_class="incident")[0]
    assert make_room(desk) == 1
    assert make_room(desk) == 0
    (victim,) = stopping()
    assert (victim.job_id, victim.stop_for) == (full[1].id, "preempt")
    assert desk.turn() == []
    settle([victim], stopped(3))
    assert desk.turn() == [str(fire.id)]
    job = Job.objects.get(id=full[1].id)
    assert (job.state, job.reason, job.preemptions, job.tries) == ("queued", "preempted", 1, 0)
    assert (job.submitted_at, job.error) == (full[1].submitted_at, None)
    assert events(job)[-2:] == ["preempting", "preempted"]
    told = JobEvent.objects.get(job=job, event="preempting").data
    assert told["for_class"] == "incident"
    assert told["for_job"] == str(fire.id)
    assert (told["executor"], told["units"]) == ("main-sim", 5)
    ended = JobEvent.objects.get(job=job, event="preempted").data
    assert (ended["stop_for"], ended["checkpoint"], "error" in ended) == ("preempt", False, False)
    victim.refresh_from_db()
    assert victim.state == "preempted"
    rows = LedgerEntry.objects.filter(meter="output").values_list("kind", "failure_class", "amount")
    assert list(rows) == [("wasted", "preempted", Decimal(1))]


def test_it_goes_on_when_the_incident_is_over_and_is_not_stopped_for_its_like(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    submit(acme, job_class="incident")
    make_room(desk)
    settle(stopping(), stopped())
    (fire,) = Attempt.objects.filter(id=desk.turn() and desk.sent[-1].attempt)
    submit(acme, job_class="normal")
    assert make_room(desk) == 0
    desk.claim()
    settle([fire], done())
    assert desk.turn() == [str(full[1].id)]
    again = Attempt.objects.get(job=full[1], fence=2)
    assert (again.state, again.step) == ("dispatched", 0)


def test_a_checkpoint_is_kept_for_the_next_attempt_and_its_cost_is_not_wasted(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    submit(acme, job_class="incident")
    make_room(desk)
    settle(stopping(), stopped(3, {"seconds_done": 3}))
    job = Job.objects.get(id=full[1].id)
    assert (job.checkpoint, job.step) == ({"seconds_done": 3}, 0)
    rows = LedgerEntry.objects.filter(meter="output").values_list("kind", "failure_class")
    assert list(rows) == [("incurred", "")]
    settle(list(Attempt.objects.filter(job=full[0])), done())
    desk.turn()
    claimed = {one.job_id: one for one in desk.claim()}
    assert claimed[job.id].checkpoint == {"seconds_done": 3}


def test_one_that_is_done_before_it_hears_of_it_is_done(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    submit(acme, job_class="incident")
    make_room(desk)
    settle(stopping(), done())
    job = Job.objects.get(id=full[1].id)
    assert (job.state, job.preemptions) == ("done", 0)


def test_one_that_fails_meanwhile_is_retried_as_ever(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    submit(acme, job_class="incident")
    make_room(desk)
    settle(stopping(), failed(ErrorClass.PROVIDER_ERROR))
    job = Job.objects.get(id=full[1].id)
    assert (job.state, job.tries, job.preemptions) == ("waiting", 1, 0)


def test_a_cancel_wins_over_making_room(desk: Desk, acme: Workspace, full: list[Job]) -> None:
    submit(acme, job_class="incident")
    make_room(desk)
    job_cancel(job_id=full[1].id, now=timezone.now(), **WHO)
    (victim,) = stopping()
    assert victim.stop_for == "cancel"
    settle([victim], stopped())
    assert Job.objects.get(id=full[1].id).state == "canceled"


def test_a_job_that_was_asked_to_cancel_is_counted_on_and_nobody_else_is_asked(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    job_cancel(job_id=full[0].id, now=timezone.now(), **WHO)
    fire = submit(acme, job_class="incident")[0]
    assert make_room(desk) == 0
    desk.restart()
    assert make_room(desk) == 0
    settle(stopping(), stopped())
    assert desk.turn() == [str(fire.id)]


def test_work_that_no_worker_has_claimed_is_taken_back_at_once(desk: Desk, acme: Workspace) -> None:
    old, young = submit(acme, 2)
    desk.turn()
    fire = submit(acme, job_class="incident")[0]
    assert make_room(desk) == 1
    victim = Attempt.objects.get(state="preempted")
    assert (victim.job_id, victim.message) == (young.id, "Taken back before it began.")
    assert desk.turn() == [str(fire.id)]
    job = Job.objects.get(id=young.id)
    assert (job.state, job.preemptions, job.fence) == ("queued", 1, 1)
    victim.refresh_from_db()
    assert (victim.charge, victim.charge_due) == (0, None)
    assert {one.job_id for one in desk.claim()} == {old.id, fire.id}


def test_a_lost_worker_of_one_that_stops_goes_by_the_rule_for_lost_work(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    submit(acme, job_class="incident")
    make_room(desk)
    Attempt.objects.filter(state="stopping").update(lease_until=timezone.now() - timedelta(hours=1))
    assert settle_lost(desk.leader.epoch) == 1
    job = Job.objects.get(id=full[1].id)
    assert (job.state, job.reason, job.preemptions) == ("queued", "worker_lost", 0)


def test_who_was_preempted_as_often_as_the_policy_allows_is_spared(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    Job.objects.filter(id=full[1].id).update(preemptions=2)
    Job.objects.filter(id=full[0].id).update(preemptions=1)
    desk.restart()
    desk.turn()  # a new leader's first turn does all that is due by the clock
    submit(acme, 2, job_class="incident")
    assert make_room(desk) == 1
    assert [one.job_id for one in stopping()] == [full[0].id]


def test_work_that_must_not_run_twice_yields_only_from_a_checkpoint(
    desk: Desk, acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = submit(acme, 2, idempotent=False)
    desk.turn()
    desk.claim()
    submit(acme, job_class="incident")
    traits = {"simulated": None}
    monkeypatch.setattr("scheduling.governor.room.traits_of", traits.get)
    assert make_room(desk) == 0
    from_checkpoint = type("T", (), {"checkpoints": False, "cancellable": True})
    monkeypatch.setattr("scheduling.governor.room.traits_of", lambda _kind: from_checkpoint)
    assert make_room(desk) == 0
    from_checkpoint.checkpoints = True
    assert make_room(desk) == 1
    assert stopping()[0].job_id == whole[1].id


def test_a_flow_is_left_alone_for_it_yields_by_itself(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    Job.objects.update(kind="flow")
    desk.restart()
    submit(acme, job_class="incident")
    assert make_room(desk) == 0


def test_nobody_is_asked_where_the_policy_does_not_allow_it(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    make_policy()
    submit(acme, job_class="incident")
    assert make_room(desk) == 0


def test_a_leader_that_lost_its_lease_asks_nobody(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    submit(acme, job_class="incident")
    desk.turn()
    book, epoch = desk.leader.book, desk.leader.epoch
    assert room_make(book, epoch + 1, timezone.now().timestamp() + 1) == 0
    assert stopping() == []


def test_a_new_leader_counts_on_what_is_stopping(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    submit(acme, job_class="incident")
    assert make_room(desk) == 1
    desk.restart()
    assert make_room(desk) == 0


def test_the_duty_is_done_on_the_leaders_clock(
    desk: Desk, acme: Workspace, full: list[Job]
) -> None:
    submit(acme, job_class="incident")
    desk.turn()
    desk.leader._make_room()
    assert len(stopping()) == 1


def test_draining_an_executor_may_send_what_can_yield_elsewhere(
    desk: Desk, pool: Pool, full: list[Job]
) -> None:
    executor = Executor.objects.get()
    executor_drain(executor_id=executor.id, draining=True, stops=True, **WHO)
    desk.leader._reconfigure()
    assert make_room(desk) == 2
    assert {one.stop_for for one in stopping()} == {"drain"}
    settle(stopping(), stopped())
    assert desk.turn() == []
    other = make_executor(pool, "other")
    desk.leader._reconfigure()
    assert sorted(desk.turn()) == sorted(str(job.id) for job in full)
    assert Attempt.objects.filter(executor=other, state="dispatched").count() == 2
    assert make_room(desk) == 0


def test_draining_without_that_lets_what_runs_end(desk: Desk, pool: Pool, full: list[Job]) -> None:
    executor = Executor.objects.get()
    executor_drain(executor_id=executor.id, draining=True, stops=True, **WHO)
    executor_drain(executor_id=executor.id, draining=False, **WHO)
    assert not Executor.objects.get().drain_stops
    executor_drain(executor_id=executor.id, draining=True, **WHO)
    desk.leader._reconfigure()
    assert make_room(desk) == 0
