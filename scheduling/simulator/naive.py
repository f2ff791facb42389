"""Three naive rules on the jobs of a scenario, to be seen beside the fair order.

Each fills the free units of one capacity whenever something arrives or ends, and stops at the first
job that does not fit; none knows priority, budgets or executors.

- First in line: the oldest job. Who has the most waiting gets every slot.
- Proportional rounding: tenant i of those with q_i of Q jobs waiting gets round(free x q_i / Q) of
  the free units, what is left over in order of age. The small tenant's share rounds to nothing.
- Stateless interleave: the fair rounds, built anew at each dispatch without a memory of whom the
  last one served. While units come free one at a time, each is the first of a new first round, and
  goes to the tenant with the oldest job.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple, TypeAlias

from scheduling.simulator.scenario import Scenario


class Waiting(NamedTuple):
    """A job that waits; the older one is the lesser."""

    at: float
    number: int
    cost: int
    duration: float


Lines: TypeAlias = dict[str, deque[Waiting]]
Rule: TypeAlias = Callable[[Lines, int, dict[str, int]], Iterator[str]]
"""(waiting jobs by tenant, oldest first; free units; weights) -> whose job is next, one a time."""


def first_in_line(lines: Lines, free: int, weights: dict[str, int]) -> Iterator[str]:
    """Yield the tenant of the oldest job, always."""
    while lines:
        yield min(lines, key=lambda name: lines[name][0])


def proportional(lines: Lines, free: int, weights: dict[str, int]) -> Iterator[str]:
    """Yield each tenant as often as its part of the backlog rounds to, then the oldest."""
    total = sum(map(len, lines.values()))
    parts = {name: math.floor(free * len(line) / total + 0.5) for name, line in lines.items()}
    for name in sorted(parts, key=lambda one: -parts[one]):
        for _ in range(parts[name]):
            if name in lines:
                yield name
    yield from first_in_line(lines, free, weights)


def stateless(lines: Lines, free: int, weights: dict[str, int]) -> Iterator[str]:
    """Yield up to `weight` of each tenant a round, the round's jobs by age."""
    while lines:
        picked = [
            (job, name)
            for name, line in lines.items()
            for job in islice(line, weights.get(name, 1))
        ]
        for _, name in sorted(picked):
            yield name


RULES: dict[str, Rule] = {
    "First in line": first_in_line,
    "Proportional rounding": proportional,
    "Stateless interleave": stateless,
}


@dataclass(slots=True)
class _Play:
    """One naive run: what waits, what runs, and who was placed."""

    rule: Rule
    weights: dict[str, int]
    free: int
    lines: Lines
    running: list[tuple[float, int]]
    placed: list[str]

    def dispatch(self, now: float, most: int) -> None:
        """Fill the free units, up to `most` placements in all."""
        if not self.lines or self.free < 1:
            return
        for tenant in self.rule(self.lines, self.free, self.weights):
            job = self.lines[tenant][0]
            if job.cost > self.free or len(self.placed) >= most:
                return
            self.lines[tenant].popleft()
            if not self.lines[tenant]:
                del self.lines[tenant]
            self.free -= job.cost
            self.placed.append(tenant)
            heappush(self.running, (now + job.duration, job.cost))


def placements(scenario: Scenario, rule: Rule, *, most: int) -> list[str]:
    """Return the tenants of the first `most` jobs that a rule places, in their order.

    All pools count as one; ends of an instant are applied before its arrivals, then one dispatch.
    """
    play = _Play(
        rule=rule,
        weights={tenant.name: max(1, tenant.weight) for tenant in scenario.tenants},
        free=sum(pool.budget for pool in scenario.pools),
        lines={},
        running=[],
        placed=[],
    )
    costs = {(one.tenant, one.name): one.cost for one in scenario.workflows}
    arrivals = enumerate(scenario.arrivals())
    coming = next(arrivals, None)
    while len(play.placed) < most and (coming or play.running):
        now = min(
            play.running[0][0] if play.running else math.inf, coming[1].at if coming else math.inf
        )
        while play.running and play.running[0][0] <= now:
            play.free += heappop(play.running)[1]
        while coming and coming[1].at <= now:
            number, job = coming
            cost = job.cost or costs.get((job.tenant, job.workflow)) or 1
            waiting = Waiting(job.at, number, cost, job.duration)
            play.lines.setdefault(job.tenant, deque()).append(waiting)
            coming = next(arrivals, None)
        play.dispatch(now, most)
    return play.placed
