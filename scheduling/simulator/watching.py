"""What a report must know of a run, gathered event by event.

Memory grows with tenants, executors, what waits or runs at a time, and 8 bytes for each ended job
(its wait, for exact quantiles); never with the length of the log.
"""

from array import array
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal

from scheduling.simulator.grid import Grid
from scheduling.simulator.log import ENDS
from scheduling.simulator.scenario import Do, Lever, Scenario
from scheduling.simulator.sentences import Event

BARS = 1_200
FIRST_PLACED = 200
ALL_SERVED = ("charge", "all")
AMOUNTS = ("reserved", "incurred", "wasted", "avoided", "unallocated")
_BACK = frozenset({"preempted", "lost", "retried", "fallback", "step_done", "requeued"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One stay of a job on an executor; `how` it ended, or "running" at the end of the run."""

    executor: str
    tenant: str
    job: str
    start: float
    end: float
    how: str


@dataclass(slots=True)
class Stay:
    """A job that holds a slot now."""

    executor: str
    tenant: str
    pool: str
    cost: int
    class_name: str
    start: float
    drawn: bool


class Watch:
    """The run so far."""

    def __init__(self, scenario: Scenario) -> None:
        """Begin at time 0 with the budgets and weights that the scenario starts with."""
        self.grid = Grid()
        self.now = 0.0
        self.bars: list[Bar] = []
        self.placed = 0
        self.first_placed: list[str] = []
        self.waits: dict[tuple[str, str], array[float]] = defaultdict(lambda: array("d"))
        self.money: dict[str, dict[str, Decimal]] = {}
        self._pool_of = {station.executor.id: station.pool for station in scenario.stations}
        self._live: dict[str, Stay] = {}
        self._put_off: set[str] = set()
        self._dials = [one for one in scenario.levers if one.do in _DIALS]
        self._dials.reverse()
        for pool in scenario.pools:
            self.grid.step(("budget", pool.id), 0.0, pool.budget)
        for tenant in scenario.tenants:
            self.grid.step(("weight", tenant.name), 0.0, max(1, tenant.weight))

    def take(self, event: Event) -> None:
        """Follow one event."""
        self.now = event["t"]
        while self._dials and self._dials[-1].at <= self.now:
            self._turn_dial(self._dials.pop())
        name = event["event"]
        if name == "placed":
            self._place(event)
        elif name in _BACK:
            self._put_back(event)
        elif name in ENDS:
            self._end(event)
        elif name == "deferred" or event.get("reason") == "dependency":
            self._put_off.add(event["job"])
        elif name in {"admitted", "queued"}:
            self._arrive(event)

    def close(self, at: float) -> None:
        """The run is over: what still runs is drawn up to its end."""
        self.now = max(self.now, at)
        for job in tuple(self._live):
            self._leave(job, "running")
        self.grid.close(self.now)

    def _turn_dial(self, lever: Lever) -> None:
        """Follow a budget or a weight; weight 0 is a hold and keeps the weight that it had."""
        value = float(lever.value or 0)
        budget = lever.do is Do.POOL_BUDGET
        key = ("budget", lever.pool) if budget else ("weight", lever.tenant)
        if budget or value:
            self.grid.step(key, lever.at, value - self.grid.level(key))

    def _arrive(self, event: Event) -> None:
        self._put_off.discard(event["job"])
        self.grid.step(("depth", event["tenant"]), self.now, 1)

    def _place(self, event: Event) -> None:
        tenant, executor, cost = event["tenant"], event["executor"], event["cost"]
        pool = self._pool_of.get(executor, "")
        self.grid.step(("depth", tenant), self.now, -1)
        self.grid.step(("use", tenant), self.now, cost)
        self.grid.step(("pool", pool), self.now, cost)
        charge = event["charge"]
        weight = self.grid.level(("weight", tenant)) or 1
        self.grid.pulse(("served", tenant), self.now, charge / weight)
        self.grid.pulse(ALL_SERVED, self.now, charge)
        self._live[event["job"]] = Stay(
            executor, tenant, pool, cost, event["class"], self.now, self.placed < BARS
        )
        self.placed += 1
        if len(self.first_placed) < FIRST_PLACED:
            self.first_placed.append(tenant)

    def _leave(self, job: str, how: str) -> Stay | None:
        stay = self._live.pop(job, None)
        if stay is None:
            return None
        self.grid.step(("use", stay.tenant), self.now, -stay.cost)
        self.grid.step(("pool", stay.pool), self.now, -stay.cost)
        if stay.drawn:
            self.bars.append(
                Bar(
                    executor=stay.executor,
                    tenant=stay.tenant,
                    job=job,
                    start=stay.start,
                    end=self.now,
                    how=how,
                )
            )
        return stay

    def _put_back(self, event: Event) -> None:
        stay = self._leave(event["job"], event["event"])
        if stay is not None:
            self.grid.step(("depth", stay.tenant), self.now, 1)

    def _end(self, event: Event) -> None:
        job, tenant, name = event["job"], event["tenant"], event["event"]
        stay = self._leave(job, name)
        if name == "finished":
            class_name = event.get("class") or (stay.class_name if stay else "")
            self.waits[tenant, class_name].append(event["waited_s"])
        if stay is None and job not in self._put_off and name not in {"denied", "shed"}:
            self.grid.step(("depth", tenant), self.now, -1)
        self._put_off.discard(job)
        self._book(event)

    def _book(self, event: Event) -> None:
        """Add the amounts of money that a job has come to, told at its end, to its tenant's."""
        for kind in AMOUNTS:
            amount = event.get(kind)
            if amount is not None:
                sums = self.money.setdefault(event["tenant"], {})
                sums[kind] = sums.get(kind, Decimal(0)) + Decimal(amount)


_DIALS = frozenset({Do.POOL_BUDGET, Do.TENANT_WEIGHT})
