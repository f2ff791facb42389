"""A worker process: its lock, its beat, and that no result is lost."""

import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.utils import OperationalError
from django.utils import timezone

from billing.services.prices import prices_forget
from scheduling.governor.statements import LOST
from scheduling.models import Attempt, Executor, Job, JobEvent, Worker
from scheduling.services import settlement
from scheduling.services.cancel import job_cancel
from scheduling.services.settlement import Report
from scheduling.tasks import process as module
from scheduling.tasks.process import LOCK_SPACE, Process, leave, present
from tenants.models import Workspace
from tests.scheduling.factories import WHO, claim, done, make_price, place, submit


def until(true: Callable[[], bool], seconds: float = 8.0) -> bool:
    """Wait until it is true."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def locked(worker: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCK_SPACE, worker])
        (free,) = cursor.fetchone()
        if free:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [LOCK_SPACE, worker])
    return not free


def running(space: Workspace, process: Process, count: int = 1, **more: Any) -> list[Attempt]:
    attempts = [place(job) for job in submit(space, count, **more)]
    claim(process.worker_id, attempts)
    process.cancels.update({one.id: threading.Event() for one in attempts})
    return attempts


def report(attempt: Attempt) -> Report:
    return Report(attempt_id=attempt.id, fence=attempt.fence, outcome=done())


def settled(count: int) -> Callable[[], bool]:
    return lambda: Job.objects.filter(state="done").count() == count


def test_a_process_holds_its_lock_until_it_leaves(process: Process) -> None:
    assert locked(process.worker_id)
    leave()
    assert until(lambda: not locked(process.worker_id))


def test_a_process_is_registered_once_with_its_threads_and_queues(process: Process) -> None:
    assert present(threads=9, queues=["other"]) is process
    row = Worker.objects.get()
    assert (row.id, row.threads, row.queues) == (process.worker_id, 4, ["simulated"])


def test_the_beat_renews_leases_and_keeps_the_process_seen(
    process: Process, acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = running(acme, process)[0]
    Attempt.objects.update(lease_until=timezone.now())
    Worker.objects.update(seen_at=timezone.now() - timedelta(hours=1))

    def renewed() -> bool:
        attempt.refresh_from_db()
        return attempt.lease_until > timezone.now() + timedelta(seconds=1)

    assert until(renewed)
    assert Worker.objects.get().seen_at > timezone.now() - timedelta(minutes=1)
    with connection.cursor() as cursor:
        cursor.execute(
            LOST, {"space": LOCK_SPACE, "silent_s": 100, "patience_s": 0, "by_caller": []}
        )
        assert cursor.fetchall() == []


def test_a_beat_after_the_lease_was_over_adopts_what_still_runs_and_says_so(
    process: Process, acme: Workspace
) -> None:
    late, _ = running(acme, process, 2)
    Attempt.objects.filter(id=late.id).update(lease_until=timezone.now() - timedelta(seconds=5))
    adopted = JobEvent.objects.filter(event="adopted")
    assert until(adopted.exists)
    assert until(lambda: Attempt.objects.get(id=late.id).lease_until > timezone.now())
    (told,) = adopted
    assert (told.attempt_id, told.job_id, told.data) == (late.id, late.job_id, {"fence": 1})


def test_what_the_process_does_not_know_of_is_not_renewed(
    process: Process, acme: Workspace
) -> None:
    known, unknown = running(acme, process, 2)
    del process.cancels[unknown.id]
    Attempt.objects.update(lease_until=timezone.now() - timedelta(seconds=5))
    assert until(lambda: Attempt.objects.get(id=known.id).lease_until > timezone.now())
    assert Attempt.objects.get(id=unknown.id).lease_until < timezone.now()


def test_a_result_that_waits_to_be_settled_keeps_its_lease(
    process: Process, acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (report(one) for one in running(acme, process, 3))
    process.cancels.clear()
    process._put_off.append((time.monotonic() + 100, third))
    seen: list[set[uuid.UUID]] = []

    def settle(_reports: Any) -> bool:
        process.results.put(second)
        seen.append(set(process.held()))
        process.results.get()
        return True

    monkeypatch.setattr(Process, "_settled", lambda _self, reports: settle(reports))
    process.stopping.set()
    assert until(process.settled.is_set)
    process.settle_now([first])
    assert seen == [{first.attempt_id, second.attempt_id, third.attempt_id}]
    assert process.held() == [third.attempt_id]
    process._put_off.clear()


def test_a_job_that_is_canceled_has_its_event_set(process: Process, acme: Workspace) -> None:
    first, second = running(acme, process, 2)
    events = {one.id: threading.Event() for one in (first, second)}
    process.cancels.update(events)
    job_cancel(job_id=second.job_id, now=timezone.now(), **WHO)
    assert events[second.id].wait(timeout=8)
    assert not events[first.id].is_set()
    process.cancels.clear()


def test_results_are_settled_in_sets(
    process: Process, acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = settlement.attempts_settle

    def counted(**asked: Any) -> Any:
        sizes.append(len(asked["reports"]))
        return real(**asked)

    monkeypatch.setattr(module, "attempts_settle", counted)
    for attempt in running(acme, process, 30):
        process.results.put(report(attempt))
    assert until(settled(30))
    assert sum(sizes) == 30
    assert len(sizes) <= 3


def test_results_are_kept_while_the_database_is_away(
    process: Process, acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    real = settlement.attempts_settle

    def flaky(**asked: Any) -> Any:
        calls.append(len(asked["reports"]))
        if len(calls) <= 2:
            raise OperationalError
        return real(**asked)

    monkeypatch.setattr(module, "attempts_settle", flaky)
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    for attempt in running(acme, process, 3):
        process.results.put(report(attempt))
    assert until(settled(3))
    assert len(calls) >= 3


def test_one_result_that_cannot_be_booked_stops_none_of_the_others_and_is_settled_when_it_can(
    process: Process, acme: Workspace, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PUT_OFF_S", 0.3)
    jobs = submit(acme, 4)
    bad = Executor(id=acme.id, slug="bad", pool=executor.pool, kind="simulated",
                   provider="unpriced", job_kinds=["simulated"], slots=1)  # fmt: skip
    bad.save(force_insert=True)
    poor, *good = [
        place(job, executor=on) for job, on in zip(jobs, [bad, *[executor] * 3], strict=True)
    ]
    claim(process.worker_id, [poor, *good])
    for attempt in (poor, *good[:2]):
        process.results.put(report(attempt))
    assert until(settled(2))
    poor.refresh_from_db()
    assert poor.state == "running"
    process.results.put(report(good[2]))
    assert until(settled(3))
    make_price("unpriced", output="1")
    prices_forget()
    assert until(settled(4))


def test_leaving_settles_what_is_left_before_the_lock_is_given_up(
    process: Process, acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = settlement.attempts_settle
    held: list[bool] = []

    def slow(**asked: Any) -> Any:
        time.sleep(0.4)
        held.append(locked(process.worker_id))
        return real(**asked)

    monkeypatch.setattr(module, "attempts_settle", slow)
    process.results.put(report(running(acme, process)[0]))
    leave()
    assert settled(1)()
    assert held == [True]
    assert Worker.objects.get().threads == 0


def test_a_lost_connection_is_made_again_with_the_lock_and_so_are_those_of_the_pool(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed = threading.Event()
    monkeypatch.setattr(module, "connections_renew", lambda _error: renewed.set())
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' "
            "AND classid = %s AND objid = %s",
            [LOCK_SPACE, process.worker_id],
        )
    assert renewed.wait(5)
    assert until(lambda: locked(process.worker_id))
