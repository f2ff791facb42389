"""Dispatch: one set-based statement for a batch of placements.

The statement checks the epoch, takes only jobs unchanged since they were read, and stores the attempts
and events. What it did not take is undone in memory and waits again: the job was canceled or
changed meanwhile and comes as a changed row, or somebody holds its row locked, which must not make
the leader wait. The service memory goes with the batch that changed it, in the same statement; what
an undone placement gives back is stored by the next one.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from billing.services.sets import array
from scheduling.core.types import REVIEWS, Job, Placement, Reason
from scheduling.governor.book import Book
from scheduling.governor.escalations import escalations_told
from scheduling.governor.lease import require
from scheduling.governor.messages import Sent
from scheduling.governor.rows import AttemptRow
from scheduling.governor.statements import DISPATCH, REMEMBER
from scheduling.kinds.contract import RunsBy
from scheduling.kinds.registry import runs_by
from tenants.ids import new_id
from tenants.prepared import prepared

CLAIM_S: Mapping[RunsBy, float] = MappingProxyType(
    {RunsBy.WORKERS: 0.0, RunsBy.CALLER: 5.0, RunsBy.REVIEWER: 100 * 365.0 * 86_400}
)
"""How long a placement may lie unclaimed before it is lost; 0: never, it is sent again instead."""


def dispatch(book: Book, placements: Sequence[Placement], *, pool: str, epoch: int) -> list[Sent]:
    """Store a batch of placements; return what the broker is to be told.

    Raises `LeadershipLost` when the epoch is over, having changed nothing.
    """
    ids = [str(new_id()) for _ in placements]
    with prepared() as cursor:
        columns = _columns(book, placements, ids) | _memory_columns(book)
        columns["raised"] = escalations_told(book, placements, pool)
        cursor.execute(DISPATCH, _arrays(columns) | _versions(book) | {"epoch": epoch})
        made = {row[1]: (row[0], int(row[2])) for row in cursor.fetchall()}
    if not made:
        require(epoch)
    sent, run_s = [], book.run_s()
    for placement in placements:
        taken = made.get(placement.spot.job.id)
        if taken is None:
            book.states[pool].undo(placement)
            book.states[pool].wait(placement.spot.job)
            continue
        attempt = _attempt(placement, taken)
        book.placed(placement, attempt)
        seconds = run_s.get(placement.spot.job.workflow, attempt.expected_s)
        sent.append(_sent(book, placement, attempt, seconds))
    return sent


def _sent(book: Book, placement: Placement, attempt: AttemptRow, seconds: float) -> Sent:
    job = placement.spot.job
    if job.by_worker:
        kind = book.config.executor_rows[placement.executor].kind
        return Sent(attempt.id, attempt.fence, kind, seconds)
    caller_of = job.id if runs_by(job.kind) is RunsBy.CALLER else ""
    return Sent(attempt.id, attempt.fence, "", seconds, caller_of)


def remember(book: Book, epoch: int) -> None:
    """Store the service memory that changed and the charge corrections that were applied."""
    memory = _memory_columns(book)
    if not memory["ids"] and not book.corrected:
        return
    with prepared() as cursor:
        columns = memory | {"corrected": list(book.corrected)}
        cursor.execute(REMEMBER, _arrays(columns) | {"epoch": epoch})
    book.corrected.clear()


def _memory_columns(book: Book) -> dict[str, Any]:
    """Return the service memory that changed since it was last asked for."""
    changes = [
        (pool, key, memory)
        for pool, state in book.states.items()
        for key, memory in state.order.memory_changes().items()
    ]
    return {
        "ids": [str(new_id()) for _ in changes],
        "pools": [pool for pool, _, _ in changes],
        "memory_classes": [key[0] for _, key, _ in changes],
        "tenants": [key[1] for _, key, _ in changes],
        "workspaces": [key[2] for _, key, _ in changes],
        "memory_turns": [memory.turn for _, _, memory in changes],
        "useds": [memory.used for _, _, memory in changes],
        "memory_lifts": [memory.lifts for _, _, memory in changes],
        "tops": [memory.top for _, _, memory in changes],
        "backlogged": [memory.backlogged for _, _, memory in changes],
        "placed": [_time(memory.last_placed_at) for _, _, memory in changes],
    }


def _arrays(columns: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    return {name: array(values) for name, values in columns.items()}


def _versions(book: Book) -> dict[str, int]:
    """Return what a placement was decided by: the policy's version and the last lever's number."""
    return {"policy": book.config.policy.number, "control": book.config.control}


def _columns(book: Book, placements: Sequence[Placement], ids: Sequence[str]) -> dict[str, Any]:
    jobs = [placement.spot.job for placement in placements]
    etas = [book.first_etas.get(job.id) for job in jobs]
    return {
        "jobs": [job.id for job in jobs],
        "attempts": list(ids),
        "executors": [placement.executor for placement in placements],
        "costs": [job.cost for job in jobs],
        "charges": [job.charge for job in jobs],
        "classes": [placement.spot.class_name for placement in placements],
        "turns": [placement.spot.turn for placement in placements],
        "lifts": [placement.lifts for placement in placements],
        "workspace_lifts": [placement.workspace_lifts for placement in placements],
        "expected": [job.expected_s for job in jobs],
        "names": [book.config.executor_rows[one.executor].slug for one in placements],
        "leases": [_lease_s(job) for job in jobs],
        "reasons": [_reason(placement).value for placement in placements],
        "changed": [book.rows[job.id].changed for job in jobs],
        "eta_at": [_time(eta.at if eta else None) for eta in etas],
        "eta_finish": [_time(eta.finish if eta else None) for eta in etas],
        "eta_low": [_time(eta.low if eta else None) for eta in etas],
        "eta_high": [_time(eta.high if eta else None) for eta in etas],
    }


def _reason(placement: Placement) -> Reason:
    """Return what the job's reason is from now on: one in review goes on waiting for its verdict."""
    is_review = placement.spot.job.kind == REVIEWS.name
    return Reason.REVIEW if is_review else placement.reason


def _lease_s(job: Job) -> float:
    """Return how long a placement stays before somebody has taken it; 0: till its message is sent again."""
    return CLAIM_S[runs_by(job.kind)]


def _attempt(placement: Placement, taken: tuple[str, int]) -> AttemptRow:
    job = placement.spot.job
    return AttemptRow(
        id=taken[0],
        fence=taken[1],
        state="dispatched",
        executor=placement.executor,
        cost=job.cost,
        charge=job.charge,
        charge_due=None,
        job_class=placement.spot.class_name,
        lifts=placement.lifts,
        workspace_lifts=placement.workspace_lifts,
        expected_s=job.expected_s,
        started_at=datetime.now(UTC).timestamp(),
        ended_at=None,
        eta_at=None,
        eta_finish=None,
        eta_low=None,
        eta_high=None,
        ran_s=None,
    )


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
