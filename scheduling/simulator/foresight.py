"""When a job should be done, told as it is let in, and scored against what came true.

Exact way: the pool's state with the jobs up to this one is copied and fast-forwarded by the very
cycle that dispatches, its tries ending when they should by what was learnt of run times
(`durations`), until the job starts. What such a look costs is counted in jobs looked at, and a run has an
allowance of them (`ALLOWANCE`, less for runs of more than `MANY` jobs) that it earns evenly, arrival
by arrival, above a first `BURST`. While the allowance is overdrawn a job is told a quick way: the
work before it by the fluid rule (`fluid`) over the pool's units, times the recent mean of what the
exact way said in relation to that. Counts decide, no clock, so a run is the same each time.

Range. 80 %, from the recent ratios of actual to predicted time of the job's workflow, or of all
while those are fewer than `FEWEST` (`core.eta.calibration`).

Score. The first estimate of each job that was done counts: the seconds from when it was told to the
finish, against those that it took. Beside it stands the naive formula: the jobs that wait x the mean run
time so far / the pool's units.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from scheduling.core.eta.calibration import FEWEST, Calibration, calibrated, naive_s
from scheduling.core.policy.cycle import run as run_cycle
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Job
from scheduling.simulator.durations import Durations, Recent
from scheduling.simulator.fluid import Fluid
from scheduling.simulator.runs import Estimate, Run

ALLOWANCE = 3_000_000
ALLOWANCE_OF_MANY = 300_000
MANY = 100_000
BURST = 100_000
LOOK = 20
"""What a look costs beside the jobs that it looks at."""
LAST_CHECKED = 200
CALIBRATED_EVERY = 10
"""How many ends of a kind go by before its range is drawn anew."""


@dataclass(slots=True)
class Errors:
    """The estimates of one workflow, or of all, that came due."""

    count: int = 0
    error_s: float = 0.0
    bias_s: float = 0.0
    naive_s: float = 0.0
    hits: int = 0
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=LAST_CHECKED))
    range_of: Calibration = field(default_factory=Calibration)

    def add(self, one: Estimate, actual_s: float) -> None:
        """Score an estimate."""
        self.count += 1
        self.error_s += abs(one.finish_s - actual_s)
        self.bias_s += one.finish_s - actual_s
        self.naive_s += abs(one.naive_s - actual_s)
        self.hits += one.low_s <= actual_s <= one.high_s
        if one.finish_s > 0:
            self.ratios.append(actual_s / one.finish_s)
        if self.count == FEWEST or not self.count % CALIBRATED_EVERY:
            self.range_of = calibrated(self.ratios)

    def told(self) -> dict[str, Any]:
        """Return the score; without any nothing but the count."""
        count = self.count
        if not count:
            return {"count": 0}
        return {
            "count": count,
            "mean_error_s": round(self.error_s / count, 6),
            "bias_s": round(self.bias_s / count, 6),
            "hit_rate": round(self.hits / count, 6),
            "naive_mean_error_s": round(self.naive_s / count, 6),
        }


@dataclass(slots=True)
class Water:
    """The work of a pool: what waits by class (the highest first), and what is live (unit-s)."""

    classes: dict[str, Fluid]
    live: float = 0.0
    drift: Recent = field(default_factory=Recent)
    """What the exact way said in relation to the quick one."""


class Foresight:
    """Gives estimates, and keeps how good they were."""

    def __init__(
        self,
        *,
        job_count: int,
        default_s: float,
        runs: Mapping[str, Run],
        weights: Mapping[str, int],
    ) -> None:
        """Start with nothing learnt; `runs` and `weights` are those of the table and the world."""
        many = job_count > MANY
        self._earned = (ALLOWANCE_OF_MANY if many else ALLOWANCE) / max(job_count, 1000)
        self._credit = float(BURST)
        self._default_s = default_s
        self._runs = runs
        self._weights = weights
        self._durations = Durations()
        self._waters: dict[str, Water] = {}
        self._errors: dict[str, Errors] = {}
        self._all = Errors()

    def open(self, pool: str, classes: Sequence[str]) -> None:
        """Know a pool and its classes, the highest first."""
        self._waters[pool] = Water({name: Fluid() for name in classes})

    # --- what happens ---------------------------------------------------------------------

    def came(self, run: Run, job: Job) -> None:
        """Note a job that stands in the order now."""
        self._note(run, job, 1)

    def left(self, run: Run, job: Job) -> None:
        """Note a job that stands in the order no more."""
        self._note(run, job, -1)

    def _note(self, run: Run, job: Job, count: int) -> None:
        fluid = self._waters[run.pool].classes[job.class_name]
        weight = self._weights.get(job.tenant, 1)
        fluid.add(job.tenant, weight, count, count * job.cost * job.expected_s)

    def placed(self, run: Run, job: Job) -> None:
        """Note a job of the order that has started."""
        self._note(run, job, -1)
        self._waters[run.pool].live += job.cost * job.expected_s

    def stopped(self, run: Run, job: Job) -> None:
        """Note a placement that has ended."""
        self._waters[run.pool].live -= job.cost * job.expected_s

    def learn(self, run: Run, seconds: float) -> None:
        """Learn from a placement that was worked to its end."""
        self._durations.learn(run, seconds)

    def finished(self, run: Run, now: float) -> None:
        """Score the estimate of a job that is done."""
        one = run.estimate
        if one is None:
            return
        self._all.add(one, now - one.at)
        if run.job.workflow:
            self._of(run.core.workflow).add(one, now - one.at)

    def _of(self, workflow: str) -> Errors:
        found = self._errors.get(workflow)
        if found is None:
            found = self._errors[workflow] = Errors()
        return found

    # --- estimates ------------------------------------------------------------------------

    def told(
        self, run: Run, state: PoolState, now: float, *, starts_now: bool
    ) -> tuple[int | None, float | None]:
        """Return a job's place in its pool's order and the seconds to its finish; None: unknown."""
        job = state.order.get(run.job.id)
        if job is None or state.order.why_blocked(job.id):
            return None, None
        place, wait_s = self._wait(run, state, now, starts_now=starts_now)
        if wait_s is None:
            return place, None
        later_s = run.job.steps - 1 - run.step
        eta_s = wait_s + self._durations.expected(run) + later_s * run.core.expected_s
        if run.estimate is None:
            run.estimate = self._estimate(run, state, now, eta_s)
        return place, eta_s

    def _estimate(self, run: Run, state: PoolState, now: float, eta_s: float) -> Estimate:
        own = self._errors.get(run.core.workflow, self._all)
        known = own if len(own.ratios) >= FEWEST else self._all
        low_s, high_s = known.range_of.around(eta_s, 0.0)
        mean_s = self._durations.mean_s(self._default_s)
        naive = naive_s(len(state.order), mean_s, max(1, state.pool.budget))
        return Estimate(at=now, finish_s=eta_s, low_s=low_s, high_s=high_s, naive_s=naive)

    def _wait(
        self, run: Run, state: PoolState, now: float, *, starts_now: bool
    ) -> tuple[int | None, float | None]:
        if starts_now:
            return len(state.order), 0.0
        self._credit += self._earned
        ahead, guess_s = self._guess(run, state)
        if self._credit <= 0 or ahead > self._credit:
            drift = self._waters[run.pool].drift
            return ahead + 1, guess_s * (drift.mean() if drift.values else 1.0)
        place, start = self._looked(run, state, now)
        if start is None:
            return place, None
        if guess_s > 0:
            self._waters[run.pool].drift.add((start - now) / guess_s)
        return place, start - now

    def _guess(self, run: Run, state: PoolState) -> tuple[int, float]:
        """Return what stands before a job by the fluid rule, and how long that takes."""
        water, own = self._waters[run.pool], run.core
        jobs, work = 0, water.live / 2
        name = state.order.stands_in(own.id)
        for one, fluid in water.classes.items():
            if one == name:
                break
            jobs, work = jobs + fluid.waiting, work + fluid.total
        more, its_work = water.classes[own.class_name].ahead(own.tenant)
        work += max(0.0, its_work - own.cost * own.expected_s)
        return jobs + more, work / max(1, state.pool.budget)

    def _looked(self, run: Run, state: PoolState, now: float) -> tuple[int, float | None]:
        """Return a job's place, and its start by the exact way."""
        place = 0
        for spot in state.order.walk_all():
            place += 1
            if spot.job.id == run.job.id:
                break
        copy = state.first(place)
        copy.limits.drop_windows()
        self._credit -= LOOK + 2 * place + len(copy.live)
        return place, self._start(copy, run.job.id, now)

    def _start(self, copy: PoolState, job_id: str, now: float) -> float | None:
        """Run a copy by its ends until a job starts; None: it does not."""
        runs, durations, clock = self._runs, self._durations, now
        ends = [(now + durations.left(runs[one], now), one) for one in copy.live]
        heapify(ends)
        while True:
            self._credit -= 3 + len(copy.order)
            for placement in run_cycle(copy, clock).placements:
                name = placement.spot.job.id
                if name == job_id:
                    return clock
                heappush(ends, (clock + durations.expected(runs[name]), name))
            if not ends:
                return None
            clock = ends[0][0]
            while ends and ends[0][0] == clock:
                copy.end(heappop(ends)[1])

    # --- score ----------------------------------------------------------------------------

    def score(self) -> dict[str, Any]:
        """Return how good the estimates were, in all and by workflow."""
        by_workflow = {name: one.told() for name, one in sorted(self._errors.items())}
        return self._all.told() | {"by_workflow": by_workflow}
