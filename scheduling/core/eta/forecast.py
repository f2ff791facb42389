"""When every waiting job should start and finish: the order that dispatches, fast-forwarded.

Exact part. An independent copy of the pool's state, with the first `exact` jobs, is driven by an
event loop: a cycle at `now`, then the next planned end, all ends of that instant, a cycle, and so
on (next-event simulation). It is the very cycle that dispatches, so limits, slots, reserve, backfill
and the memory of the order all count. A running job ends at started + expected, or now when that
is over (it is overdue); a dial below what is in use holds starts back until enough has drained.
Where many wait for one thing (a concurrency key, an executor) each cycle walks past all of them, so
the looks are counted: when they are used up, who has not started is laid into lanes as well, from
that moment on, each behind the gates of its own limits and executors (`gates`).

Approximate part. The jobs behind are laid, in their order, into units-only lanes (`lanes`), seeded
from what is live in the copy at the first moment at which it has room for a job behind its own.
Lanes know no executors: where the pool has fewer slots than the jobs' units need, it is given as
many units as fill its slots with jobs of mean cost.

Arrivals that are not here yet are not foreseen, and neither are holds, rate windows and retry
budgets: a provider's are taken as open. A job that is kept out of the lines (as by its tenant's window),
never fits, or has not started when the copy comes to rest has no ETA.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from math import ceil, inf, nan
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduling.core.capacity.room import ceiling, planned_end
from scheduling.core.eta.gates import Gates
from scheduling.core.eta.lanes import Lanes
from scheduling.core.eta.paces import Paces
from scheduling.core.placement import candidates
from scheduling.core.policy.cycle import run
from scheduling.core.policy.settings import Backfill
from scheduling.core.policy.state import PoolState
from scheduling.core.types import REVIEWS, Job, Live

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Measured: TypeAlias = Mapping[str, float] | Paces
"""What was learnt of run times: the mean seconds by workflow, or how runs go beside estimates."""
_NOTHING: Mapping[str, float] = MappingProxyType({})
Waits = TypeVar("Waits", Job, Live)
_Number = TypeVar("_Number", np.int64, np.float64)

EXACT = 10_000
"""The jobs from the front that are fast-forwarded exactly, unless told otherwise."""
LOOKS_EACH = 40
"""How many spots the cycles may look at, on average, for each of those jobs; most take one or two.

A look takes some ten microseconds: 5,000 jobs two seconds at most, where none would end.
"""
LOOKS_LEAST = 40_000
"""How many they may look at however few those jobs are."""


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

    The first `exact` of them, named `exact_ids`, were fast-forwarded exactly, out of the rows
    `front` of `queue`; the others are its rows `behind`, which begin with those of the front that
    the looks did not suffice for. `clear_at` is when all that has an ETA is
    done, `tenants` the same per tenant; running jobs count in both.
    """

    now: float
    queue: Sequence[Job] = field(default=(), compare=False, repr=False)
    front: list[int] = field(default_factory=list)
    exact_ids: list[str] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    finishes: list[float] = field(default_factory=list)
    running: dict[str, Running] = field(default_factory=dict)
    tenants: dict[str, float] = field(default_factory=dict)

    @property
    def exact(self) -> int:
        """How many were fast-forwarded exactly."""
        return len(self.exact_ids)

    @property
    def job_ids(self) -> list[str]:
        """The jobs that have an ETA."""
        return [*self.exact_ids, *(self.queue[row].id for row in self.behind)]

    @property
    def clear_at(self) -> float | None:
        """When the last job of all is done; None when nothing waits with an ETA or runs."""
        return max(self.tenants.values(), default=None)

    def etas(self) -> Iterator[tuple[str, Eta]]:
        """Yield every job that has an ETA with it, in order of start."""
        columns = zip(self.job_ids, self.starts, self.finishes, strict=True)
        for index, (job_id, start, finish) in enumerate(columns):
            yield job_id, Eta(start=start, finish=finish, approximate=index >= self.exact)

    def spread(self) -> tuple[Floats, Floats, Bools]:
        """Return start, finish (NaN where none) and whether they are approximate, by queue row."""
        at = np.full(len(self.queue), -1, dtype=np.int64)
        number = {job_id: place for place, job_id in enumerate(self.exact_ids)}
        for row in self.front:
            at[row] = number.get(self.queue[row].id, -1)
        at[np.array(self.behind, dtype=np.int64)] = np.arange(self.exact, len(self.starts))
        starts, finishes = np.array([*self.starts, nan]), np.array([*self.finishes, nan])
        return starts[at], finishes[at], at >= self.exact

    def note_exact(self, job: Job, start: float, finish: float) -> None:
        """Add the next job of the exact part."""
        self.exact_ids.append(job.id)
        self.starts.append(start)
        self.finishes.append(finish)
        self.note_end(job.tenant, finish)

    def note_end(self, tenant: str, finish: float) -> None:
        """Let the tenant be clear no earlier than `finish`."""
        if finish > self.tenants.get(tenant, -inf):
            self.tenants[tenant] = finish


