"""When a job should be done, told as it is let in, and scored against what came true.

Run times are what the last runs of a job's user and workflow say of what it is expected to take
(`core.eta.paces`). The wait is found in one of three ways, the dearer ones while a run can afford them:

1. exactly: the pool's state with the jobs up to this one is copied and fast-forwarded by the very cycle
   that dispatches, until the job starts. `EXACT` says how many jobs are looked at so in a run; a place
   beyond `NEAR` is not;
2. by a plan of the jobs before it in their order and of what is live (`plans`), `PLANNED` of them in
   a run, earned evenly arrival by arrival, at most `MOST_EARNED` with each;
3. by the work before it as a fluid (`fluid`), times what plans recently said in relation to that.

What is found knows nothing of arrivals to come and is put right by how earlier jobs of the workflow
fared (`drift`). Counts decide and no clock, so a run is the same each time.

The first estimate of each job that is done is scored (`scoring`): the seconds from when it was told
to the finish, against those that it took. Beside it stands the naive formula: the jobs that wait x
the mean run time so far / the pool's units.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil
from statistics import fmean
from typing import Any

from msgspec.structs import replace

from scheduling.core.eta.calibration import naive_s
from scheduling.core.eta.paces import Paces
from scheduling.core.policy.cycle import run as run_cycle
from scheduling.core.policy.settings import Backfill
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Job, Live
from scheduling.simulator.drift import LAST, Drift, Pace
from scheduling.simulator.fluid import Fluid
from scheduling.simulator.plans import Busy, Planned, start_in_order, start_with_backfill
from scheduling.simulator.runs import Estimate, Run
from scheduling.simulator.scoring import Errors, Ranges
from scheduling.simulator.world import REVIEW_S

EXACT = 30_000
NEAR = 100
PLANNED = 2_000_000
FIRST_PLANNED = 10_000.0
MOST_EARNED = 100.0
LOOK = 20
"""What an exact look costs beside the jobs that it looks at."""


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
        self._earned = min(MOST_EARNED, PLANNED / max(job_count, 1))
        self._planned = FIRST_PLANNED
        self._exact = EXACT
        self._default_s = default_s
        self._runs = runs
        self._weights = weights
        self._paces = Paces()
        self._run_count, self._run_total_s = 0, 0.0
        self._waters: dict[str, Water] = {}
        self._served: dict[tuple[str, str, str], Pace] = {}
        self._drifts: dict[str, Drift] = {}
        self._errors: dict[str, Errors] = {}
        self._named: set[str] = set()
        self._ratios: deque[float] = deque(maxlen=LAST)
        self._ranges = Ranges()

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
        pace = self._served.get(key)
        if pace is None:
            pace = self._served[key] = Pace()
        pace.placed(now)
        if run.guess is not None:
            self._drift(run).learn(run.guess, now)
            run.guess = None

    def stopped(self, run: Run, job: Job) -> None:
        """Note a placement that has ended."""
        self._waters[run.pool].live -= job.cost * job.expected_s

    def learn(self, run: Run, seconds: float) -> None:
        """Learn from a placement that was worked to its end."""
        self._run_count += 1
        self._run_total_s += seconds
        self._paces.learn(run.paced.workflow, run.core.expected_s, seconds)

    def finished(self, run: Run, now: float) -> None:
        """Score the estimate of a job that is done."""
        one = run.estimate
        if one is None:
            return
        actual_s = now - one.at
        self._ranges.add(one, actual_s)
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
        job = state.order.jobs.get(run.job.id)
        if job is None or state.order.why_blocked(job.id):
            return None, None
        if starts_now:
            place, wait_s = len(state.order.jobs), 0.0
        else:
            place, found_s = self._found(run, job, state, now)
            if found_s is None:
                return place, None
            wait_s = self._put_right(run, job, found_s, now)
        later_s = (run.job.steps - 1 - run.step) * run.core.expected_s
        eta_s = wait_s + self._run_s(run) + later_s
        if run.estimate is None:
            run.estimate = self._estimate(state, now, eta_s)
        return place, eta_s

    def _put_right(self, run: Run, job: Job, found_s: float, now: float) -> float:
        """Return the wait that is believed where `found_s` was found for what stands in the order."""
        pace = self._served.get((run.pool, job.class_name, job.tenant))
        ahead = self._waters[run.pool].classes[job.class_name].own(job.tenant) - 1
        paced_s = pace.wait_s(ahead, now) if pace is not None and found_s > 0 else None
        run_s = self._mean_s()
        guess = self._drift(run).guess(found_s, found_s if paced_s is None else paced_s, run_s, now)
        run.guess = guess
        return guess.best_s

    def _estimate(self, state: PoolState, now: float, eta_s: float) -> Estimate:
        low_s, high_s = self._ranges.around(eta_s)
        naive = naive_s(len(state.order.jobs), self._mean_s(), max(1, state.pool.budget))
        return Estimate(at=now, finish_s=eta_s, low_s=low_s, high_s=high_s, naive_s=naive)

    def _mean_s(self) -> float:
        return self._run_total_s / self._run_count if self._run_count else self._default_s

    def _run_s(self, run: Run) -> float:
        """Return how long the next placement of a job should take."""
        if run.in_review:
            return REVIEW_S
        return max(0.001, self._paces.run_s(run.paced) - run.kept_s)

    def _end(self, live: Live, now: float) -> float:
        """Return when a live job should end."""
        run = self._runs[live.job_id]
        named = replace(live, workflow=run.paced.workflow) if run.job.user else live
        return self._paces.end(named, now)

    def _found(self, run: Run, job: Job, state: PoolState, now: float) -> tuple[int, float | None]:
        """Return a job's place and the seconds to its start."""
        self._planned += self._earned
        ahead, quick_s = self._quick(run.pool, job, state)
        exactly = self._exact > 0 and ahead <= NEAR
        if not exactly and ahead + len(state.live) > self._planned:
            return ahead + 1, quick_s * (fmean(self._ratios) if self._ratios else 1.0)
        jobs = self._up_to(run, state)
        if exactly:
            start = self._looked(run, state, len(jobs), now)
        else:
            self._planned -= len(jobs) + len(state.live)
            start = self._laid(jobs, state, now)
        if start is not None and quick_s > 0:
            self._ratios.append((start - now) / quick_s)
        return len(jobs), None if start is None else start - now

    def _up_to(self, run: Run, state: PoolState) -> list[Job]:
        """Return the jobs of the order up to one."""
        jobs: list[Job] = []
        for spot in state.order.walk_all():
            jobs.append(spot.job)
            if spot.job.id == run.job.id:
                break
        return jobs

    def _quick(self, pool: str, own: Job, state: PoolState) -> tuple[int, float]:
        """Return what stands before a job by the fluid rule, and how long that takes."""
        water = self._waters[pool]
        jobs, work = 0, water.live / 2
        for name, fluid in water.classes.items():
            if name == own.class_name:
                break
            jobs, work = jobs + fluid.waiting, work + fluid.total
        more, its_work = water.classes[own.class_name].ahead(own.tenant)
        work += max(0.0, its_work - own.cost * own.expected_s)
        return jobs + more, work / max(1, state.pool.budget)

    def _laid(self, jobs: Sequence[Job], state: PoolState, now: float) -> float | None:
        """Return the start of the last of the jobs by a plan; None: none is in sight.

        A pool with fewer slots than its units need has the units that fill its slots.
        """
        runs = self._runs
        slots = sum(one.slots for one in state.executors.values() if one.available)
        filled = ceil(slots * sum(job.cost for job in jobs) / len(jobs))
        units = min(state.pool.budget, filled)
        if units < 1:
            return None
        jobs_by_numbers = [
            Planned(job.cost, self._run_s(runs[job.id]), job.expected_s) for job in jobs
        ]
        live = [
            Busy(one.cost, self._end(one, now), one.started_at + one.expected_s)
            for one in state.live.values()
            if one.cost
        ]
        easy = state.policy.backfill is Backfill.EASY
        way = start_with_backfill if easy else start_in_order
        return way(jobs_by_numbers, units, now=now, live=live)

    def _looked(self, run: Run, state: PoolState, place: int, now: float) -> float | None:
        """Return a job's start by the exact way; None: it does not start as things stand."""
        copy, job_id, clock = state.first(place), run.job.id, now
        copy.limits.drop_windows()
        ends = [(self._end(live, now), name) for name, live in copy.live.items()]
        heapify(ends)
        self._exact -= LOOK + 2 * place + len(ends) + len(self._served)
        while True:
            self._exact -= 3 + len(copy.order)
            for placement in run_cycle(copy, clock).placements:
                name = placement.spot.job.id
                if name == job_id:
                    return clock
                heappush(ends, (clock + self._run_s(self._runs[name]), name))
            if not ends:
                return None
            clock = ends[0][0]
            while ends and ends[0][0] == clock:
                copy.end(heappop(ends)[1])

    # --- score ----------------------------------------------------------------------------

    def score(self) -> dict[str, Any]:
        """Return how good the estimates were, in all and by workflow."""
        by_workflow = {name: self._errors[name].told() for name in sorted(self._named)}
        return Errors.of_all(self._errors.values()).told() | {"by_workflow": by_workflow}
