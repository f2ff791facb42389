"""Everything that a run in progress consists of, and the moves that all of its rules share.

A job enters, stands in the order or leaves it, starts, and ends for good. What waits for a job to be
done is queued as that is so, and canceled where it never will be.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any, TypeAlias

from scheduling.core.policy.state import PoolState
from scheduling.core.types import Job, Placement, Reason
from scheduling.simulator.agenda import Agenda
from scheduling.simulator.foresight import Foresight
from scheduling.simulator.log import Log
from scheduling.simulator.money import Crossed, Purse, plain
from scheduling.simulator.runs import Run, Stage
from scheduling.simulator.scenario import Scenario
from scheduling.simulator.summary import Tally
from scheduling.simulator.world import World

NO_FACTS: Mapping[str, Any] = {}
Waits: TypeAlias = tuple[str, Reason]
"""The deferred jobs of a tenant that wait for one reason to pass."""


@dataclass(slots=True, kw_only=True)
class Table:
    """A run in progress. `now` is in seconds from its beginning.

    `runs` are the jobs that have not ended, by id; `ended` tells of those that have whether they
    were done; `tied` lists the jobs that wait for one to be done. `touched` are the pools in which
    something may start now; `stranding` those in which a circuit, an executor or a setting changed
    since stand-ins were looked for, and `queued` the jobs that came into the order since then;
    `returning` the tenants whose deferred jobs may be let in now, with why those were deferred.
    """

    scenario: Scenario
    log: Log
    world: World
    purse: Purse
    tally: Tally
    foresight: Foresight
    dice: Random
    agenda: Agenda = field(default_factory=Agenda)
    now: float = 0.0
    arrivals: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    ended: dict[str, bool] = field(default_factory=dict)
    tied: dict[str, list[Run]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    stranding: set[str] = field(default_factory=set)
    queued: list[Run] = field(default_factory=list)
    deferred: dict[str, dict[int, Run]] = field(default_factory=dict)
    returning: set[Waits] = field(default_factory=set)
    returns: set[tuple[Waits, float]] = field(default_factory=set)
    """The times at which deferred jobs of a tenant are judged anew, that are planned."""
    starting: dict[str, list[int]] = field(default_factory=dict)
    """What is let in to start at this instant, by pool: jobs and units."""
    looks: dict[str, float] = field(default_factory=dict)
    """When a pool is looked at next because of the time alone."""
    waiting: Counter[str] = field(default_factory=Counter)
    """How many jobs wait, in all ("") and by tenant and workspace, where a backlog has a cap."""
    alike: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many jobs have not ended, by workspace and class, of the classes that have a quota."""

    # --- the order ------------------------------------------------------------------------

    def queue_up(self, run: Run, core: Job | None = None) -> None:
        """Let a job stand in its pool's order, unless it is paused."""
        run.stage = Stage.QUEUED
        if core is not None:
            run.core = core
        if run.paused:
            return
        job = self.standing(run)
        self.world.states[run.pool].wait(job)
        self.tally.waits(run.job.tenant, 1)
        self.foresight.came(run, job)
        self.touched.add(run.pool)
        if self.world.circuits:
            self.queued.append(run)

    def standing(self, run: Run) -> Job:
        """Return the job as it stands in the order: its work, or its review."""
        return self.world.review(run) if run.in_review else run.core

    def step_out(self, run: Run) -> None:
        """Take a job out of the order, if it stands there."""
        job = self.world.states[run.pool].leave(run.job.id)
        if job is not None:
            self.tally.waits(run.job.tenant, -1)
            self.foresight.left(run, job)
            self.touched.add(run.pool)

    def recosted(self, before: Mapping[str, Job | None], state: PoolState) -> None:
        """Let estimates know the new costs of jobs that stand, or stood, in the order."""
        for job_id, old in before.items():
            new = state.order.get(job_id)
            if old is not None:
                self.foresight.left(self.runs[job_id], old)
            if new is not None:
                self.foresight.came(self.runs[job_id], new)

    def start(self, run: Run, placement: Placement) -> None:
        """Begin what the core has placed."""
        now = self.now
        run.stage, run.placement, run.began = Stage.LIVE, placement, now
        run.fence += 1
        run.placements += 1
        spot = placement.spot
        run.shared_in = self.tally.charged(run.job.tenant, spot.job.charge)
        self.tally.waits(run.job.tenant, -1)
        self.foresight.placed(run, spot.job, now)
        self.agenda.end(now + run.left_s(), run)
        self.log.job("placed", run, placement.reason, _placed(placement))
        if run.started_at is None:
            run.started_at = now
            self.count_waiting(run, -1)
            self.log.job("started", run, placement.reason, {"executor": placement.executor})

    def count_waiting(self, run: Run, count: int) -> None:
        """Count a job among those that wait for their first start, or out of them."""
        run.is_counted = count > 0
        if self.world.has_backlog_caps:
            self.waiting.update(dict.fromkeys(("", run.job.tenant, run.core.workspace), count))

    def count_alike(self, run: Run, count: int) -> None:
        """Count a job among those of its workspace and class, or out of them."""
        if run.core.class_name in self.world.quotas:
            self.alike[run.core.workspace, run.core.class_name] += count

    # --- ends -----------------------------------------------------------------------------

    def close(
        self, run: Run, event: str, reason: Reason, facts: Mapping[str, Any] = NO_FACTS
    ) -> None:
        """End a job for good, and cancel what waits for it in vain."""
        falling = deque((one, run) for one in self._end(run, event, reason, facts))
        while falling:
            one, before = falling.popleft()
            told = {"on": before.job.id}
            lost = self._end(one, "canceled", Reason.DEPENDENCY, told)
            falling.extend((other, one) for other in lost)

    def _end(self, run: Run, event: str, reason: Reason, facts: Mapping[str, Any]) -> list[Run]:
        """End one job; return the jobs that can never run now."""
        done = event == "finished"
        if run.stage is Stage.DEFERRED:
            self.deferred[run.job.tenant].pop(run.seq, None)
        elif run.stage is Stage.QUEUED:
            self.step_out(run)
        if run.is_counted:
            self.count_waiting(run, -1)
        run.stage = Stage.ENDED
        run.fence += 1
        if self.purse.release(run):
            self.returning.add((run.job.tenant, Reason.BUDGET))
        self.runs.pop(run.job.id, None)
        self.count_alike(run, -1)
        self.ended[run.job.id] = done
        self.log.job(event, run, reason, self._ending(run, facts, done=done))
        return self._tell_tied(run.job.id, done=done)

    def _ending(self, run: Run, facts: Mapping[str, Any], *, done: bool) -> dict[str, Any]:
        told: dict[str, Any] = {"class": run.core.class_name}
        if done:
            told["waited_s"] = round(self.tally.done(run, self.now), 6)
            self.foresight.finished(run, self.now)
        if run.started_at is not None:
            told["ran_s"] = round(run.ran_s, 6)
        told["incurred"] = plain(run.incurred)
        told["wasted"] = plain(run.wasted)
        if facts:
            told["facts"] = dict(facts)
        return told

    def _tell_tied(self, job_id: str, *, done: bool) -> list[Run]:
        waiting = self.tied.pop(job_id, None)
        if waiting is None:
            return []
        waiting = [one for one in waiting if one.stage is not Stage.ENDED]
        if not done:
            return waiting
        for one in waiting:
            one.open_after -= 1
            if not one.open_after and one.stage is Stage.TIED:
                self.queue_up(one)
                self.tell_place(one, "queued", Reason.IN_ORDER, {"after": list(one.job.after)})
        return []

    # --- deferred jobs and budgets -----------------------------------------------------------

    def plan_return(self, tenant: str, reason: Reason, at: float) -> None:
        """Plan to judge the jobs of a tenant anew that were deferred for a reason."""
        waits = tenant, reason
        if (waits, at) not in self.returns:
            self.returns.add((waits, at))
            self.agenda.plan(at, partial(self._return, waits, at))

    def _return(self, waits: Waits, at: float) -> None:
        self.returns.discard((waits, at))
        self.returning.add(waits)

    def spend(self, run: Run, used: Mapping[str, Decimal], *, wasted: bool) -> None:
        """Book what a try has used, and tell of the shares of budgets that it reached.

        What was held and is spent now is free again in the next window.
        """
        self.crossed(self.purse.spend(run, used, self.now, wasted=wasted))
        tenant = run.job.tenant
        if not self.deferred.get(tenant):
            return
        for balance in self.purse.balances.get(tenant, ()):
            if balance.spent and balance.ends_at is not None:
                self.plan_return(tenant, Reason.BUDGET, balance.ends_at)

    # --- telling --------------------------------------------------------------------------

    def tell_place(
        self,
        run: Run,
        event: str,
        reason: Reason,
        facts: dict[str, Any],
        *,
        starts_now: bool = False,
    ) -> None:
        """Tell of a job that stands in the order its place and when it should be done."""
        state = self.world.states[run.pool]
        place, eta_s = self.foresight.told(run, state, self.now, starts_now=starts_now)
        more: dict[str, Any] = {}
        if place is not None:
            more["place"] = place
        if eta_s is not None:
            more["eta_s"] = round(eta_s, 3)
        self.log.job(event, run, reason, more | {"facts": facts})

    def crossed(self, marks: list[Crossed]) -> None:
        """Tell of the shares of budgets that were reached."""
        for one in marks:
            balance = one.balance
            facts = {
                "dimension": balance.dimension,
                "mark": one.mark,
                "limit": plain(balance.limit),
                "spent": plain(balance.spent),
                "window": balance.rule.window,
            }
            more = {"tenant": balance.tenant, "reason": Reason.BUDGET.value, "facts": facts}
            self.log.other("budget_crossed", more)


def _placed(placement: Placement) -> dict[str, Any]:
    spot = placement.spot
    return {
        "executor": placement.executor,
        "turn": spot.turn,
        "class": spot.class_name,
        "cost": spot.job.cost,
        "charge": spot.job.charge,
        "free_before": placement.free_before,
        "free_after": placement.free_after,
    }
