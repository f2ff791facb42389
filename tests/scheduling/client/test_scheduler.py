"""The scheduler's contract in a process: submit, wait, events, acquire, release, cancel, status."""

import atexit
import threading
import time
import uuid
from typing import Any

import pytest
from django.db import connection, connections, transaction

from billing.reports import cost_of_job
from scheduling.client import scheduler as module
from scheduling.client.errors import InTransaction, JobOver, NotAdmitted, SlotTimeout
from scheduling.client.outcomes import completed
from scheduling.client.scheduler import Scheduler
from scheduling.models import Attempt, Executor, Job, Pool, Worker
from scheduling.services.drafts import Submission
from tenants.models import Workspace
from tenants.rbac import Hidden
from tests.scheduling.client.conftest import ENDPOINT
from tests.scheduling.factories import asked, make_tenant, make_worker, submit
from tests.scheduling.tasks.test_process import until

USAGE = {"usage": {"prompt_tokens": 1_000, "completion_tokens": 500_000}}


def call(**more: Any) -> Submission:
    payload = {"purpose": "a test", "input_tokens": 1_000, "output_tokens": 1_000_000}
    fields: dict[str, Any] = {"workflow": "build", "kind": "call", "payload": payload}
    return Submission(**(fields | {"model": "small"} | more))


def ended(job: uuid.UUID) -> tuple[str, str, str]:
    row = Job.objects.get(id=job)
    return row.state, row.reason, Attempt.objects.filter(job=job).latest("fence").state


def test_a_slot_names_the_executor_and_its_release_settles_the_usage(
    scheduler: Scheduler, governor: None
) -> None:
    slot = scheduler.acquire(call(), timeout_s=10)
    assert (slot.executor, slot.executor_kind, slot.model) == ("gpu", "local-model", "small")
    assert (slot.endpoint, slot.fence) == (ENDPOINT, 1)
    assert Attempt.objects.get(id=slot.attempt).state == "running"
    slot.complete(USAGE)
    assert ended(slot.job) == ("done", "finished", "complete")
    assert str(cost_of_job(slot.job).total.normalize()) == "0.5005"
    slot.complete(USAGE)
    assert Attempt.objects.filter(job=slot.job).count() == 1


def test_a_slot_needs_no_worker_of_ours_and_no_more_are_given_than_there_are(
    scheduler: Scheduler, governor: None
) -> None:
    first, second = (scheduler.acquire(call(), timeout_s=10) for _ in range(2))
    assert Worker.objects.get().threads == 0
    with pytest.raises(SlotTimeout) as late:
        scheduler.acquire(call(), timeout_s=0.7)
    assert scheduler.status(late.value.job).state == "canceled"
    first.release()
    third = scheduler.acquire(call(), timeout_s=10)
    assert ended(first.job) == ("failed", "execution_error", "canceled")
    for one in (second, third):
        one.complete(USAGE)


def test_the_exit_of_the_process_has_one_thing_to_do_for_all_its_slots(
    scheduler: Scheduler, governor: None
) -> None:
    scheduler.acquire(call(), timeout_s=10).release()
    before = atexit._ncallbacks()
    scheduler.acquire(call(), timeout_s=10).release()
    assert atexit._ncallbacks() == before


def test_a_slot_comes_within_a_moment_of_its_placement(
    scheduler: Scheduler, governor: None
) -> None:
    scheduler.acquire(call(), timeout_s=10).release()
    began = time.monotonic()
    scheduler.acquire(call(), timeout_s=10).release()
    assert time.monotonic() - began < 1.5


def test_a_job_may_go_on_waiting_after_a_timeout_and_be_acquired_later(
    scheduler: Scheduler, executor: Executor, governor: None
) -> None:
    held = [scheduler.acquire(call(), timeout_s=10) for _ in range(2)]
    job = scheduler.submit(call()).job
    with pytest.raises(SlotTimeout) as late:
        scheduler.acquire(job, timeout_s=0.3, cancel=False)
    assert (late.value.job, late.value.waits) == (job, True)
    assert scheduler.status(job).state == "queued"
    held[0].release()
    slot = scheduler.acquire(job, timeout_s=10)
    assert slot.job == job
    for one in (slot, held[1]):
        one.release()


def test_a_placement_that_nobody_takes_is_lost_and_its_units_are_free_again(
    scheduler: Scheduler, governor: None
) -> None:
    job = scheduler.submit(call()).job
    assert until(lambda: Job.objects.get(id=job).state == "running")
    attempt = Attempt.objects.get(job=job)
    assert (attempt.sent_at, attempt.state) == (None, "dispatched")
    Attempt.objects.update(lease_until=attempt.dispatched_at)
    assert until(lambda: Job.objects.get(id=job).state == "failed")
    assert ended(job) == ("failed", "caller_lost", "lost")
    assert Attempt.objects.get().charge_due in (None, 0)
    with pytest.raises(JobOver) as over:
        scheduler.acquire(job, timeout_s=5)
    assert (over.value.state, over.value.reason) == ("failed", "caller_lost")


def test_a_cancel_reaches_the_slot_and_what_was_used_is_booked(
    scheduler: Scheduler, governor: None
) -> None:
    slot = scheduler.acquire(call(), timeout_s=10)
    scheduler.cancel(slot.job, reason="enough")
    assert slot.canceled.wait(5)
    scheduler.release(slot, completed(USAGE, slot.estimate, elapsed_s=1.0))
    assert ended(slot.job)[:2] == ("canceled", "canceled")
    assert cost_of_job(slot.job).total > 0
    scheduler.cancel(slot.job)


