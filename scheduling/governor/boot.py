"""What a new leader starts from: settings, memory, and every job that has not ended."""

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.backends.utils import CursorWrapper

from scheduling.core.types import Memory, MemoryKey
from scheduling.governor.book import Book, given_seconds
from scheduling.governor.config import Config, config_load
from scheduling.governor.durations import Durations
from scheduling.governor.pickup import seen_now
from scheduling.governor.rows import AttemptRow, JobRow, split
from scheduling.governor.statements import ATTEMPT_COLUMNS, JOB_COLUMNS, LOAD
from scheduling.models import ServiceMemory
from scheduling.selectors.seam import queue_policy

BATCH = 1_000
_CORRECTIONS = (
    f"SELECT {JOB_COLUMNS}, {ATTEMPT_COLUMNS} FROM scheduling_attempt a "  # noqa: S608 (constants)
    "JOIN scheduling_job j ON j.id = a.job_id WHERE a.charge_due IS NOT NULL ORDER BY a.id"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the rows say of the past: the order's memory by pool, corrections of charges that are
    due, and every job that has not ended with its last attempt."""

    memory: Mapping[str, Mapping[MemoryKey, Memory]]
    corrections: Sequence[tuple[JobRow, AttemptRow | None]]
    jobs: Sequence[tuple[JobRow, AttemptRow | None]]


def book_load(epoch: int, now: float) -> Book:
    """Build the memory of the leader of `epoch` from the rows."""
    config = config_load(now=now)
    durations = Durations(config.policy.default_expected_s, given_seconds(config))
    durations.load()
    seen = seen_now(epoch)
    book = book_of(config, durations, kept_load(), now)
    book.seen = seen
    return book


def book_of(
    config: Config, durations: Durations, kept: Kept, now: float, like: Book | None = None
) -> Book:
    """Build the memory of a leader under a configuration from what the rows say.

    `like` is one of the same rows under other settings, whose jobs are taken where they are right.
    """
    book = Book(config, durations, queue_policy())
    book.open_pools(kept.memory)
    for job, attempt in kept.corrections:
        if attempt is not None:
            book.correct(job, attempt)
    book.load(kept.jobs, now, like)
    return book


def kept_load() -> Kept:
    """Read what a memory is built from."""
    memory = memory_load()
    with connection.cursor() as cursor:
        cursor.execute(_CORRECTIONS)
        corrections = _pairs(cursor)
        cursor.execute(LOAD)
        jobs = _pairs(cursor)
    return Kept(memory=memory, corrections=corrections, jobs=jobs)


def _pairs(cursor: CursorWrapper) -> list[tuple[JobRow, AttemptRow | None]]:
    """Take in the rows by the batch: they never stand in memory twice."""
    pairs: list[tuple[JobRow, AttemptRow | None]] = []
    while rows := cursor.fetchmany(BATCH):
        pairs += map(split, rows)
    return pairs


def memory_load(pool: uuid.UUID | None = None) -> dict[str, dict[MemoryKey, Memory]]:
    """Return the saved memory of the fair order by pool, of all pools or of one."""
    pools: dict[str, dict[MemoryKey, Memory]] = defaultdict(dict)
    rows = ServiceMemory.objects.all()
    for row in rows if pool is None else rows.filter(pool=pool):
        key = (
            row.job_class,
            str(row.tenant_id) if row.tenant_id else None,
            str(row.workspace_id) if row.workspace_id else None,
        )
        placed = row.last_placed_at
        pools[str(row.pool_id)][key] = Memory(
            turn=row.turn,
            used=row.used,
            lifts=row.lifts,
            top=row.top,
            backlogged=row.backlogged,
            last_placed_at=placed.timestamp() if placed else None,
        )
    return dict(pools)
