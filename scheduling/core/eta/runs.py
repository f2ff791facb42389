"""A forecast of a whole backlog as columns that can be measured, joined and set beside another.

A row is a job that has a start; rows stand in the order of their starts. Waits count from a job's
submission to its start. What is served in a window is counted twice: the charge of what starts in
it (what the fair order counts), and the units held times the seconds held in it (what the machines
see). Percentiles are by nearest rank: the smallest value that at least so many percent do not pass.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import ceil, nan
from operator import attrgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduling.core.eta.forecast import EXACT, Forecast, forecast
from scheduling.core.order.full import columns_of, full_order
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Job

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Groups: TypeAlias = Mapping[str, Ints]
"""The rows of each tenant, class or the like, by its name."""

P95 = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one forecast gives the jobs of a pool, or of several (`joined`).

    `place` counts from 1 in each pool; times are epoch seconds. `kept_out` are the waiting jobs that
    have no start, `tenants` when each tenant is clear, running jobs counted in.
    """

    now: float
    jobs: Sequence[Job]
    place: Ints
    starts: Floats
    finishes: Floats
    approximate: int = 0
    kept_out: int = 0
    tenants: Mapping[str, float] = field(default_factory=dict)

    @property
    def clear_at(self) -> float | None:
        """When all that has a start, or runs, is done; None when there is nothing."""
        return max(self.tenants.values(), default=None)

    def by(self, name: Callable[[Job], str]) -> Groups:
        """Return the rows of each group."""
        return grouped(list(map(name, self.jobs)))

    def waits(self) -> Floats:
        """Return the seconds from submission to start."""
        submitted = _floats(map(_SUBMITTED_AT, self.jobs), len(self.jobs))
        return np.maximum(0.0, self.starts - submitted)

    def charges(self) -> Floats:
        """Return the charges."""
        return _floats(map(_CHARGE, self.jobs), len(self.jobs))

    def cost_s(self, until: float) -> Floats:
        """Return the unit seconds that each row holds before an instant."""
        held = np.clip(np.minimum(self.finishes, until) - self.starts, 0.0, None)
        return held * _floats(map(_COST, self.jobs), len(self.jobs))

    def late(self) -> Bools:
        """Tell of each row whether it is done after its deadline."""
        deadlines = map(_DEADLINE, self.jobs)
        column = _floats((nan if one is None else one for one in deadlines), len(self.jobs))
        return self.finishes > column


_DEADLINE = attrgetter("deadline")
_SUBMITTED_AT, _CHARGE, _COST = attrgetter("submitted_at"), attrgetter("charge"), attrgetter("cost")


def run_of(
    state: PoolState, now: float, *, exact: int = EXACT, measured: Mapping[str, float] = {}
) -> Run:
    """Forecast every waiting job of a pool at `now`; the state is not changed."""
    standing = list(state.order.startable())
    queue, places = [job for job, _ in standing], full_order(columns_of(state.order, standing)).rows
    found = forecast(state, now, exact=exact, queue=queue, places=places, measured=measured)
    jobs = _jobs(state, found)
    waiting = len(state.order) + len(state.never_fits)
    return Run(
        now=now,
        jobs=jobs,
        place=np.arange(1, len(jobs) + 1),
        starts=np.array(found.starts, dtype=np.float64),
        finishes=np.array(found.finishes, dtype=np.float64),
        approximate=len(jobs) - found.exact,
        kept_out=waiting - len(jobs),
        tenants=found.tenants,
    )


def _jobs(state: PoolState, found: Forecast) -> list[Job]:
    exact = (state.order.get(one) for one in found.exact_ids)
    return [*(one for one in exact if one is not None), *(found.queue[row] for row in found.behind)]


def joined(runs: Sequence[Run]) -> Run:
    """Return the runs of several pools as one; places stay those of each pool."""
    if len(runs) == 1:
        return runs[0]
    tenants: dict[str, float] = {}
    for run in runs:
        for tenant, at in run.tenants.items():
            tenants[tenant] = max(at, tenants.get(tenant, at))
    return Run(
        now=max(run.now for run in runs),
        jobs=[job for run in runs for job in run.jobs],
        place=np.concatenate([run.place for run in runs]),
        starts=np.concatenate([run.starts for run in runs]),
        finishes=np.concatenate([run.finishes for run in runs]),
        approximate=sum(run.approximate for run in runs),
        kept_out=sum(run.kept_out for run in runs),
        tenants=tenants,
    )


def grouped(names: Sequence[str]) -> dict[str, Ints]:
    """Return the rows of each name, in their order."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    column = np.fromiter(map(numbers.__getitem__, names), np.int64, len(names))
    order = np.argsort(column, kind="stable")
    cuts = np.cumsum(np.bincount(column, minlength=len(numbers)))[:-1]
    return dict(zip(numbers, np.split(order, cuts), strict=True)) if numbers else {}


def mean_and_p95(values: Floats) -> tuple[float, float] | None:
    """Return the mean and the 95th percentile; None of nothing."""
    if not len(values):
        return None
    rank = ceil(P95 * len(values)) - 1
    return float(values.mean()), float(np.partition(values, rank)[rank])


def jain(values: Sequence[float]) -> float | None:
    """Return Jain's index of fairness: 1 when all are equal, 1/n when one has all.

    None of fewer than two, and of nothing but zeros. (Jain, Chiu and Hawe 1984.)
    """
    squares = sum(one * one for one in values)
    if len(values) < 2 or not squares:
        return None
    return sum(values) ** 2 / (len(values) * squares)


def _floats(values: Iterable[float], size: int) -> Floats:
    return np.fromiter(values, np.float64, size)
