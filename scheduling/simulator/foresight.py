"""When a job should be done, told as it is let in, and scored against what came true.

Exact way: the pool's state with the jobs up to this one is copied and fast-forwarded by the very
cycle that dispatches, its tries ending when they should by what was learnt of run times
(`durations`), until the job starts. What such a look costs is counted in jobs looked at, and a run
has an allowance of them (`ALLOWANCE`, less for runs of more than `MANY` jobs), which it earns evenly,
arrival by arrival, above a first `BURST`. While that is overdrawn a job is told the quick way: the
work before it by the fluid rule (`fluid`) over the pool's units. Counts decide and no clock, so a
run is the same each time. Either is then put right by what came of earlier ones (`drift`).

The first estimate of each job that is done is scored (`scoring`): the seconds from when it was told
to the finish, against those that it took. Beside it stands the naive formula: the jobs that wait x
the mean run time so far / the pool's units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

from scheduling.core.eta.calibration import FEWEST, naive_s
from scheduling.core.policy.cycle import run as run_cycle
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Job
from scheduling.simulator.drift import Drift, Pace
from scheduling.simulator.durations import Durations
from scheduling.simulator.fluid import Fluid
from scheduling.simulator.runs import Estimate, Run
from scheduling.simulator.scoring import Errors, Stretch

ALLOWANCE = 3_000_000
ALLOWANCE_OF_MANY = 300_000
MANY = 100_000
BURST = 100_000
LOOK = 20
"""What a look costs beside the jobs that it looks at."""


@dataclass(slots=True)
class Water:
    """The work of a pool: what waits by class (the highest first), and what is live (unit-s)."""

    classes: dict[str, Fluid]
    live: float = 0.0


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
        allowance = ALLOWANCE_OF_MANY if job_count > MANY else ALLOWANCE
        self._earned = allowance / max(job_count, 1000)
        self._credit = float(BURST)
        self._default_s = default_s
        self._runs = runs
        self._weights = weights
        self._durations = Durations()
        self._waters: dict[str, Water] = {}
        self._paces: dict[tuple[str, str, str], Pace] = {}
        self._drifts: dict[str, Drift] = {}
        self._errors: dict[str, Errors] = {}
        self._named: set[str] = set()
        self._all = Errors()
        self._stretch = Stretch()

    def open(self, pool: str, classes: Sequence[str]) -> None:
        """Know a pool and its classes, the highest first."""
        self._waters[pool] = Water({name: Fluid() for name in classes})

    def waiting(self, pool: str, class_name: str) -> int:
        """Return how many jobs of a class wait in a pool."""
        return self._waters[pool].classes[class_name].waiting

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

    def placed(self, run: Run, job: Job, now: float) -> None:
        """Note a job of the order that has started."""
        self._note(run, job, -1)
        self._waters[run.pool].live += job.cost * job.expected_s
        key = run.pool, job.class_name, job.tenant
        pace = self._paces.get(key)
        if pace is None:
            pace = self._paces[key] = Pace()
        pace.placed(now)
        if run.guess is not None:
            self._drift(run).learn(run.guess, now)
            run.guess = None

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
        actual_s = now - one.at
        self._all.add(one, actual_s)
        self._stretch.add(one, actual_s)
        name = run.core.workflow
        errors = self._errors.get(name)
        if errors is None:
            errors = self._errors[name] = Errors()
            if run.job.workflow:
                self._named.add(name)
        errors.add(one, actual_s)

    def _drift(self, run: Run) -> Drift:
        found = self._drifts.get(run.core.workflow)
        if found is None:
            found = self._drifts[run.core.workflow] = Drift()
        return found

    # --- estimates ------------------------------------------------------------------------

    def told(
        self, run: Run, state: PoolState, now: float, *, starts_now: bool
    ) -> tuple[int | None, float | None]:
        """Return a job's place in its pool's order and the seconds to its finish; None: unknown."""
        job = state.order.get(run.job.id)
        if job is None or state.order.why_blocked(job.id):
            return None, None
        if starts_now:
            place, wait_s = len(state.order), 0.0
        else:
            place, found_s = self._found(run, state, now)
            if found_s is None:
                return place, None
            wait_s = self._put_right(run, found_s, now)
        later_s = (run.job.steps - 1 - run.step) * run.core.expected_s
        eta_s = wait_s + self._durations.expected(run) + later_s
        if run.estimate is None:
            run.estimate = self._estimate(run, state, now, eta_s)
        return place, eta_s

    def _put_right(self, run: Run, found_s: float, now: float) -> float:
        """Return the wait that is believed where `found_s` was found."""
        core = run.core
        pace = self._paces.get((run.pool, core.class_name, core.tenant))
        ahead = self._waters[run.pool].classes[core.class_name].own(core.tenant) - 1
        paced_s = pace.wait_s(ahead, now) if pace is not None and found_s > 0 else None
        run_s = self._durations.mean_s(self._default_s)
        guess = self._drift(run).guess(found_s, found_s if paced_s is None else paced_s, run_s, now)
        run.guess = guess
        return guess.best_s

    def _estimate(self, run: Run, state: PoolState, now: float, eta_s: float) -> Estimate:
        own = self._errors.get(run.core.workflow, self._all)
        known = own if len(own.ratios) >= FEWEST else self._all
        low_s, high_s = known.around(eta_s, self._stretch)
        mean_s = self._durations.mean_s(self._default_s)
        naive = naive_s(len(state.order), mean_s, max(1, state.pool.budget))
        return Estimate(at=now, finish_s=eta_s, low_s=low_s, high_s=high_s, naive_s=naive)

    def _found(self, run: Run, state: PoolState, now: float) -> tuple[int, float | None]:
        """Return a job's place and the seconds to its start, the exact way or the quick one."""
        self._credit += self._earned
        ahead, quick_s = self._quick(run, state)
        if self._credit <= 0 or ahead > self._credit:
            return ahead + 1, quick_s
        place, start = self._looked(run, state, now)
        return place, None if start is None else start - now

    def _quick(self, run: Run, state: PoolState) -> tuple[int, float]:
        """Return what stands before a job by the fluid rule, and how long that takes."""
        water, own = self._waters[run.pool], run.core
        jobs, work = 0, water.live / 2
        for name, fluid in water.classes.items():
            if name == own.class_name:
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
        self._credit -= LOOK + 2 * place + len(copy.live) + len(self._paces)
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
        by_workflow = {name: self._errors[name].told() for name in sorted(self._named)}
        return self._all.told() | {"by_workflow": by_workflow}
