"""Levers and faults of a scenario, pulled at their time.

A rate limit is the answer to the call that began last on its executor: that try fails at once, and
the circuit of the executor's key opens for as long as it was told. An executor that is down is
given nothing until it is up, and what runs there runs on. A lost worker takes what it runs with it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec.structs import replace

from scheduling.core.breaker import Signal
from scheduling.core.policy.settings import recharged
from scheduling.core.types import Reason
from scheduling.simulator.course import book_capacity, fail, lose, stop
from scheduling.simulator.faults import circuit_moved
from scheduling.simulator.runs import Run, Stage
from scheduling.simulator.scenario import Do, Lever
from scheduling.simulator.table import Table
from scheduling.simulator.world import Which

Pull: TypeAlias = Callable[[Table, Lever], None]


def pull(table: Table, lever: Lever) -> None:
    """Do what a lever says."""
    table.stranding.update(table.world.states)
    _PULLS[lever.do](table, lever)


def _number(lever: Lever) -> float:
    if isinstance(lever.value, int | float):
        return lever.value
    message = f"{lever.do.value} at {lever.at} needs a number."
    raise ValueError(message)


def _told(table: Table, lever: Lever, facts: Mapping[str, Any]) -> None:
    """Tell of a changed setting."""
    named = {name: getattr(lever, name) for name in ("tenant", "pool", "executor", "workflow")}
    more: dict[str, Any] = {name: value for name, value in named.items() if value}
    table.log.other("policy", more | {"do": lever.do.value, "facts": dict(facts)})


# --- tenants ------------------------------------------------------------------------------


def _hold(table: Table, lever: Lever) -> None:
    _set_held(table, lever.tenant, held=True)


def _unhold(table: Table, lever: Lever) -> None:
    _set_held(table, lever.tenant, held=False)


def _set_held(table: Table, tenant: str, *, held: bool) -> None:
    """Hold a tenant or let it go; one that is so already stays so, and nothing is told."""
    if held == (tenant in table.world.held):
        return
    table.world.held ^= {tenant}
    for pool, state in table.world.states.items():
        (state.hold if held else state.unhold)(tenant)
        table.touched.add(pool)
    table.tally.hold(tenant, held=held)
    event, reason = ("held", Reason.TENANT_HELD) if held else ("resumed", Reason.IN_ORDER)
    facts = {"tenant": tenant, "jobs": _in_order(table, tenant)}
    table.log.other(event, {"tenant": tenant, "reason": reason.value, "facts": facts})


def _in_order(table: Table, tenant: str) -> int:
    return sum(
        1
        for run in table.runs.values()
        if run.job.tenant == tenant and run.stage is Stage.QUEUED and not run.paused
    )


def _weight(table: Table, lever: Lever) -> None:
    """Change a tenant's weight; 0 holds it, and one above lets a held tenant go."""
    weight, tenant = int(_number(lever)), lever.tenant
    if weight < 1:
        _set_held(table, tenant, held=True)
        return
    before = table.world.weights.get(tenant, 1)
    table.world.weights[tenant] = weight
    for pool, state in table.world.states.items():
        state.set_weight(tenant, weight)
        table.touched.add(pool)
    _told(table, lever, {"before": before, "after": weight})
    _set_held(table, tenant, held=False)


def _workflow_cost(table: Table, lever: Lever) -> None:
    cost, world = int(_number(lever)), table.world
    world.recost(lever.tenant, lever.workflow, cost)
    name = f"{lever.tenant}/{lever.workflow}"
    mine = [run for run in table.runs.values() if run.core.workflow == name]
    fixed = {run.job.id for run in mine if run.own_cost or run.in_review}
    for run in mine:
        if not run.own_cost:
            charge = recharged(world.policy, run.core, cost)
            run.core = replace(run.core, cost=cost, charge=charge)
    for pool, state in world.states.items():
        before = {run.job.id: state.order.get(run.job.id) for run in mine}
        state.recost(lever.tenant, name, cost, fixed=fixed)
        table.recosted(before, state)
        table.touched.add(pool)
    table.returning.add((lever.tenant, Reason.BUDGET))
    _told(table, lever, {"cost": cost, "jobs": len(mine) - len(fixed)})


# --- pools and executors ------------------------------------------------------------------


def _budget(table: Table, lever: Lever) -> None:
    state, units = table.world.states[lever.pool], int(_number(lever))
    before = state.pool.budget
    state.set_pool(replace(state.pool, budget=units))
    table.tally.set_units(lever.pool, units, table.now)
    table.touched.add(lever.pool)
    _told(table, lever, {"before": before, "after": units, "in_use": state.use.total})