def test_a_canceled_job_gives_no_slot(scheduler: Scheduler, governor: None) -> None:
    held = [scheduler.acquire(call(), timeout_s=10) for _ in range(2)]
    job, found = scheduler.submit(call()).job, []

    def wait() -> None:
        try:
            scheduler.acquire(job, timeout_s=10)
        except JobOver as over:
            found.append(over.state)
        finally:
            connections.close_all()

    thread = threading.Thread(target=wait)
    thread.start()
    scheduler.cancel(job)
    thread.join(5)
    assert found == ["canceled"]
    for one in held:
        one.release()


@pytest.mark.parametrize("fault", [KeyboardInterrupt, SystemExit, ValueError])
def test_whatever_ends_the_waiting_the_job_does_not_wait_on(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, fault: type[BaseException]
) -> None:
    def broken(_job: uuid.UUID) -> None:
        raise fault

    monkeypatch.setattr(module, "standing_of", broken)
    with pytest.raises(fault):
        scheduler.acquire(call(), timeout_s=5)
    assert Job.objects.get().state == "canceled"


@pytest.mark.parametrize("fault", [KeyboardInterrupt, ValueError])
def test_a_claim_that_was_cut_short_leaves_no_slot_taken(
    scheduler: Scheduler, governor: None, monkeypatch: pytest.MonkeyPatch,
    fault: type[BaseException],
) -> None:  # fmt: skip
    real = module.attempts_claim

    def cut(**asked: Any) -> Any:
        real(**asked)
        raise fault

    monkeypatch.setattr(module, "attempts_claim", cut)
    with pytest.raises(fault):
        scheduler.acquire(call(), timeout_s=5)
    assert until(lambda: Job.objects.get().finished_at is not None)
    assert not Attempt.objects.filter(state__in=["dispatched", "running", "stopping"]).exists()


@pytest.mark.parametrize("fault", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_whatever_ends_the_block_of_a_slot_it_is_released(
    scheduler: Scheduler, governor: None, fault: type[BaseException]
) -> None:
    slot = scheduler.acquire(call(), timeout_s=10)
    with pytest.raises(fault), slot:
        raise fault
    assert slot.released
    assert ended(slot.job)[:2] == ("failed", "execution_error")


def test_a_denied_job_and_a_wrong_one_say_why(scheduler: Scheduler) -> None:
    with pytest.raises(NotAdmitted) as denied:
        scheduler.submit(call(model="huge"))
    assert denied.value.reason == "unpriced_model"
    with pytest.raises(NotAdmitted) as wrong:
        scheduler.acquire(call(payload={"input_tokens": -1}))
    assert {one.field for one in wrong.value.errors} == {
        "payload.input_tokens", "payload.output_tokens",
    }  # fmt: skip


def test_a_slot_is_not_asked_for_inside_a_transaction(scheduler: Scheduler) -> None:
    with transaction.atomic(), pytest.raises(InTransaction):
        scheduler.acquire(call())
    assert not Job.objects.exists()


def test_only_what_its_caller_runs_has_a_slot_to_acquire(
    scheduler: Scheduler, executor: Executor
) -> None:
    Executor.objects.update(kind="simulated", job_kinds=["simulated"])
    job = scheduler.submit(asked()).job
    with pytest.raises(ValueError, match="run by a worker"):
        scheduler.acquire(job)


def test_another_tenants_job_is_not_there(scheduler: Scheduler, pool: Pool) -> None:
    Executor.objects.update(kind="simulated", job_kinds=["simulated"])
    job = submit(make_tenant("other", pool))[0].id
    for act in (scheduler.status, scheduler.wait, scheduler.cancel, scheduler.acquire):
        with pytest.raises(Hidden):
            act(job)
    with pytest.raises(Hidden):
        next(scheduler.events(job))


def test_waiting_ends_with_the_job_or_with_its_time(scheduler: Scheduler, governor: None) -> None:
    slot = scheduler.acquire(call(), timeout_s=10)
    assert scheduler.wait(slot.job, timeout_s=0.2).state == "running"
    threading.Timer(0.3, lambda: (slot.complete(USAGE), connection.close())).start()
    status = scheduler.wait(slot.job, timeout_s=10)
    assert (status.state, status.ended) == ("done", True)


def test_events_are_told_in_order_until_the_job_has_ended(
    scheduler: Scheduler, governor: None
) -> None:
    slot = scheduler.acquire(call(), timeout_s=10)
    told = scheduler.events(slot.job)
    assert [next(told).event for _ in range(2)] == ["queued", "placed"]
    slot.complete(USAGE)
    rest = list(told)
    assert [one.event for one in rest] == ["finished"]
    assert [one.event for one in scheduler.events(slot.job, after=rest[0].pk - 1)] == ["finished"]


def test_a_call_goes_past_work_that_waits_for_a_worker(
    scheduler: Scheduler, acme: Workspace, governor: None
) -> None:
    chat = Submission(
        workflow="build", kind="chat", model="small",
        payload={"messages": [{"role": "user", "content": "hi"}]},
    )  # fmt: skip
    first = scheduler.submit(chat).job
    scheduler.acquire(call(), timeout_s=10).complete(USAGE)
    assert Job.objects.get(id=first).state == "queued"
    make_worker(threads=1, queues=["local-model"])
    assert until(lambda: Job.objects.get(id=first).state == "running")