_ID, _TENANT, _COST = attrgetter("id"), attrgetter("tenant"), attrgetter("cost")
_WORKFLOW, _EXPECTED_S = attrgetter("workflow"), attrgetter("expected_s")
_ASKS = attrgetter(
    "kind", "model", "region", "labels", "tools", "data_class", "compute_class", "places"
)


def expecting(one: Waits, measured: Mapping[str, float]) -> Waits:
    """Return a job, waiting or live, with the run time that its workflow was `measured` to take."""
    seconds = _seconds(one, measured)
    return one if seconds == one.expected_s else replace(one, expected_s=seconds)


def _seconds(one: Job | Live, measured: Measured) -> float:
    """How long a workflow's work takes says nothing of how long its review does."""
    if isinstance(measured, Paces):
        return measured.run_s(one)
    if one.class_name == REVIEWS.name:
        return one.expected_s
    return measured.get(one.workflow, one.expected_s)


def _going(live: Live, measured: Measured, now: float) -> Live:
    """Return a run under way with the run time that speaks for it at `now`."""
    if isinstance(measured, Paces):
        return replace(live, expected_s=measured.end(live, now) - live.started_at)
    return expecting(live, measured)


def forecast(
    state: PoolState,
    now: float,
    *,
    exact: int = EXACT,
    queue: Sequence[Job] | None = None,
    places: Ints | None = None,
    measured: Measured = _NOTHING,
) -> Forecast:
    """Forecast a pool at `now` without changing its state.

    The first `exact` jobs are fast-forwarded exactly. `queue` is every startable job, where the
    caller has them already, in order, or in any order with the rows in order as `places` (the full
    pass); else the order is walked. `measured` run times by workflow (seconds) stand before what a
    job was expected to take when it came; paces put that right instead, and leave what the cycle
    itself goes by (the planned ends of backfill) as it is.
    """
    if queue is None:
        queue = [spot.job for spot in state.order.walk_all()]
    rows = np.arange(len(queue)) if places is None else places
    found = Forecast(now=now, queue=queue, front=rows[:exact].tolist())
    for live in (_going(live, measured, now) for live in state.live.values()):
        end = planned_end(live, now)
        overdue = live.started_at + live.expected_s < now
        found.running[live.job_id] = Running(finish=end, overdue=overdue)
        found.note_end(live.tenant, end)
    room, left = _fast_forward(_copied(state, exact, measured), measured, found, _looks(exact))
    behind = rows[exact:]
    if left is not None:
        rest = _not_started(state, left, found)
        more = behind if room is None else behind[:0]
        _lay(state, np.concatenate([rest, more]), measured, left, found, gated=len(rest))
    if room is not None:
        _lay(state, behind, measured, room, found)
    return found


def _looks(exact: int) -> int:
    return max(LOOKS_LEAST, LOOKS_EACH * exact)


def _not_started(state: PoolState, left: "_Room", found: Forecast) -> Ints:
    """Return the rows of the front that have not started and can, in order."""
    gates, done = Gates(state, left.live, left.at), set(found.exact_ids)
    waiting = ((row, found.queue[row]) for row in found.front)
    rows = [row for row, job in waiting if job.id not in done and gates.are_open(job)]
    return np.array(rows, dtype=np.int64)


def _copied(state: PoolState, exact: int, measured: Measured) -> PoolState:
    """Return the copy to drive; its jobs need their measured times only where backfill looks."""
    copy = state.first(exact)
    copy.limits.drop_windows()
    if isinstance(measured, Paces):
        return copy
    if state.policy.backfill is Backfill.EASY:
        for job in [job for job, _ in copy.order.startable()]:
            if (known := expecting(job, measured)) is not job:
                copy.order.replace(known)
    copy.live = {job_id: expecting(live, measured) for job_id, live in copy.live.items()}
    return copy


