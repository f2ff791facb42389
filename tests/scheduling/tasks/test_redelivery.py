"""A broker that delivers again (C48): one dispatch, one hold, one slot, one charge."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from billing.models import LedgerEntry, Reservation
from scheduling.executors.contract import ErrorClass
from scheduling.executors.registry import SHARED
from scheduling.models import Attempt, Job
from scheduling.tasks.execute import attempts_run
from scheduling.tasks.process import Process, leave, present
from tenants.models import Workspace
from tests.scheduling.factories import done, failed, make_budget, place, submit
from tests.scheduling.tasks.test_execute import Scripted, live, message
from tests.scheduling.tasks.test_process import settled, until

MILLION = 1_000_000


class Slow(Scripted):
    """An executor whose runs last until the test lets them end."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.ends = threading.Event(), threading.Event()

    def dispatch(self, work: Any, cancel_event: threading.Event) -> Any:
        self.seen.append(work.job_id)
        self.began.set()
        self.ends.wait(10)
        return done(output_total=MILLION)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    executor = Slow()
    monkeypatch.setattr(SHARED, "get", lambda _spec: executor)
    return executor


@pytest.fixture
def attempt(acme: Workspace) -> Attempt:
    make_budget(acme, "10")
    return place(submit(acme)[0])


def begin(told: Any) -> threading.Thread:
    thread = threading.Thread(target=attempts_run, args=(told,))
    thread.start()
    return thread


def ran_once(slow: Slow) -> None:
    assert until(settled(1))
    assert len(slow.seen) == 1
    assert Reservation.objects.count() == 1
    assert Attempt.objects.count() == 1
    assert live() == 0
    assert LedgerEntry.objects.filter(meter="output").count() == 1


def test_a_message_that_comes_again_while_the_work_runs_for_hours_starts_nothing(
    process: Process, attempt: Attempt, slow: Slow
) -> None:
    first = begin(message([attempt]))
    assert slow.began.wait(8)
    Attempt.objects.update(dispatched_at=timezone.now() - timedelta(hours=1))
    attempts_run(message([attempt]))
    assert (len(slow.seen), live()) == (1, 1)
    slow.ends.set()
    first.join(8)
    ran_once(slow)


def test_a_message_that_reaches_two_workers_in_the_same_moment_is_run_by_one(
    process: Process, attempt: Attempt, slow: Slow
) -> None:
    slow.ends.set()
    barrier = threading.Barrier(2)

    def take() -> None:
        barrier.wait(8)
        attempts_run(message([attempt]))

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(8)
    ran_once(slow)


def test_a_message_that_comes_again_after_the_work_was_done_and_its_worker_restarted_runs_nothing(
    process: Process, attempt: Attempt, slow: Slow
) -> None:
    slow.ends.set()
    attempts_run(message([attempt]))
    assert until(settled(1))
    leave()
    present(threads=4, queues=["simulated"])
    attempts_run(message([attempt]))
    ran_once(slow)


def test_a_message_of_a_job_whose_time_has_not_come_runs_nothing_however_often_it_comes(
    process: Process, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = Scripted(failed(ErrorClass.PROVIDER_ERROR))
    monkeypatch.setattr(SHARED, "get", lambda _spec: scripted)
    attempts_run(message([attempt]))
    assert until(lambda: Job.objects.filter(state="waiting").exists())
    Job.objects.update(wake_at=timezone.now() + timedelta(hours=6))
    for _ in range(6):
        attempts_run(message([attempt]))
    assert len(scripted.seen) == 1
    assert (live(), Job.objects.get().state) == (0, "waiting")
    assert Reservation.objects.count() == 1
