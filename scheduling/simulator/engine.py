"""Plays a scenario through the core that decides in production, under an imaginary clock.

Theory. Next-event simulation (Law, "Simulation Modeling and Analysis"): the clock jumps from one
instant at which something happens to the next. At one instant all ends are applied, then what time
brings (retries, circuits, windows, deadlines), then levers, then what may be admitted anew, then
arrivals; then one cycle runs a pool. What that lets yield to a higher class makes room, and the
cycle runs again. Ends that fall on the instant at which they were placed (work of no duration) are
an instant of their own; so is the use of room that budgets gain as late as by an arrival.

The result depends on the scenario and its seed alone: nothing is read off a clock, and dice are
thrown in the order of events.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from math import inf, isfinite
from random import Random
from typing import Any

from scheduling.core.policy.cycle import run as run_cycle
from scheduling.core.policy.preempting import preempting
from scheduling.core.policy.state import PoolState
from scheduling.core.types import REVIEWS
from scheduling.simulator.admitting import arrive, readmit
from scheduling.simulator.course import finish_try, make_room
from scheduling.simulator.faults import switch_stranded
from scheduling.simulator.foresight import Foresight
from scheduling.simulator.levers import pull
from scheduling.simulator.log import Log, Take
from scheduling.simulator.money import Purse
from scheduling.simulator.runs import Run
from scheduling.simulator.scenario import Scenario, SimJob
from scheduling.simulator.summary import Tally
from scheduling.simulator.table import Table
from scheduling.simulator.world import World

COLLECTED_EVERY = 200_000
"""How many more new objects than freed ones make the collector come."""


def play(scenario: Scenario, take: Take) -> dict[str, Any]:
    """Play a scenario; hand each event to `take`, the summary last, and return the summary."""
    with _seldom_collected():
        return _played(_laid(scenario, take), take)


def _played(table: Table, take: Take) -> dict[str, Any]:
    scenario = table.scenario
    levers, arrivals = iter(scenario.levers), scenario.arrivals()
    lever, job = next(levers, None), next(arrivals, None)
    until = inf if scenario.until is None else scenario.until
    while True:
        now = table.now if table.returning else table.agenda.next_at()
        if lever is not None and lever.at < now:
            now = lever.at
        if job is not None and job.at < now:
            now = job.at
        if now == inf or now > until:
            break
        _begin(table, now)
        while lever is not None and lever.at <= now:
            pull(table, lever)
            lever = next(levers, None)
        if table.returning:
            readmit(table)
        job = _arrive(table, job, arrivals)
        _place(table)
    if now < inf:
        _cut_off(table, until)
    summary = _summary(table)
    take(summary)
    return summary


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Let the collector of circles come seldom: what a run keeps would be looked through often."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECTED_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _laid(scenario: Scenario, take: Take) -> Table:
    """Return the table of a scenario at second 0."""
    world = World(scenario)
    runs: dict[str, Run] = {}
    table = Table(
        runs=runs,
        scenario=scenario,
        log=Log(take, scenario.policy.number),
        world=world,
        purse=Purse.of(scenario),
        tally=Tally(world.held),
        foresight=Foresight(
            job_count=scenario.job_count,
            default_s=world.policy.default_expected_s,
            runs=runs,
            weights=world.weights,
        ),
        dice=Random(scenario.seed),  # noqa: S311 (spreads retries, guards nothing)
    )
    for pool in scenario.pools:
        table.foresight.open(pool.id, [rule.name for rule in world.policy.classes])
        table.tally.set_units(pool.id, pool.budget, 0.0)
    return table


def _begin(table: Table, now: float) -> None:
    """Move to the next instant, and apply its ends and timers."""
    table.now = now
    table.log.at(now)
    table.touched.clear()
    table.starting.clear()
    for run in table.agenda.ends(now):
        finish_try(table, run)
    for action in table.agenda.timers(now):
        action()


def _arrive(table: Table, job: SimJob | None, rest: Iterator[SimJob]) -> SimJob | None:
    """Take in the jobs of this instant; return the first that comes later."""
    while job is not None and job.at <= table.now:
        arrive(table, job)
        job = next(rest, None)
    return job


# --- placing ------------------------------------------------------------------------------


def _place(table: Table) -> None:
    """Run a cycle for each pool in which something may start."""
    if table.world.circuits:
        switch_stranded(table)
    states = table.world.states
    pools = states if table.world.is_linked else table.touched
    for pool in sorted(pools):
        state = states[pool]
        if not state.order.jobs or _is_full(table, state):
            continue
        _cycle(table, state)
        if state.policy.preemption.enabled:
            _preempt(table, state)
        _come_back(table, state)


def _come_back(table: Table, state: PoolState) -> None:
    """Plan the next look at a pool in which jobs wait, where time alone may let one start."""
    if not state.order.jobs:
        return
    state.order.advance(table.now)  # after a placement it only says that it must look anew
    pool = state.pool.id
    at = min(state.opens_at, state.order.ages_at())
    if table.now < at < table.looks.get(pool, inf):
        table.looks[pool] = at
        table.agenda.plan(at, partial(_look, table, pool))


def _look(table: Table, pool: str) -> None:
    table.looks.pop(pool, None)
    table.touched.add(pool)


def _is_full(table: Table, state: PoolState) -> bool:
    """Tell whether no unit is free, and nothing waits that needs none or may make room."""
    if state.use.total < state.pool.budget or state.policy.preemption.enabled:
        return False
    return not table.foresight.waiting(state.pool.id, REVIEWS.name)


def _cycle(table: Table, state: PoolState) -> None:
    for placement in run_cycle(state, table.now).placements:
        table.start(table.runs[placement.spot.job.id], placement)


def _preempt(table: Table, state: PoolState) -> None:
    """Let running work make room for a higher class, as often as there is any that may."""
    while True:
        may_yield = {run.job.id: run.preemptions for run in _yielding(table, state)}
        due = preempting(state, table.now, yielding=may_yield, stopping=())
        if not due:
            break
        for one in due:
            for live in one.victims:
                make_room(table, table.runs[live.job_id], one.job.id, one.job.class_name)
        _cycle(table, state)
    _look_again(table, state, may_yield)


def _yielding(table: Table, state: PoolState) -> Iterator[Run]:
    """Yield what may be stopped: work that leaves a checkpoint or may run twice.

    Work of several steps yields by itself: its next step stands in the order.
    """
    for live in state.live.values():
        run = table.runs[live.job_id]
        can_stop = run.job.checkpoints or run.job.idempotent
        if can_stop and run.job.steps == 1 and live.class_name != REVIEWS.name:
            yield run


def _look_again(table: Table, state: PoolState, may_yield: dict[str, int]) -> None:
    """Come back when the next of what runs has run for so long that it may be preempted."""
    least = state.policy.preemption.min_run_s
    times = (table.runs[name].began + least for name in may_yield)
    at = min((one for one in times if one > table.now), default=inf)
    if isfinite(at) and len(state.order):
        table.agenda.plan(at, partial(table.touched.add, state.pool.id))


def _cut_off(table: Table, until: float) -> None:
    """Count what runs on at the end of a run that is cut off, as far as it came."""
    for run in table.runs.values():
        cost = 0 if run.placement is None else run.placement.spot.job.cost
        if cost:
            table.tally.worked(run.job.tenant, cost, until - run.began, until)


def _summary(table: Table) -> dict[str, Any]:
    tally, total = table.tally, table.purse.total
    idle_s = max(0.0, tally.offered_s() - tally.used_s)
    price = table.scenario.prices.unit_second
    total.unallocated = price * Decimal(str(round(idle_s, 6))) if price else total.unallocated
    return {
        "event": "summary",
        "name": table.scenario.name,
        **tally.told(table.world.weights),
        "eta": table.foresight.score(),
        "cost": total.told(),
        "counts": dict(table.log.counts),
    }