def _down(table: Table, lever: Lever) -> None:
    table.world.down.add(lever.executor)
    table.touched.add(table.world.refresh(lever.executor))
    _told(table, lever, {"executor": lever.executor, "running": len(_live_on(table, lever))})


def _up(table: Table, lever: Lever) -> None:
    table.world.down.discard(lever.executor)
    table.touched.add(table.world.refresh(lever.executor))
    _told(table, lever, {"executor": lever.executor})


def _rate_limited(table: Table, lever: Lever) -> None:
    after_s = None if lever.value is None else _number(lever)
    live = [run for run in _live_on(table, lever) if not run.in_review]
    if not live:
        circuit_moved(table, Which(lever.executor, ""), Signal.RATE_LIMITED, after_s)
        return
    run = max(live, key=lambda one: (one.began, one.seq))
    seconds = table.now - run.began
    placement = stop(table, run)
    fail(table, run, placement, seconds, signal=Signal.RATE_LIMITED, retry_after_s=after_s)


def _worker_lost(table: Table, lever: Lever) -> None:
    for run in _live_on(table, lever):
        lose(table, run)


def _live_on(table: Table, lever: Lever) -> list[Run]:
    """Return what runs on the lever's executor, or the job that it names, in order of arrival."""
    if lever.job:
        named = table.runs.get(lever.job)
        return [named] if named is not None and named.stage is Stage.LIVE else []
    pool = table.world.home[lever.executor]
    live = table.world.states[pool].live.values()
    found = [table.runs[one.job_id] for one in live if one.executor == lever.executor]
    return sorted(found, key=lambda run: run.seq)


# --- jobs ---------------------------------------------------------------------------------


def _cancel(table: Table, lever: Lever) -> None:
    run = table.runs.get(lever.job)
    if run is None:
        return
    facts: dict[str, Any] = {"was": run.stage.name.lower()}
    if run.stage is Stage.LIVE:
        seconds = table.now - run.began
        placement = stop(table, run)
        book_capacity(table, run, placement, seconds, good=False)
        facts["ran_s"] = round(seconds, 6)
    table.close(run, "canceled", Reason.CANCELED, facts)


def _pause(table: Table, lever: Lever) -> None:
    """Keep a waiting job out of the order; one that runs is not paused before it waits again."""
    run = table.runs.get(lever.job)
    if run is None or run.paused:
        return
    if run.stage is Stage.QUEUED:
        table.step_out(run)
    run.paused = True
    table.log.job("held", run, Reason.JOB_PAUSED, {"facts": {"was": run.stage.name.lower()}})


def _resume(table: Table, lever: Lever) -> None:
    run = table.runs.get(lever.job)
    if run is None or not run.paused:
        return
    run.paused = False
    if run.stage is Stage.QUEUED:
        table.queue_up(run)
        table.tell_place(run, "resumed", Reason.IN_ORDER, {"was": "paused"})
    else:
        more = {"facts": {"was": run.stage.name.lower()}}
        table.log.job("resumed", run, Reason.IN_ORDER, more)


def _prioritise(table: Table, lever: Lever) -> None:
    """Give a job another class; without a name that of the expedite lane."""
    run = table.runs.get(lever.job)
    name = str(lever.value or "expedite")
    if run is None or run.in_review or name not in table.world.rules:
        return
    table.count_alike(run, -1)
    before, run.core = run.core.class_name, replace(run.core, class_name=name)
    table.count_alike(run, 1)
    table.tally.moved(before, name)
    if run.stage is Stage.QUEUED and not run.paused:
        table.step_out(run)
        table.queue_up(run)
    facts = {"before": before, "after": name}
    table.log.job("policy", run, Reason.IN_ORDER, {"do": lever.do.value, "facts": facts})


_PULLS: Mapping[Do, Pull] = MappingProxyType(
    {
        Do.TENANT_HOLD: _hold,
        Do.TENANT_UNHOLD: _unhold,
        Do.TENANT_WEIGHT: _weight,
        Do.POOL_BUDGET: _budget,
        Do.EXECUTOR_DOWN: _down,
        Do.EXECUTOR_UP: _up,
        Do.RATE_LIMITED: _rate_limited,
        Do.JOB_CANCEL: _cancel,
        Do.JOB_PAUSE: _pause,
        Do.JOB_RESUME: _resume,
        Do.JOB_PRIORITISE: _prioritise,
        Do.WORKFLOW_COST: _workflow_cost,
        Do.WORKER_LOST: _worker_lost,
    }
)
