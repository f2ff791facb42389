"""A look at one job's pool from outside the governor: its state built from the rows, as a leader does.

It calls no governor and changes nothing. A pool with few waiting jobs is built whole. Of a larger
one the jobs at the front are, in the order that was published last, beside the job itself: what
stands behind them decides nothing about them. What a leader learned in its own process (how many
short runs it lets wait before a thread) is taken from its last published header.
"""

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from math import isnan, nan

import numpy as np
import redis
from django.db import connection
from msgspec.structs import replace

from scheduling.core.eta.calibration import SLACK_S, Calibration
from scheduling.core.policy.explain import Ahead, ahead_of
from scheduling.core.states import JobState
from scheduling.governor.book import Book, given_seconds
from scheduling.governor.boot import memory_load
from scheduling.governor.config import Config, config_load
from scheduling.governor.durations import Durations
from scheduling.governor.rows import newcomer, split
from scheduling.governor.statements import ATTEMPT_COLUMNS, JOB_COLUMNS
from scheduling.models import Job, Pool
from scheduling.selectors.explanation.scene import Rehearsed, Scene
from scheduling.selectors.jobs import decision_last
from scheduling.selectors.queue import moment
from scheduling.selectors.seam import queue_policy
from scheduling.snapshot import Header, Rows, read_header, read_rows
from tenants.rbac import Reach

WHOLE_MOST = 500
"""Up to so many queued jobs a pool is built whole."""
FRONT = 500
"""Of a larger pool, the jobs at the front that are built."""
FRESH_S = 15.0
"""A published header older than this says nothing of the executors any more."""

_ROWS = f"""
SELECT {JOB_COLUMNS}, {ATTEMPT_COLUMNS} FROM scheduling_job j
LEFT JOIN scheduling_attempt a ON a.job_id = j.id AND a.fence = j.fence
WHERE j.state = 'running' OR j.id = ANY(%s::uuid[]) ORDER BY j.seq
"""  # noqa: S608 (constants)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    """The last published order of a pool: the front of it, and one job's place in it."""

    header: Header
    front: tuple[uuid.UUID, ...]
    ahead: Ahead | None
    start: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who asks: where it may see jobs, and whether it may see this job's budgets."""

    within: Reach
    amounts: bool


class JobMoved(Exception):
    """The job was placed, paused or ended while its moment was being read: read it anew."""


def scene_of(
    job: Job,
    rehearsed: Rehearsed,
    viewer: Viewer,
    *,
    client: redis.Redis,
    at: datetime,
    most: int | None = None,
) -> Scene:
    """Return the moment of a job. `most` is both how large a pool is built whole, and how many
    jobs at the front of a larger one (None: as explanations need it).

    A job that is not stored (it has no arrival number) is one that would be submitted at `at`: it
    stands in no line yet. Raises `JobMoved`, and `PolicyVersion.DoesNotExist` before there is a
    policy.
    """
    header = _header(client, job.pool)
    whole_most, front = (WHOLE_MOST, FRONT) if most is None else (most, most)
    queued = _queued(job.pool_id, whole_most)
    whole = len(queued) <= whole_most
    published = None if whole or header is None else _published(client, header, job.id, front)
    first = queued if whole else published.front if published else ()
    book = _book(job, {job.id, *first}, header, at)
    row = book.rows.get(str(job.id)) if job.seq else newcomer(job, at.timestamp())
    if row is None or (row.state, row.paused) != (job.state, job.paused):
        raise JobMoved
    state = book.states[str(job.pool_id)]
    core = state.order.get(row.id) or book.core(row)
    ahead = ahead_of(state, core) if whole else published.ahead if published else None
    return Scene(
        at=at,
        job=job,
        core=core,
        state=state,
        live={one: live for each in book.states.values() for one, live in each.live.items()},
        walked=whole or (ahead is not None and ahead.place <= front),
        ahead=ahead,
        start=published.start if published else None,
        range_of=_range_of(header),
        order_at=at if whole else moment(published.header.at) if published else None,
        tenants={tenant: facts.slug for tenant, facts in book.config.tenants.items()},
        measured=book.durations.measured(),
        decision=decision_last(job),
        attempt=job.attempts.select_related("executor").order_by("-fence").first(),
        rehearsed=rehearsed,
        within=viewer.within,
        amounts=viewer.amounts,
        raised=book.config.raised,
        caps=book.config.base_caps,
        rates=book.config.base_rates,
    )


def _queued(pool: uuid.UUID, most: int) -> list[uuid.UUID]:
    rows = Job.objects.filter(pool=pool, state=JobState.QUEUED, paused=False).order_by("seq")
    return list(rows.values_list("id", flat=True)[: most + 1])


def _header(client: redis.Redis, pool: Pool) -> Header | None:
    try:
        return read_header(client, str(pool.id))
    except redis.RedisError:
        return None


def _published(
    client: redis.Redis, header: Header, job: uuid.UUID, front: int
) -> _Published | None:
    try:
        rows = read_rows(client, header, 0, header.startable)
    except redis.RedisError:
        rows = None
    if rows is None:
        return None
    first = tuple(uuid.UUID(bytes=bytes(one)) for one in rows["job"][:front])
    ahead = _ahead(header, rows, job)
    start = nan if ahead is None else float(rows["start"][ahead.place - 1])
    return _Published(
        header=header, front=first, ahead=ahead, start=None if isnan(start) else start
    )


def _range_of(header: Header | None) -> Calibration:
    """Return the calibration that the leader told with its last clear time."""
    if header is None or header.clear_at is None or header.clear_at - header.at <= SLACK_S:
        return Calibration()
    wait = header.clear_at - header.at
    low, high = header.clear_low, header.clear_high
    if low is None or high is None:
        return Calibration()
    return Calibration(low=(low - header.at) / wait, high=(high - header.at) / wait)


def _ahead(header: Header, rows: Rows, job: uuid.UUID) -> Ahead | None:
    found = np.flatnonzero(rows["job"] == np.void(job.bytes))
    if not len(found):
        return None
    at, row = int(found[0]), rows[found[0]]
    tenants = rows["tenant"][:at]
    own = int(np.count_nonzero(tenants == row["tenant"]))
    return Ahead(
        place=at + 1,
        class_name=header.classes[row["job_class"]],
        turn=int(row["turn"]) if row["turn"] >= 0 else None,
        own=own,
        others=at - own,
        tenants=len(set(tenants.tolist()) - {int(row["tenant"])}),
    )


def _book(job: Job, waiting: Collection[uuid.UUID], header: Header | None, at: datetime) -> Book:
    config = config_load(now=at.timestamp())
    if header is not None and at.timestamp() - header.at < FRESH_S:
        take_slots(config, header)
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [list(waiting)])
        pairs = [split(row) for row in cursor.fetchall()]
    durations = Durations(config.policy.default_expected_s, given_seconds(config))
    durations.load({row.tenant for row, _ in pairs} | {str(job.tenant_id)})
    book = Book(config, durations, queue_policy())
    book.open_pools(memory_load(job.pool_id))
    book.load([pair for pair in pairs if book.knows(pair[0])], at.timestamp())
    book.states[str(job.pool_id)].order.advance(at.timestamp())
    return book


def take_slots(config: Config, header: Header) -> None:
    """Let executors take as much ahead as the leader lets them, within what is configured now."""
    executors = config.executors.get(header.pool, {})
    for told in header.executors:
        one, row = executors.get(told.id), config.executor_rows.get(told.id)
        if one is not None and row is not None and row.circuit == told.circuit == "closed":
            slots = max(one.slots, min(told.slots, row.slots))
            executors[told.id] = replace(one, slots=slots)
