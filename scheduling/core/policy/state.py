"""The state of one pool that a cycle decides on: who waits, who is live, and what is free.

The governor keeps one such state per pool in memory and changes it as rows change; the ETA and the
simulator fast-forward an independent copy of it. Everything here can be rebuilt from the rows: the
waiting jobs, the live attempts, the settings and the order's memory.

A waiting job is in exactly one of two places: the order (where a hold or a full own limit may keep
it out of its line), or `never_fits`: the jobs whose cost is above what their class can ever have
as the dial stands. Those left their lines, so that they cannot stop the pool, and come back when
the dial or their cost changes.

Of what is live on an executor (`busy`) our workers run a part (`manned`); the rest, calls of
library users and reviews, takes slots and no workers, and so may have more of them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from scheduling.core.capacity.room import Room, Use, free_units, never_fits
from scheduling.core.order.order import Order
from scheduling.core.placement import candidates, only_rest
from scheduling.core.policy.limits import Limits
from scheduling.core.policy.seam import BUILT_IN, QueuePolicy, standing
from scheduling.core.policy.settings import Backfill, Policy, recharged
from scheduling.core.policy.unmanned import Unmanned, asks_of
from scheduling.core.policy.windows import rate_keys
from scheduling.core.types import (
    GLOBAL,
    KEY,
    REVIEWS,
    UNLIMITED,
    Executor,
    Job,
    Live,
    Placement,
    Pool,
    Reason,
    Spot,
)

HOLD = "hold"
"""Why an order keeps the jobs of a tenant out of their lines that an operator holds."""


class Choice(Struct, frozen=True, kw_only=True):
    """A spot that fits, the executor that takes it, and why it goes now."""

    spot: Spot
    executor: str
    reason: Reason = Reason.PLACED


class PoolState:
    """Waiting and live jobs, executors, limits and policy of one pool."""

    def __init__(
        self,
        *,
        pool: Pool,
        policy: Policy,
        order: Order,
        executors: Mapping[str, Executor],
        limits: Limits,
        queue: QueuePolicy = BUILT_IN,
    ) -> None:
        """Start with nothing live and what `order` holds; pools may share one `limits`."""
        self.queue = queue
        self.pool = pool
        self.policy = policy
        self.order = order
        self.limits = limits
        self.live: dict[str, Live] = {}
        self.never_fits: dict[str, Job] = {}
        self.use = Use()
        self.busy: dict[str, int] = {}
        self.manned: dict[str, int] = {}
        self._unmanned = Unmanned()
        self.on_model: dict[tuple[str, str], int] = {}
        self.opens_at = inf
        """When a rate window or retry budget opens that kept the last cycle from a placement (epoch seconds)."""
        self._reserve_classes = frozenset(rule.name for rule in policy.classes if rule.uses_reserve)
        self.set_executors(executors)
        limits.join(order)

    def uses_reserve(self, class_name: str) -> bool:
        """Tell whether jobs placed from that class may use the reserve."""
        return class_name in self._reserve_classes

    def free(self, class_name: str) -> int:
        """Return the units free now for a job of that class; negative when overdrawn."""
        return free_units(self.pool, self.use, uses_reserve=self.uses_reserve(class_name))

    def room(self, now: float) -> Room:
        """Return what a walk at `now` measures jobs against; placements count in it at once."""
        return Room(
            now=now,
            pool=self.pool,
            use=self.use,
            live=self.live,
            busy=self.busy,
            manned=self.manned,
            counts=self.limits.counts,
            caps=self.limits.caps,
            reserve_classes=self._reserve_classes,
            backfill=self.policy.backfill is Backfill.EASY,
            windows=self.limits.windows,
            by_provider=self.limits.by_provider,
            retries=self.limits.retries,
            probes=self._probes,
            on_model=self.on_model,
        )

    def candidates(self, job: Job) -> tuple[Executor, ...]:
        """Return the executors that may run `job`, busy or not."""
        asks = asks_of(job)
        found = self._candidates.get(asks)
        if found is None:
            executors = self.executors if job.by_worker else self._seated
            found = self._candidates[asks] = candidates(job, executors.values())
        return found

    def free_of(self, job: Job, eligible: Sequence[Executor]) -> list[Executor]:
        """Return those of the executors that may run `job` which can take it now."""
        return [one for one in eligible if self._takes(one, by_worker=job.by_worker)]

    def without_candidate(self, job: Job) -> Reason:
        """Tell why no executor may run a job: open circuits alone, or more than that."""
        asks = asks_of(job)
        found = self._placeless.get(asks)
        if found is None:
            rests = only_rest(job, self.executors.values())
            found = self._placeless[asks] = Reason.CIRCUIT_OPEN if rests else Reason.NO_EXECUTOR
        return found

    def stranded(self, models: Collection[str]) -> Iterator[Job]:
        """Yield the startable jobs of these models that open circuits alone keep from a start.

        Not those that their callers run: what model they call is theirs to say.
        """
        for job, _ in self.order.startable():
            if job.model in models and self.is_stranded(job):
                yield job

    def is_stranded(self, job: Job) -> bool:
        """Tell whether open circuits alone keep a job that our workers run from every executor."""
        if not job.by_worker or self.candidates(job):
            return False
        return self.without_candidate(job) is Reason.CIRCUIT_OPEN

    def has_free_slot(self, closed_providers: Collection[str] = ()) -> bool:
        """Tell whether any executor could take a job now, but those of closed providers.

        Where the pool may run no more, reviews still may lie before reviewers: no limit binds them.
        """
        full = self.limits.is_any_full((GLOBAL, ("pool", self.pool.id)))
        if not full and self._is_free(self.executors.values(), closed_providers, by_worker=True):
            return True
        return any(
            self._is_free(self.candidates(job), closed_providers, by_worker=False)
            for job in self._unmanned.of_each()
            if not full or job.limits == UNLIMITED
        )

    def has_reviewer(self) -> bool:
        """Tell whether a waiting review could start now; there may be far more reviews than
        reviewers, and all stand in front of the order."""
        reviews = (one for one in self._unmanned.of_each() if one.class_name == REVIEWS.name)
        return any(self._is_free(self.candidates(one), (), by_worker=False) for one in reviews)

    def _is_free(
        self, executors: Iterable[Executor], closed_providers: Collection[str], *, by_worker: bool
    ) -> bool:
        for one in executors:  # a loop: this is asked after every placement
            if not one.available or KEY in one.resting or one.provider in closed_providers:
                continue
            if self._takes(one, by_worker=by_worker):
                return True
        return False

    def _takes(self, executor: Executor, *, by_worker: bool) -> bool:
        if self.busy.get(executor.id, 0) >= executor.most:
            return False
        return not by_worker or self.manned.get(executor.id, 0) < executor.slots

    # --- waiting jobs ---------------------------------------------------------------------

    def load(self, jobs: Iterable[Job], now: float) -> None:
        """Put in the jobs that waited when the order's memory was saved: the start of a process.

        Holds, limits and live jobs come first, so that the lines are as they were (`Order.load`).
        """
        fitting = []
        for job in jobs:
            if self._never_fits(job):
                self.never_fits[job.id] = job
            else:
                fitting.append(job)
                self._unmanned.add(job)
        self.order.load(fitting, now)

    def wait(self, job: Job) -> None:
        """Let `job` wait for a placement: new, woken, or with new facts (it keeps its place).

        Raises ValueError for a job that is live: it must end first.
        """
        if job.id in self.live:
            message = f"Job {job.id} is live; let its attempt end before it waits again."
            raise ValueError(message)
        if self._never_fits(job):
            self.order.remove(job.id)
            self._unmanned.drop(job.id)
            self.never_fits[job.id] = job
            return
        self.never_fits.pop(job.id, None)
        self._unmanned.add(job)
        if job.id in self.order.jobs:
            self.order.replace(job)
        else:
            self.order.add(job)

    def leave(self, job_id: str) -> Job | None:
        """Take a job out that waits no more (canceled, paused, expired); None if it did not."""
        self._unmanned.drop(job_id)
        return self.never_fits.pop(job_id, None) or self.order.remove(job_id)

    # --- live jobs ------------------------------------------------------------------------

    def start(self, live: Live) -> None:
        """Count a job as live; told again of the same job, the newer value replaces the older."""
        if live.job_id in self.live:
            self.end(live.job_id)
        self.live[live.job_id] = live
        self.use.add(live.cost, uses_reserve=self.uses_reserve(live.class_name))
        self.busy[live.executor] = self.busy.get(live.executor, 0) + 1
        if live.by_worker:
            self.manned[live.executor] = self.manned.get(live.executor, 0) + 1
        on_model = live.executor, live.model
        self.on_model[on_model] = self.on_model.get(on_model, 0) + 1
        self.limits.take((*live.limits, *live.shared))

    def end(self, job_id: str) -> Live | None:
        """Free what a live job holds and return it; None if it was not live (a second report)."""
        live = self.live.pop(job_id, None)
        if live is not None:
            self.use.add(-live.cost, uses_reserve=self.uses_reserve(live.class_name))
            self.busy[live.executor] -= 1
            if live.by_worker:
                self.manned[live.executor] -= 1
            self.on_model[live.executor, live.model] -= 1
            self.limits.give((*live.limits, *live.shared))
        return live

    def place(self, choice: Choice, now: float) -> Placement:
        """Start the chosen job at `now`: its line is charged and all it needs taken in one step."""
        job, class_name = choice.spot.job, choice.spot.class_name
        free_before = self.free(class_name)
        lifts, workspace_lifts = self.order.place(choice.spot, now)
        self._unmanned.drop(job.id)
        executor = self.executors[choice.executor]
        self.start(_live(choice, executor, now))
        if job.limits != UNLIMITED:
            self.limits.spend(rate_keys(job.tenant, executor.provider), job.tokens, now)
        if job.retry:
            self.limits.retried(executor.provider, now)
        return Placement(
            spot=choice.spot,
            executor=choice.executor,
            reason=choice.reason,
            free_before=free_before,
            free_after=free_before - job.cost,
            lifts=lifts,
            workspace_lifts=workspace_lifts,
        )

    def undo(self, placement: Placement) -> None:
        """Take back a placement that the rows refused: nothing ran, so nothing stays charged.

        The job is not put back; a caller that finds it still waiting calls `wait`.
        """
        job = placement.spot.job
        live = self.end(job.id)
        if live is not None and live.limits != UNLIMITED:
            keys = (("tenant", job.tenant), *live.shared)
            self.limits.take_back(keys, job.tokens, live.started_at)
            budget = self.limits.retries.get(self.executors[placement.executor].provider)
            if job.retry and budget is not None:
                budget.take_back(live.started_at)
        self.order.correct(
            placement.spot.class_name,
            job.tenant,
            job.workspace,
            -job.charge,
            placement.lifts,
            placement.workspace_lifts,
        )

    # --- levers ---------------------------------------------------------------------------

    def set_pool(self, pool: Pool) -> None:
        """Turn the dial; jobs that can never fit any more leave their lines, others come back."""
        self.pool = pool
        outgrown = [job for job in self._ordered() if self._never_fits(job)]
        for job in [*self.never_fits.values(), *outgrown]:
            self.wait(job)

    def set_executors(self, executors: Mapping[str, Executor]) -> None:
        """Replace the executors; what runs on one that is gone runs on."""
        self.executors = dict(executors)
        self._seated = {key: replace(one, slots=one.most) for key, one in executors.items()}
        self._candidates: dict[tuple[object, ...], tuple[Executor, ...]] = {}
        self._placeless: dict[tuple[object, ...], Reason] = {}
        self._probes = any(one.probing for one in executors.values())
        self.limits.meet(one.provider for one in executors.values())

    def recost(self, tenant: str, workflow: str, cost: int, *, fixed: Collection[str] = ()) -> None:
        """Give the jobs of a tenant's workflow the capacity cost `cost`, but those in `fixed`.

        Waiting jobs are charged and measured by it; live ones hold it from now on, though what
        they were charged stays. Nothing that runs is stopped. `fixed` are the ids of jobs that
        have a cost of their own.
        """
        mine = (tenant, workflow)
        for job in [*self.never_fits.values(), *self._ordered()]:
            if (job.tenant, job.workflow) == mine and job.cost != cost and job.id not in fixed:
                recosted = replace(job, cost=cost, charge=recharged(self.policy, job, cost))
                self.wait(standing(self.queue, self.policy, recosted))
        for live in list(self.live.values()):
            if (live.tenant, live.workflow) == mine and live.job_id not in fixed:
                self.use.add(cost - live.cost, uses_reserve=self.uses_reserve(live.class_name))
                self.live[live.job_id] = replace(live, cost=cost)

    def hold(self, tenant: str) -> None:
        """Keep a tenant's jobs, also future ones, out of their lines; running ones run on."""
        self.order.block(("tenant", tenant), HOLD)

    def unhold(self, tenant: str) -> None:
        """Let a held tenant's jobs stand in their lines again."""
        self.order.unblock(("tenant", tenant), HOLD)

    def set_weight(self, tenant: str, weight: int) -> None:
        """Change a tenant's weight (>= 1; 0 is a hold). Raises ValueError below 1."""
        self.order.set_weight(tenant, weight)

    # --- copies ---------------------------------------------------------------------------

    def first(self, n: int, but: Collection[str] = ()) -> "PoolState":
        """Return an independent state with the first `n` jobs of the order and all that is live.

        The classes `but` are passed over. Of the jobs that a block keeps out of the lines, the `n` oldest come along.
        """
        copy = PoolState(
            pool=self.pool,
            policy=self.policy,
            order=self.order.first(n, but),
            executors=self.executors,
            limits=self.limits.copy(),
            queue=self.queue,
        )
        copy.live = dict(self.live)
        copy.use = replace(self.use)
        copy.busy = dict(self.busy)
        copy.manned = dict(self.manned)
        copy._unmanned = self._unmanned.within(copy.order)
        copy.on_model = dict(self.on_model)
        return copy

    # --- inside ---------------------------------------------------------------------------

    def _never_fits(self, job: Job) -> bool:
        return never_fits(job.cost, self.pool, uses_reserve=self.uses_reserve(job.class_name))

    def _ordered(self) -> list[Job]:
        """Every job of the order, in its lines or kept out of them."""
        return [*(job for job, _ in self.order.startable()), *self.order.blocked_jobs()]


def _live(choice: Choice, executor: Executor, now: float) -> Live:
    job, provider = choice.spot.job, executor.provider
    return Live(
        job_id=job.id,
        tenant=job.tenant,
        workspace=job.workspace,
        cost=job.cost,
        class_name=choice.spot.class_name,
        executor=choice.executor,
        started_at=now,
        expected_s=job.expected_s,
        limits=job.limits,
        shared=(*job.shared, ("provider", provider)) if provider else job.shared,
        workflow=job.workflow,
        by_worker=job.by_worker,
        model=executor.model_of(job.model),
    )
