"""Circuits, and the models that stand in for those that fail.

A circuit is kept for an executor's model, and for its key where a rate limit is heard. As its rest
is over one job is let through; its success closes the circuit, its failure opens it again.

Where a model fails, or all of its circuits are open, the candidates of the policy's list are weighed
in their order (`core.policy.fallback`), and the first that the job's budget lets in, in exchange for
what it holds, is the model in force. Where none is, the job waits for its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

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
    table.touched.add(table.world.refresh(which.executor))
    table.returning.update(name for name, jobs in table.deferred.items() if jobs)


def switch_stranded(table: Table) -> None:
    """Look for stand-ins for the jobs in the order that open circuits alone keep from a start."""
    world = table.world
    lists = world.policy.fallback
    if not lists or not world.circuits:
        return
    models = {model for one in lists for model in (one.model, *(c.model for c in one.candidates))}
    for pool in sorted(world.states):
        stranded = list(islice(world.states[pool].stranded(models), AT_ONCE))
        for job in sorted(stranded, key=lambda one: one.seq):
            run = table.runs[job.id]
            table.step_out(run)
            if not fall_back(table, run, {"circuit": "open"}):
                table.queue_up(run)


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
            table.queue_up(run, core)
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
