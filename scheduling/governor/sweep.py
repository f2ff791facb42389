"""What the leader does by the clock: wake, resend, and settle the attempts of lost workers."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from django.conf import settings
from django.db import connection, transaction

from billing.services.sets import array
from scheduling.governor.book import Book
from scheduling.governor.lease import require
from scheduling.governor.messages import Sent
from scheduling.governor.statements import (
    DEFERRED_DUE,
    EXPIRY_DUE,
    FALL_BACK,
    LOST,
    OPEN_CIRCUITS,
    PUT_OFF,
    UNCLAIMED,
    WAKE,
)
from scheduling.kinds.contract import RunsBy
from scheduling.kinds.registry import KINDS, runs_by
from scheduling.services.settlement import BOOKING_FAULTS, Report, attempts_settle
from scheduling.tasks.process import LOCK_SPACE

log = logging.getLogger(__name__)

FALL_BACK_AT_ONCE = 200
BY_CALLER = [name for name in KINDS if runs_by(name) is RunsBy.CALLER]
SILENT_S = 1.2
"""How long a worker without its lock may be silent before it counts as dead: more than one beat,
so that one which merely lost its connection has time to come back."""
PATIENT_LEASES = 10
"""How many leases a living but silent worker is given to say whether it still runs work that must
not run twice; then it goes by the policy."""
PUT_OFF_S = 10.0
"""How long a lost attempt that cannot be booked (nothing prices it) is left alone."""


@dataclass(frozen=True, slots=True)
class Woken:
    """How many jobs wait no more, and how many circuits are half-open now."""

    jobs: int
    circuits: int


def wake(epoch: int) -> Woken:
    """Queue the waiting jobs whose time has come; half-open the circuits whose rest is over."""
    with connection.cursor() as cursor:
        cursor.execute(OPEN_CIRCUITS, {"epoch": epoch})
        circuits = int(cursor.rowcount)
        cursor.execute(WAKE, {"epoch": epoch})
        return Woken(int(cursor.rowcount), circuits)


def fall_back(book: Book, epoch: int) -> int:
    """Send queued jobs of which every circuit is open to admission, where a stand-in may be found.

    Returns how many those were.
    """
    lists = book.config.policy.fallback
    if not lists or not book.config.is_troubled:
        return 0
    known = {model for one in lists for model in (one.model, *(c.model for c in one.candidates))}
    stranded = [
        job.id
        for state in book.states.values()
        for job in islice(state.stranded(known), FALL_BACK_AT_ONCE)
    ]
    if not stranded:
        return 0
    with connection.cursor() as cursor:
        models = array([one.model for one in lists])
        cursor.execute(FALL_BACK, {"epoch": epoch, "jobs": array(stranded), "models": models})
        return int(cursor.rowcount)


def admission_is_due() -> bool:
    """Tell whether a deferred job's time has come."""
    return _is_so(DEFERRED_DUE)


def expiry_is_due() -> bool:
    """Tell whether a job waits whose time to live is over, or whose deadline has passed."""
    return _is_so(EXPIRY_DUE)


def _is_so(question: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(question)
        row: tuple[bool] = cursor.fetchone()
    return row[0]


def unclaimed(book: Book, epoch: int) -> list[Sent]:
    """Return the attempts that no worker has claimed in time, to be sent again (with backoff)."""
    with connection.cursor() as cursor:
        cursor.execute(UNCLAIMED, {"epoch": epoch})
        rows = cursor.fetchall()
    kinds = book.config.executor_rows
    return [
        Sent(attempt, fence, kinds[executor].kind, expected_s)
        for attempt, fence, executor, expected_s in rows
        if executor in kinds
    ]


def settle_lost(epoch: int) -> int:
    """Settle what ran on workers that are gone; returns how many attempts that were.

    A worker's beat says what it truly runs. One whose lease is over and that still holds its lock is
    frozen, starved or cut off: work that may run twice goes on elsewhere at once, other work waits
    for its beat, which adopts it again.

    One that cannot be booked is put off and does not stop the others.
    """
    lease_s = settings.WORKER_LEASE_S
    silent = {
        "space": LOCK_SPACE,
        "silent_s": max(0.0, lease_s - SILENT_S),
        "patience_s": (PATIENT_LEASES - 1) * lease_s,
        "by_caller": BY_CALLER,
    }
    with connection.cursor() as cursor:
        cursor.execute(LOST, silent)
        reports = [
            Report(attempt_id=attempt, fence=fence, outcome=None)
            for attempt, fence in cursor.fetchall()
        ]
    if not reports:
        return 0
    try:
        return _settle(reports, epoch)
    except BOOKING_FAULTS:
        return sum(_settle_alone(report, epoch) for report in reports)


def _settle(reports: Sequence[Report], epoch: int) -> int:
    with transaction.atomic():
        require(epoch)
        return attempts_settle(reports=reports, now=datetime.now(UTC)).settled


def _settle_alone(report: Report, epoch: int) -> int:
    try:
        return _settle([report], epoch)
    except BOOKING_FAULTS as fault:
        log.error("attempt %s of a lost worker stays open: %s", report.attempt_id, fault)  # noqa: TRY400
        with connection.cursor() as cursor:
            cursor.execute(
                PUT_OFF, {"epoch": epoch, "attempt": report.attempt_id, "seconds": PUT_OFF_S}
            )
        return 0
