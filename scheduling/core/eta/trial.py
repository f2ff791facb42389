"""A policy tried on a backlog: the same jobs forecast under the policy in force and under another.

Both runs are the fast-forward of the order that dispatches, from the same rows and the same memory
of who was served. The estimates of how long jobs run err alike on both sides, so what differs is
better known than either side. A policy says nothing here of what it does to work that is not
submitted yet: admission, shedding, retries and fallbacks are no part of a trial.

Shares are counted over a window from now: an hour, or until in either run a tenant with at least half
of the average work has no job left to start, for from then on who waits gets what is left. The fairness
of a run is Jain's index of charge by weight over the tenants that wait through the whole window in
both runs; others are served less because they ask for less.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import count, repeat
from math import inf
from operator import attrgetter
from typing import TypeAlias

import numpy as np

from scheduling.core.eta.runs import Bools, Floats, Groups, Ints, Run, jain, mean_and_p95
from scheduling.core.types import Job

WINDOW_S = 3600.0
SLACK_S = 0.5
"""A start that moves by less is told as unmoved."""
MOVERS_MOST = 20
_ID, _TENANT, _CLASS = attrgetter("id"), attrgetter("tenant"), attrgetter("class_name")
_NONE: Ints = np.empty(0, dtype=np.int64)

Pair: TypeAlias = tuple[Run, Run]
"""The run under the policy in force, and the run under the other."""
Clear: TypeAlias = Mapping[str, float]
"""When each tenant is clear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one run gives a tenant, a class, or all: waits in seconds, shares of 0 to 1.

    `charge_share` and `cost_share` are its parts of the charge and of the unit seconds served in
    the window; `spend` is the money (USD) that its jobs which start within the hour have reserved.
    `clear_at` is None for a class.
    """

    jobs: int
    mean_wait_s: float | None
    p95_wait_s: float | None
    charge: float
    charge_share: float
    cost_s: float
    cost_share: float
    spend: Decimal
    clear_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A tenant, a class, or all, in both runs."""

    name: str
    before: Part
    after: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Jobs that start earlier, or later: how many, and by how many seconds."""

    jobs: int
    mean_s: float
    most_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A job in both runs: its class, place and start in each; `by_s` is positive when later."""

    job: Job
    class_names: tuple[str, str]
    places: tuple[int, int]
    starts: tuple[float, float]
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """How many jobs are done after their deadline in each run, and which of them change sides."""

    before: int
    after: int
    newly: tuple[Spot, ...]
    saved: tuple[Spot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs of one backlog. `gained` jobs have a start in the second only, `lost` in the first.

    `fairness` is Jain's index of each run, None where fewer than two tenants wait all the while.
    """

    jobs: int
    window_s: float
    earlier: Moved
    later: Moved
    unmoved: int
    gained: int
    lost: int
    movers: tuple[Spot, ...]
    missed: Missed
    fairness: tuple[float | None, float | None]
    everything: Beside
    tenants: tuple[Beside, ...]
    classes: tuple[Beside, ...]


def compare(
    pair: Pair, *, weights: Mapping[str, int], spend: Mapping[str, Decimal] = {}
) -> Comparison:
    """Set two runs of the same jobs side by side.

    `weights` are those of the tenants, `spend` what each job has reserved (USD), by id.
    """
    before, after = pair
    tenants = before.by(_TENANT), after.by(_TENANT)
    until = _until(pair, tenants)
    told = (
        _Measured.of(before, tenants[0], until, spend),
        _Measured.of(after, tenants[1], until, spend),
    )
    common = _common(pair)
    by_s = after.starts[common[1]] - before.starts[common[0]]
    return Comparison(
        jobs=max(len(run.jobs) + run.kept_out for run in pair),
        window_s=until - before.now,
        earlier=_moved(-by_s),
        later=_moved(by_s),
        unmoved=int(np.count_nonzero(np.abs(by_s) < SLACK_S)),
        gained=len(after.jobs) - len(by_s),
        lost=len(before.jobs) - len(by_s),
        movers=_movers(pair, common),
        missed=_missed(pair, common),
        fairness=_fairness(told, weights),
        everything=Beside(name="", before=told[0].all(), after=told[1].all()),
        tenants=_each(told, tenants, clear=(before.tenants, after.tenants)),
        classes=_each(told, (before.by(_CLASS), after.by(_CLASS))),
    )


def _until(pair: Pair, tenants: tuple[Groups, Groups]) -> float:
    """Return where the window ends."""
    now = pair[0].now
    clear = [at for run in pair for at in run.tenants.values() if at > now]
    sides = zip(pair, tenants, strict=True)
    ends = [at for run, groups in sides for at in _out_of_work(run, groups) if at > now]
    return min(now + WINDOW_S, min(ends, default=max(clear, default=inf)))


def _out_of_work(run: Run, groups: Groups) -> list[float]:
    """Return when each tenant with half the average work or more has its last start."""
    work = run.cost_s(inf)
    works = {name: float(work[rows].sum()) for name, rows in groups.items()}
    least = sum(works.values()) / max(1, len(works)) / 2
    return [float(run.starts[rows].max()) for name, rows in groups.items() if works[name] >= least]


@dataclass(frozen=True, slots=True)
class _Measured:
    """A run's columns over the window: what each row is served, and what it has reserved."""

    run: Run
    tenants: Groups
    until: float
    waits: Floats
    charge: Floats
    cost_s: Floats
    wholes: tuple[float, float]
    """All that is charged, and all that is held."""
    spend: Mapping[int, Decimal]

    @classmethod
    def of(
        cls, run: Run, tenants: Groups, until: float, spend: Mapping[str, Decimal]
    ) -> "_Measured":
        """Measure a run; a spend that is nought is left out."""
        charge = np.where(run.starts < until, run.charges(), 0.0)
        cost_s = run.cost_s(until)
        hour = np.flatnonzero(run.starts < run.now + WINDOW_S).tolist() if spend else []
        reserved = ((row, spend.get(run.jobs[row].id)) for row in hour)
        return cls(
            run,
            tenants,
            until,
            run.waits(),
            charge,
            cost_s,
            (float(charge.sum()), float(cost_s.sum())),
            {row: amount for row, amount in reserved if amount},
        )

    def part(self, rows: Ints, clear_at: float | None = None) -> Part:
        """Return what these rows are given."""
        waits = mean_and_p95(self.waits[rows])
        charge, cost_s = float(self.charge[rows].sum()), float(self.cost_s[rows].sum())
        mine = rows.tolist() if self.spend else []
        spend = (self.spend[row] for row in mine if row in self.spend)
        return Part(
            jobs=len(rows),
            mean_wait_s=waits[0] if waits else None,
            p95_wait_s=waits[1] if waits else None,
            charge=charge,
            charge_share=_share(charge, self.wholes[0]),
            cost_s=cost_s,
            cost_share=_share(cost_s, self.wholes[1]),
            spend=sum(spend, Decimal(0)),
            clear_at=clear_at,
        )

    def all(self) -> Part:
        """Return what all are given."""
        return self.part(np.arange(len(self.run.jobs)), self.run.clear_at)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _each(
    told: tuple[_Measured, _Measured],
    groups: tuple[Groups, Groups],
    *,
    clear: tuple[Clear, Clear] = ({}, {}),
) -> tuple[Beside, ...]:
    """Return each group in both runs, by name."""
    before, after = groups
    return tuple(
        Beside(
            name=group,
            before=told[0].part(before.get(group, _NONE), clear[0].get(group)),
            after=told[1].part(after.get(group, _NONE), clear[1].get(group)),
        )
        for group in sorted(before.keys() | after.keys())
    )


def _common(pair: Pair) -> tuple[Ints, Ints]:
    """Return the rows, in each run, of the jobs that have a start in both."""
    before, after = pair
    at = dict(zip(map(_ID, after.jobs), count()))
    found = map(at.get, map(_ID, before.jobs), repeat(-1))
    other = np.fromiter(found, np.int64, len(before.jobs))
    rows = np.flatnonzero(other >= 0)
    return rows, other[rows]


def _moved(by_s: Floats) -> Moved:
    seconds = by_s[by_s >= SLACK_S]
    if not len(seconds):
        return Moved(jobs=0, mean_s=0.0, most_s=0.0)
    return Moved(jobs=len(seconds), mean_s=float(seconds.mean()), most_s=float(seconds.max()))


def _movers(pair: Pair, common: tuple[Ints, Ints]) -> tuple[Spot, ...]:
    """Return the jobs that move furthest, the furthest first, then by place."""
    by_s = pair[1].starts[common[1]] - pair[0].starts[common[0]]
    furthest = np.argsort(-np.abs(by_s), kind="stable")[:MOVERS_MOST]
    return tuple(_spot(pair, common, row) for row in furthest.tolist() if abs(by_s[row]) >= SLACK_S)


def _spot(pair: Pair, common: tuple[Ints, Ints], row: int) -> Spot:
    rows = int(common[0][row]), int(common[1][row])
    before, after = (run.jobs[at] for run, at in zip(pair, rows, strict=True))
    starts = float(pair[0].starts[rows[0]]), float(pair[1].starts[rows[1]])
    return Spot(
        job=before,
        class_names=(before.class_name, after.class_name),
        places=(int(pair[0].place[rows[0]]), int(pair[1].place[rows[1]])),
        starts=starts,
        by_s=starts[1] - starts[0],
    )


def _missed(pair: Pair, common: tuple[Ints, Ints]) -> Missed:
    late = pair[0].late(), pair[1].late()
    before, after = late[0][common[0]], late[1][common[1]]

    def told(which: Bools) -> tuple[Spot, ...]:
        rows = np.flatnonzero(which)[:MOVERS_MOST].tolist()
        return tuple(_spot(pair, common, row) for row in rows)

    return Missed(
        before=int(np.count_nonzero(late[0])),
        after=int(np.count_nonzero(late[1])),
        newly=told(after & ~before),
        saved=told(before & ~after),
    )


def _fairness(
    told: tuple[_Measured, _Measured], weights: Mapping[str, int]
) -> tuple[float | None, float | None]:
    waiting = [
        {name for name, rows in one.tenants.items() if one.run.starts[rows].max() >= one.until}
        for one in told
    ]
    always = waiting[0] & waiting[1] & weights.keys()
    before, after = (
        jain(
            [float(one.charge[one.tenants[name]].sum()) / weights[name] for name in sorted(always)]
        )
        for one in told
    )
    return before, after
