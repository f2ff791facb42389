"""Quick plans of starts that look at units alone: no slots, limits or reserve.

Without backfill jobs are laid in their order into lanes (`core.eta.lanes`). With it the easy rule is
played by numbers: what `core.capacity` does with jobs, classes and executors, for units alone, some
twenty times as fast. Work ends when it should by what was learnt of run times; whether a job may
pass the head goes by what was expected of it, as it does when it is dispatched.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from scheduling.core.eta.lanes import Lanes


@dataclass(frozen=True, slots=True)
class Planned:
    """A job by numbers: its units, how long it should take, and what was expected (seconds)."""

    cost: int
    run_s: float
    expected_s: float


@dataclass(frozen=True, slots=True)
class Busy:
    """What is live by numbers: its units, when it should end, and its end by expectation."""

    cost: int
    end: float
    expected_end: float


def start_in_order(
    jobs: Sequence[Planned], units: int, *, now: float, live: Sequence[Busy]
) -> float:
    """Return the start of the last of some jobs that nobody passes."""
    lanes = Lanes(units, now=now, running=[(one.end, one.cost) for one in live])
    costs = [min(max(one.cost, 1), units) for one in jobs]
    return lanes.take_all(costs, [one.run_s for one in jobs])[-1]


def start_with_backfill(
    jobs: Sequence[Planned], units: int, *, now: float, live: Sequence[Busy]
) -> float | None:
    """Return the start of the last of some jobs by the easy rule; None: it never fits."""
    plan = _Plan.of(units, live)
    waiting = list(range(len(jobs)))
    last = waiting[-1]
    while True:
        waiting = plan.placed(jobs, waiting, now)
        if last not in waiting:
            return now
        if not plan.ends:
            return None
        now = plan.next_end()


@dataclass(slots=True)
class _Plan:
    """The free units, and what is live as (end, number, units, expected end)."""

    free: int
    ends: list[tuple[float, int, int, float]] = field(default_factory=list)
    count: int = 0
    _shadow: float = 0.0
    _extra: int = 0

    @classmethod
    def of(cls, units: int, live: Sequence[Busy]) -> "_Plan":
        plan = cls(units - sum(one.cost for one in live), count=len(live))
        plan.ends = [(one.end, n, one.cost, one.expected_end) for n, one in enumerate(live)]
        heapify(plan.ends)
        return plan

    def placed(self, jobs: Sequence[Planned], waiting: Sequence[int], now: float) -> list[int]:
        """Start what may start at `now`; return those that go on waiting."""
        left: list[int] = []
        for number in waiting:
            job = jobs[number]
            if left and not self._passes(job, now):
                left.append(number)
            elif job.cost > self.free:
                self._reserve(job.cost, now)
                left.append(number)
            else:
                self._start(job, now)
        return left

    def _passes(self, job: Planned, now: float) -> bool:
        """Tell whether a job may pass the head; what it takes beyond the head's start is counted."""
        if job.cost > self.free:
            return False
        if now + job.expected_s <= self._shadow:
            return True
        if job.cost > self._extra:
            return False
        self._extra -= job.cost
        return True

    def _reserve(self, cost: int, now: float) -> None:
        """Plan the head's start, and what is free then beyond its cost."""
        free, at = self.free, now
        for end, units in sorted((max(one[3], now), one[2]) for one in self.ends):
            if free >= cost and end > at:
                break
            free, at = free + units, end
        self._shadow, self._extra = at, free - cost

    def _start(self, job: Planned, now: float) -> None:
        self.free -= job.cost
        self.count += 1
        heappush(self.ends, (now + job.run_s, self.count, job.cost, now + job.expected_s))

    def next_end(self) -> float:
        """Free all that ends at the next instant, and return that instant."""
        now = self.ends[0][0]
        while self.ends and self.ends[0][0] <= now:
            self.free += heappop(self.ends)[2]
        return now
