"""When every waiting job should start and finish: the order that dispatches, fast-forwarded.

Exact part. An independent copy of the pool's state, with the first `exact` jobs, is driven by an
event loop: a cycle at `now`, then the next planned end, all ends of that instant, a cycle, and so
on (next-event simulation). It is the very cycle that dispatches, so limits, slots, reserve, backfill
and the memory of the order all count. A running job ends at started + expected, or now when that
is over (it is overdue); a dial below what is in use holds starts back until enough has drained.

Approximate part. The jobs behind are laid, in their order, into units-only lanes (`lanes`), seeded
from what is live in the copy at the first moment at which it has room for a job behind its own.
Lanes know no executors: where the pool has fewer slots than the jobs' units need, it is given as
many units as fill its slots with jobs of mean cost.

Arrivals that are not here yet are not foreseen, and neither are holds. A job that is kept out of
the lines, never fits, or has not started when the copy comes to rest has no ETA.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import islice
from math import ceil, inf
from typing import TypeVar

from scheduling.core.capacity import ceiling, planned_end
from scheduling.core.eta.lanes import Lanes
from scheduling.core.policy.cycle import run
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Job, Live

Waits = TypeVar("Waits", Job, Live)

EXACT = 10_000
"""The jobs from the front that are fast-forwarded exactly, unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The expected end of a live job (epoch seconds); overdue ones are expected to end now."""

    finish: float
    overdue: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Eta:
    """The expected start and finish of a waiting job (epoch seconds)."""

    start: float
    finish: float
    approximate: bool


@dataclass(slots=True, kw_only=True)
class Forecast:
    """The outcome for one pool, as columns: jobs in the order in which they should start.

    The first `exact` of them were fast-forwarded exactly. `clear_at` is when all that has an ETA is
    done, `tenants` the same per tenant; running jobs count in both.
    """

    now: float
    job_ids: list[str] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    finishes: list[float] = field(default_factory=list)
    exact: int = 0
    running: dict[str, Running] = field(default_factory=dict)
    tenants: dict[str, float] = field(default_factory=dict)

    @property
    def clear_at(self) -> float | None:
        """When the last job of all is done; None when nothing waits with an ETA or runs."""
        return max(self.tenants.values(), default=None)

    def etas(self) -> Iterator[tuple[str, Eta]]:
        """Yield every job that has an ETA with it, in order of start."""
        columns = zip(self.job_ids, self.starts, self.finishes, strict=True)
        for index, (job_id, start, finish) in enumerate(columns):
            yield job_id, Eta(start=start, finish=finish, approximate=index >= self.exact)

    def note_all(self, jobs: Sequence[Job], starts: Sequence[float]) -> None:
        """Add the next jobs in order with their starts."""
        finishes = [start + job.expected_s for job, start in zip(jobs, starts, strict=True)]
        self.job_ids += [job.id for job in jobs]
        self.starts += starts
        self.finishes += finishes
        latest = self.tenants
        for job, finish in zip(jobs, finishes, strict=True):
            if finish > latest.get(job.tenant, -inf):
                latest[job.tenant] = finish

    def note_end(self, tenant: str, finish: float) -> None:
        """Let the tenant be clear no earlier than `finish`."""
        if finish > self.tenants.get(tenant, -inf):
            self.tenants[tenant] = finish


def expecting(one: Waits, measured: Mapping[str, float]) -> Waits:
    """Return a job, waiting or live, with the run time that its workflow was `measured` to take."""
    seconds = measured.get(one.workflow, one.expected_s)
    return one if seconds == one.expected_s else replace(one, expected_s=seconds)


def forecast(
    state: PoolState,
    now: float,
    *,
    exact: int = EXACT,
    queue: Sequence[Job] | None = None,
    measured: Mapping[str, float] = {},
) -> Forecast:
    """Forecast a pool at `now` without changing its state.

    The first `exact` jobs are fast-forwarded exactly. `queue` is the whole order, where the caller
    has it already (the full pass); else the order is walked. `measured` run times by workflow
    (seconds) stand before what a job was expected to take when it came.
    """
    found = Forecast(now=now)
    for live in (expecting(live, measured) for live in state.live.values()):
        end = planned_end(live, now)
        overdue = live.started_at + live.expected_s < now
        found.running[live.job_id] = Running(finish=end, overdue=overdue)
        found.note_end(live.tenant, end)
    behind = [expecting(job, measured) for job in _behind(state, exact, queue)]
    room = _fast_forward(_copied(state, exact, measured), found)
    found.exact = len(found.job_ids)
    if room is not None:
        _lay_behind(state, behind, room, found)
    return found


def _copied(state: PoolState, exact: int, measured: Mapping[str, float]) -> PoolState:
    copy = state.first(exact)
    for job in [job for job, _ in copy.order.startable()]:
        if (known := expecting(job, measured)) is not job:
            copy.order.replace(known)
    copy.live = {job_id: expecting(live, measured) for job_id, live in copy.live.items()}
    return copy


def _behind(state: PoolState, exact: int, queue: Sequence[Job] | None) -> list[Job]:
    """Return the jobs behind the exact part that some executor may run, in order."""
    open_kinds = _open_kinds(state)
    jobs: Iterable[Job] = (
        (spot.job for spot in islice(state.order.walk_all(), exact, None))
        if queue is None
        else islice(queue, exact, None)
    )
    return [job for job in jobs if _asks_little(job, open_kinds) or state.candidates(job)]


def _asks_little(job: Job, open_kinds: Collection[str]) -> bool:
    """Tell at a glance whether a job of an open kind constrains nothing else: most do not."""
    return job.kind in open_kinds and not (job.model or job.region or job.labels)


def _open_kinds(state: PoolState) -> frozenset[str]:
    """Return the kinds that some available executor runs for everybody."""
    everybodys = (
        one
        for one in state.executors.values()
        if one.available and one.tenant is None and one.workspace is None
    )
    return frozenset(kind for one in everybodys for kind in one.kinds)


@dataclass(frozen=True, slots=True)
class _Room:
    """The moment at which jobs behind the exact part come into play, and what is live then."""

    at: float
    live: tuple[Live, ...]


def _fast_forward(copy: PoolState, found: Forecast) -> _Room | None:
    """Run `copy` by its planned ends until it rests; None when it never had room for more."""
    clock, room = found.now, None
    ends = [(planned_end(live, clock), job_id) for job_id, live in copy.live.items()]
    heapify(ends)
    while True:
        done = run(copy, clock)
        jobs = [placement.spot.job for placement in done.placements]
        found.note_all(jobs, [clock] * len(jobs))
        for job in jobs:
            heappush(ends, (clock + job.expected_s, job.id))
        if room is None and done.drained:
            room = _Room(clock, tuple(copy.live.values()))
        if not ends or not len(copy.order):
            return room
        clock = _end_next(copy, ends)


def _end_next(copy: PoolState, ends: list[tuple[float, str]]) -> float:
    """End all that ends at the next instant, and return that instant."""
    clock = ends[0][0]
    while ends and ends[0][0] == clock:
        copy.end(heappop(ends)[1])
    return clock


def _lay_behind(state: PoolState, jobs: list[Job], room: _Room, found: Forecast) -> None:
    """Lay the jobs behind the exact part into lanes."""
    units = _lane_units(state, jobs)
    if units < 1:
        return
    take = Lanes(units, now=room.at, running=_held(state, room)).take
    found.note_all(jobs, [take(min(job.cost, units), job.expected_s) for job in jobs])


def _lane_units(state: PoolState, jobs: list[Job]) -> int:
    """Return the units that may be at work at once, by the dial and by the slots."""
    units = ceiling(state.pool, uses_reserve=False)
    slots = sum(one.slots for one in state.executors.values() if one.available)
    return min(units, ceil(slots * sum(job.cost for job in jobs) / len(jobs))) if jobs else 0


def _held(state: PoolState, room: _Room) -> list[tuple[float, int]]:
    """Return what is live as (end, units) of the general part.

    Reserve users stand in the reserve first, those that end last before all; what they hold beyond
    it is taken from the general part.
    """
    held: list[tuple[float, int]] = []
    reserved: list[tuple[float, int]] = []
    for live in room.live:
        part = reserved if state.uses_reserve(live.class_name) else held
        part.append((planned_end(live, room.at), live.cost))
    spill = sum(cost for _, cost in reserved) - state.pool.reserve
    for end, cost in sorted(reserved):
        beyond = min(max(spill, 0), cost)
        spill -= beyond
        held.append((end, beyond))
    return [(end, units) for end, units in held if units]
