"""Making room: running work that is asked to stop for a higher class, or to leave a drained executor.

Who stops for whom is the core's decision (`core.policy.preempting`); here it is asked with what the
rows say, and marked in one statement. The attempt's worker hears of it with its next beat, as of a
cancel; the work stops or leaves a checkpoint, and its job waits again with its time of submission.
Until then it keeps its capacity, and the head that it makes room for waits in front of it.

Which work may yield: what its executor can take up again from a checkpoint, or can stop and the job
says may run twice. Work that is neither is left alone. A flow is, too: it yields by itself, for its
next step stands in the order behind the higher class.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from billing.services.sets import array
from scheduling.core.policy.preempting import preempting
from scheduling.core.types import Live
from scheduling.executors.registry import traits_of
from scheduling.governor.book import Book
from scheduling.governor.rows import is_by_worker
from scheduling.governor.statements import MAKE_ROOM
from tenants.prepared import prepared

UNBEGUN = "Taken back before it began."
FLOW = "flow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A live job that shall stop, what for, and what its story is told."""

    job: str
    attempt: str
    stop_for: str
    told: Mapping[str, Any]


def room_make(book: Book, epoch: int, now: float) -> int:
    """Ask what must make room to stop; returns how many were asked."""
    asked = [*_preempted(book, now), *_drained(book)]
    if not asked:
        return 0
    unique = {one.job: one for one in reversed(asked)}
    return _ask(book, list(unique.values()), epoch)


def yielding(book: Book, live: Iterable[Live]) -> dict[str, int]:
    """Return the jobs of `live` that may yield, each with how often it was preempted before."""
    found = {}
    for one in live:
        row, known = book.rows.get(one.job_id), book.config.executor_rows.get(one.executor)
        traits = traits_of(known.kind) if known else None
        if row is None or traits is None or one.job_id in book.stopping:
            continue
        if row.kind == FLOW or not is_by_worker(row):
            continue  # a flow yields at its next step; what others run cannot be told to stop
        if traits.checkpoints or (traits.cancellable and row.idempotent):
            found[one.job_id] = row.preemptions
    return found


def _preempted(book: Book, now: float) -> Iterator[Asked]:
    if not book.config.policy.preemption.enabled:
        return
    for state in book.states.values():
        may_yield = yielding(book, state.live.values())
        due = (
            preempting(state, now, yielding=may_yield, stopping=book.stopping) if may_yield else []
        )
        for one in due:
            told = {"for_class": one.job.class_name, "for_job": one.job.id}
            yield from (_asked(book, live, "preempt", told) for live in one.victims)


def _drained(book: Book) -> Iterator[Asked]:
    emptied = {one for one, facts in book.config.executor_rows.items() if facts.drain_stops}
    if not emptied:
        return
    for state in book.states.values():
        on_them = [live for live in state.live.values() if live.executor in emptied]
        may_yield = yielding(book, on_them)
        yield from (_asked(book, live, "drain", {}) for live in on_them if live.job_id in may_yield)


def _asked(book: Book, live: Live, stop_for: str, told: Mapping[str, Any]) -> Asked:
    known = book.config.executor_rows[live.executor]
    facts = {"stop_for": stop_for, "executor": known.slug, "units": live.cost, **told}
    attempt = book.attempts[live.job_id]
    return Asked(job=live.job_id, attempt=attempt.id, stop_for=stop_for, told=facts)


def _ask(book: Book, asked: list[Asked], epoch: int) -> int:
    columns = {
        "jobs": array(one.job for one in asked),
        "attempts": array(one.attempt for one in asked),
        "stop_for": array(one.stop_for for one in asked),
        "told": array(json.dumps(one.told) for one in asked),
    }
    by = {"policy": book.config.policy.number, "control": book.config.control}
    with prepared() as cursor:
        cursor.execute(MAKE_ROOM, columns | by | {"epoch": epoch, "unbegun": UNBEGUN})
        rows = cursor.fetchall()
    book.stopping.update(job for job, runs in rows if runs)
    return len(rows)
