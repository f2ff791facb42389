"""Settling sets at the same time, and what a set costs."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing.models import LedgerEntry, Reservation
from billing.services import prices
from billing.services.checks import balances_differ
from scheduling.models import Attempt, Decision, Executor, Job, JobEvent, Pool
from scheduling.services.retention import jobs_forget
from scheduling.services.settlement import SettledSet
from tenants.models import Workspace
from tests.locks import wait_until_waited_for
from tests.scheduling.factories import done, make_budget, make_tenant, running, settle, submit

pytestmark = pytest.mark.django_db(transaction=True)


def test_overlapping_sets_in_other_orders_settle_each_once_without_a_deadlock(
    acme: Workspace, worker: int, executor: Executor
) -> None:
    spaces = [acme, *(make_tenant(f"t{n}", executor.pool) for n in range(3))]
    for space in spaces:
        make_budget(space, "1000")
        make_budget(space, "1000", dimension="attempts", window="day")
    dice = random.Random(7)
    for _ in range(6):
        attempts = [running(job, worker) for space in spaces for job in submit(space, 5)]

        def report(chosen: list[Attempt]) -> int:
            try:
                return settle(chosen, done(output_total=1000)).settled
            finally:
                connection.close()

        sets = [dice.sample(attempts, 14) for _ in range(4)] + [attempts[::-1]]
        with ThreadPoolExecutor(5) as threads:
            assert sum(threads.map(report, sets)) == len(attempts)
    assert set(Job.objects.values_list("state", flat=True)) == {"done"}
    assert LedgerEntry.objects.filter(meter="worker_seconds").count() == 120
    assert not Reservation.objects.filter(state="open").exists()
    assert balances_differ() == []


@contextmanager
def settled_meanwhile(attempt: Attempt) -> Iterator[None]:
    """Settle an attempt in another connection, which has to wait for what the block holds."""

    def report() -> int:
        try:
            return settle([attempt], done({"text": "hi"})).settled
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            Job.objects.select_for_update().get(id=attempt.job_id)
            settled = threads.submit(report)
            wait_until_waited_for()
            yield
        assert settled.result(timeout=20) == 1


def test_a_settle_that_waits_for_a_job_holds_no_attempt_and_sees_what_was_done_meanwhile(
    acme: Workspace, worker: int
) -> None:
    attempt = running(submit(acme)[0], worker)
    with settled_meanwhile(attempt):
        held = Attempt.objects.select_for_update(nowait=True).get()
        Attempt.objects.filter(id=held.id).update(state="stopping")
        Job.objects.update(cancel_requested=True)
    attempt.refresh_from_db()
    job = Job.objects.get()
    assert (attempt.state, job.state, job.reason) == ("complete", "canceled", "canceled")


def test_a_late_report_that_waits_for_a_job_that_is_forgotten_leaves_nothing_in_the_books(
    acme: Workspace, worker: int
) -> None:
    attempt = running(submit(acme)[0], worker)
    settle([attempt], None)
    again = running(Job.objects.get(), worker, 2)
    settle([again], done({"text": "new"}))
    booked = LedgerEntry.objects.count()

    def report() -> SettledSet:
        try:
            return settle([attempt], done({"text": "late"}))
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            assert jobs_forget(before=timezone.now() + timedelta(days=1)) == 1
            late = threads.submit(report)
            wait_until_waited_for()
        assert late.result(timeout=20) == SettledSet(settled=0, stale=0)
    books = (Job, Attempt, JobEvent, Decision)
    assert [book.objects.count() for book in books] == [0, 0, 0, 0]
    assert LedgerEntry.objects.count() == booked


PLAIN_STATEMENTS = 9
"""Rows locked, control clock, ledger, reservations, balances locked and written, rows written,
events, deferred jobs woken: one statement each."""


@pytest.mark.parametrize("count", [1, 40])
def test_a_plain_set_takes_one_statement_a_matter_whatever_its_size(
    acme: Workspace, worker: int, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(prices, "CACHE_S", 3600)
    spaces = [acme, *(make_tenant(f"t{n}", Pool.objects.get()) for n in range(2))]
    for space in spaces:
        make_budget(space, "1000")
        make_budget(space, "1000", dimension="attempts", window="day")
    attempts = [running(job, worker) for space in spaces for job in submit(space, count + 1)]
    settle(attempts[:: count + 1], done())  # what a process reads once: prices, policy, budgets
    with CaptureQueriesContext(connection) as asked:
        assert settle(attempts, done(output_total=10)) == SettledSet(settled=3 * count, stale=3)
    said = [one["sql"] for one in asked if one["sql"] not in ("BEGIN", "COMMIT")]
    assert len(said) <= PLAIN_STATEMENTS, said
    assert balances_differ() == []
