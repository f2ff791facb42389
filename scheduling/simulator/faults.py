"""Circuits, and the models that stand in for those that fail.

A circuit is kept for an executor's model, and for its key where a rate limit is heard. As its rest
is over one job is let through; its success closes the circuit, its failure opens it again.

Where a model fails, or all of its circuits are open, the candidates of the policy's list are weighed
in their order (`core.policy.fallback`), and the first that the job's budget lets in, in exchange for
what it holds, is the model in force. Where none is, the job waits for its own.
"""

from collections.abc import Collection, Mapping
from functools import partial
from itertools import islice
from typing import Any

from msgspec.structs import replace

from scheduling.core.breaker import Circuit, Signal
from scheduling.core.policy.fallback import Asks, Offered, Weighed, candidates_after, weighed
from scheduling.core.policy.settings import Candidate
from scheduling.core.types import Job, Reason
from scheduling.simulator.runs import Run
from scheduling.simulator.table import Table
from scheduling.simulator.world import Which

AT_ONCE = 200


def circuit_moved(table: Table, which: Which, signal: Signal, rest_s: float | None = None) -> None:
    """Let a circuit hear a signal, and tell of it if it opens or closes."""
    world = table.world
    before = world.signal(which, signal, table.now, rest_s)
    moved = world.circuits[which]
    if (before.state, before.open_until) == (moved.state, moved.open_until):
        return
    facts: dict[str, Any] = {"executor": which.executor, "model": which.model}
    if moved.state is Circuit.OPEN:
        facts["until"] = round(moved.open_until, 6)
        more = {"executor": which.executor, "reason": Reason.CIRCUIT_OPEN.value, "facts": facts}
        table.log.other("circuit_opened", more)
        table.agenda.plan(moved.open_until, partial(_half_open, table, which))
    elif before.state is not Circuit.CLOSED:
        more = {"executor": which.executor, "reason": Reason.FINISHED.value, "facts": facts}
        table.log.other("circuit_closed", more)
    _told_pool(table, which)


def _half_open(table: Table, which: Which) -> None:
    """Let one job through a circuit whose rest is over."""
    if table.world.circuits[which].state is not Circuit.OPEN:
        return
    table.world.signal(which, Signal.CLOCK, table.now, None)
    if table.world.circuits[which].state is Circuit.HALF_OPEN:
        _told_pool(table, which)


def _told_pool(table: Table, which: Which) -> None:
    pool = table.world.refresh(which.executor)
    table.touched.add(pool)
    table.stranding.add(pool)
    reason = Reason.CIRCUIT_OPEN
    table.returning.update((name, reason) for name, jobs in table.deferred.items() if jobs)


def switch_stranded(table: Table) -> None:
    """Look for stand-ins for the jobs in the order that open circuits alone keep from a start."""
    lists = table.world.policy.fallback
    if lists and (table.stranding or table.queued or _may_find_any_time(table)):
        names = {name for one in lists for name in (one.model, *(c.model for c in one.candidates))}
        for pool in sorted(table.world.open_pools()):
            for job in sorted(_stranded(table, pool, names), key=lambda one: one.seq):
                fall_back(table, table.runs[job.id], {"circuit": "open"})
    table.stranding.clear()
    table.queued.clear()


def _may_find_any_time(table: Table) -> bool:
    """Tell whether a stand-in may be found, or a job startable, though no circuit, health or setting
    has changed: by budgets, or limits of jobs' own."""
    return bool(table.purse.balances) or table.world.is_capped


def _stranded(table: Table, pool: str, models: Collection[str]) -> list[Job]:
    """Return the stranded jobs of a pool for which it is worth to look.

    Going through all that wait at each instant would make a run quadratic.
    """
    state = table.world.states[pool]
    if pool in table.stranding:
        return list(state.stranded(models))
    if _may_find_any_time(table):
        return list(islice(state.stranded(models), AT_ONCE))
    came = (state.order.get(run.job.id) for run in table.queued if run.pool == pool)
    mine = {job.id: job for job in came if job is not None and job.model in models}
    return [
        job
        for job in mine.values()
        if state.is_stranded(job) and not state.order.why_blocked(job.id)
    ]


def fall_back(table: Table, run: Run, told: Mapping[str, Any]) -> bool:
    """Queue a job for the first model that may stand in for its own; False: none may."""
    policy, asked, failed = table.world.policy, run.job.model, run.core.model
    passed: list[dict[str, str]] = []
    for candidate in candidates_after(policy, asked, failed):
        one = _weighed(table, run, candidate)
        if one.against is None and table.purse.refuse(run, candidate.model, table.now) is None:
            core = _on(run.core, candidate, asked=run.job.region)
            facts = {**told, "model_from": failed, "model_to": candidate.model, "passed": passed}
            table.log.job("requeued", run, Reason.FALLBACK, {"facts": facts})
            table.step_out(run)
            table.queue_up(run, core)
            if table.deferred.get(run.job.tenant):  # what it holds now may be less
                table.returning.add((run.job.tenant, Reason.BUDGET))
            return True
        why = str(one.against or "budget")
        passed.append({"model": candidate.model, "reason": why})
    return False


def _on(core: Job, candidate: Candidate, *, asked: str) -> Job:
    region = asked or candidate.region
    return replace(core, model=candidate.model, region=region, retry=False)


def _weighed(table: Table, run: Run, candidate: Candidate) -> Weighed:
    world, purse = table.world, table.purse
    core = _on(run.core, candidate, asked=run.job.region)
    able = world.able(core, run.pool)
    price = purse.estimate(run, candidate.model)
    through = [one.id for one in able if world.lets_through(one, candidate.model)]
    offered = Offered(
        able=len(able),
        unpriced=bool(purse.unpriced(candidate.model)),
        prices=dict.fromkeys(through, price),
    )
    asks = Asks(region=run.job.region, asked_spend=purse.estimate(run, run.job.model))
    return weighed(candidate, asks, offered)