def _runnable(state: PoolState, jobs: Sequence[Job]) -> Bools:
    """Tell of each job whether some executor may run it.

    Most ask for what an executor that is open to everybody offers: that is told once for all that
    ask alike.
    """
    everybodys = [
        one for one in state.executors.values() if one.tenant is None and one.workspace is None
    ]
    one_of_each = dict(zip(map(_ASKS, jobs), jobs, strict=True))
    served = {asks for asks, job in one_of_each.items() if candidates(job, everybodys)}
    if len(served) == len(one_of_each):
        return np.ones(len(jobs), dtype=np.bool_)
    able = (_ASKS(job) in served or bool(state.candidates(job)) for job in jobs)
    return np.fromiter(able, np.bool_, len(jobs))


@dataclass(frozen=True, slots=True)
class _Room:
    """The moment at which jobs come into play that are not fast-forwarded, and what is live then."""

    at: float
    live: tuple[Live, ...]


def _fast_forward(
    copy: PoolState, measured: Measured, found: Forecast, looks: int
) -> tuple[_Room | None, _Room | None]:
    """Run `copy` by its planned ends until it rests, or `looks` are used up.

    Return when it first had room for more, None: never; and when it was left, None: at rest.
    """
    clock, room = found.now, None
    ends = [
        (planned_end(_going(live, measured, clock), clock), job_id)
        for job_id, live in copy.live.items()
    ]
    heapify(ends)
    while True:
        done = run(copy, clock)
        looks -= done.looked
        for job in [placement.spot.job for placement in done.placements]:
            finish = clock + _seconds(job, measured)
            heappush(ends, (finish, job.id))
            found.note_exact(job, clock, finish)
        if room is None and done.drained:
            room = _Room(clock, _going_all(copy, measured, clock))
        if not ends or not len(copy.order):
            return room, None
        if looks <= 0:
            return room, _Room(clock, _going_all(copy, measured, clock))
        clock = _end_next(copy, ends)


def _going_all(copy: PoolState, measured: Measured, now: float) -> tuple[Live, ...]:
    return tuple(_going(live, measured, now) for live in copy.live.values())


def _end_next(copy: PoolState, ends: list[tuple[float, str]]) -> float:
    """End all that ends at the next instant, and return that instant."""
    clock = ends[0][0]
    while ends and ends[0][0] == clock:
        copy.end(heappop(ends)[1])
    return clock


def _lay(
    state: PoolState,
    rows: Ints,
    measured: Measured,
    room: _Room,
    found: Forecast,
    *,
    gated: int = 0,
) -> None:
    """Lay the queue's `rows`, in order, into lanes; the first `gated` of them also pass their gates.

    Columns are read in the queue's own order, which is that of the memory: several times faster.
    """
    jobs = found.queue
    rows = rows[_runnable(state, jobs)[rows]]
    costs = _column(map(_COST, jobs), np.int64, len(jobs))[rows]
    units = _lane_units(state, costs)
    if units < 1:
        return
    expected = _expected(jobs, measured)
    seconds = _column(expected, np.float64, len(jobs))[rows]
    lanes = Lanes(units, now=room.at, running=_held(state, room))
    starts = lanes.take_all(np.clip(costs, 1, units).tolist(), seconds.tolist())
    gates = Gates(state, room.live, room.at)
    for at, row in enumerate(rows[:gated].tolist()):
        starts[at] = gates.enter(jobs[row], starts[at], float(seconds[at]))
    finishes = np.array(starts) + seconds
    found.behind += rows.tolist()
    found.starts += starts
    found.finishes += finishes.tolist()
    _note_ends(found, rows, finishes)


def _expected(jobs: Sequence[Job], measured: Measured) -> Iterable[float]:
    if isinstance(measured, Paces):
        return map(measured.run_s, jobs)
    return map(measured.get, map(_WORKFLOW, jobs), map(_EXPECTED_S, jobs))


def _note_ends(found: Forecast, rows: Ints, finishes: Floats) -> None:
    """Let each tenant be clear no earlier than the latest of its `rows`."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    size = len(found.queue)
    owner = _column(map(numbers.__getitem__, map(_TENANT, found.queue)), np.int64, size)
    latest = np.full(len(numbers), -inf)
    np.maximum.at(latest, owner[rows], finishes)
    for tenant, finish in zip(numbers, latest.tolist(), strict=True):
        if finish > -inf:
            found.note_end(tenant, finish)


def _column(values: Iterable[Any], kind: type[_Number], size: int) -> NDArray[_Number]:
    return np.fromiter(values, kind, size)


def _lane_units(state: PoolState, costs: Ints) -> int:
    """Return the units that may be at work at once, by the dial and by the slots."""
    units = ceiling(state.pool, uses_reserve=False)
    slots = sum(one.slots for one in state.executors.values() if one.available)
    return min(units, ceil(slots * int(costs.sum()) / len(costs))) if len(costs) else 0


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
