"""The pools of a run with their executors, limits and tenants: what the core decides on.

It is fed as the governor feeds it in production: own limits are those of tenant, workspace, workflow
and user, shared ones those of all jobs, of the pool and of concurrency keys, where a cap is set; the
class of reviews stands before the policy's own; an executor's circuits say which models rest or are
probed there. An executor without a provider is its own. Reviewers do reviews and nothing else.

Health. An executor that is down is given nothing; what runs there runs on.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf

from msgspec import structs

from scheduling.core.breaker import Breaker, Circuit, Signal, after
from scheduling.core.capacity.room import ceiling
from scheduling.core.order.order import Order
from scheduling.core.placement import candidates
from scheduling.core.policy.limits import KEY_CAP, Limits
from scheduling.core.policy.settings import Policy, charge_of, with_reviews
from scheduling.core.policy.state import PoolState
from scheduling.core.policy.unmanned import Asks, asks_of
from scheduling.core.policy.windows import Rate
from scheduling.core.types import (
    GLOBAL,
    REVIEWS,
    UNLIMITED,
    Executor,
    Job,
    LimitKey,
    Pool,
)
from scheduling.simulator.dialect import NO_CAP
from scheduling.simulator.runs import Run
from scheduling.simulator.scenario import Scenario, SimJob, Station, Tenant, WorkflowRule

HUMAN = "human"
WORK = "work"
"""The kind of a job that names none: any executor but a reviewer runs it."""
REVIEW_S = 900.0
"""How long a review is expected to take before one was done."""


@dataclass(frozen=True, slots=True)
class Which:
    """A circuit: an executor, and a model or `KEY`."""

    executor: str
    model: str


class World:
    """The state of every pool, and what jobs are made of."""

    def __init__(self, scenario: Scenario) -> None:
        """Build the pools of a scenario, empty; tenants of weight 0 are held."""
        self.policy = with_reviews(scenario.policy)
        self.rules = {rule.name: rule for rule in self.policy.classes}
        self.quotas = {rule.name for rule in self.policy.classes if rule.quota is not None}
        self.has_backlog_caps = _has_backlog_caps(scenario)
        self._default = self.policy.default_class
        self.tenants: dict[str, Tenant] = {one.name: one for one in scenario.tenants}
        self.weights = {one.name: max(1, one.weight) for one in scenario.tenants}
        self.held = {one.name for one in scenario.tenants if one.weight < 1}
        self.workflows = {(one.tenant, one.name): one for one in scenario.workflows}
        self.first_pool = scenario.pools[0].id if scenario.pools else ""
        self.home: dict[str, str] = {one.executor.id: one.pool for one in scenario.stations}
        self.executors = {one.executor.id: _executor(one) for one in scenario.stations}
        self.circuits: dict[Which, Breaker] = {}
        self.down: set[str] = set()
        self._capped = _capped(scenario)
        self.limits = _limits(scenario, self.policy)
        self.states: dict[str, PoolState] = {}
        for pool in scenario.pools:
            self.states[pool.id] = self._open(pool)
        self._able: dict[tuple[str, Asks], bool] = {}
        self.is_linked = bool(self.limits.caps or self.limits.windows or self._capped)
        """Whether what ends in one pool may let something start in another."""
        self.is_capped = bool(self._capped or self.limits.caps)
        """Whether jobs may be kept out of the order by limits of their own."""

    def _open(self, pool: Pool) -> PoolState:
        policy = self.policy
        state = PoolState(
            pool=pool,
            policy=policy,
            order=Order(
                classes=policy.classes,
                weights=self.weights,
                age_after=policy.age_after,
                age_limit=policy.age_limit,
                deadlines=policy.deadlines,
            ),
            executors=self.of_pool(pool.id),
            limits=self.limits,
        )
        for tenant in sorted(self.held):
            state.hold(tenant)
        return state

    # --- executors ------------------------------------------------------------------------

    def of_pool(self, pool: str) -> dict[str, Executor]:
        """Return the pool's executors as their health and circuits stand."""
        mine = (name for name, home in self.home.items() if home == pool)
        return {name: self._as_is(name) for name in sorted(mine)}

    def _as_is(self, name: str) -> Executor:
        rests = self._models(name, Circuit.OPEN)
        probes = self._models(name, Circuit.HALF_OPEN)
        one = self.executors[name]
        if not rests and not probes and name not in self.down:
            return one
        return structs.replace(one, resting=rests, probing=probes, available=name not in self.down)

    def _models(self, name: str, state: Circuit) -> frozenset[str]:
        here = ((which, one) for which, one in self.circuits.items() if which.executor == name)
        return frozenset(which.model for which, one in here if one.state is state)

    def refresh(self, executor: str) -> str:
        """Let the pool of an executor know its health and circuits; return the pool."""
        pool = self.home[executor]
        self.states[pool].set_executors(self.of_pool(pool))
        return pool

    def signal(self, which: Which, signal: Signal, now: float, rest_s: float | None) -> Breaker:
        """Move a circuit; return what it was before."""
        before = self.circuits.get(which, Breaker())
        moved = after(before, signal, now=now, settings=self.policy.breaker, retry_after_s=rest_s)
        self.circuits[which] = moved
        return before

    def able(self, job: Job, pool: str) -> tuple[Executor, ...]:
        """Return the executors that may run a job, whatever their health and circuits."""
        mine = (self.executors[name] for name, home in self.home.items() if home == pool)
        return candidates(job, mine)

    def is_able(self, job: Job, pool: str) -> bool:
        """Tell whether any executor may run a job, whatever its health and circuits."""
        key = pool, asks_of(job)
        found = self._able.get(key)
        if found is None:
            found = self._able[key] = bool(self.able(job, pool))
        return found

    def rests_until(self, executor: Executor, model: str) -> float:
        """Return until when open circuits keep a model away from an executor; minus infinity: they
        do not."""
        ends = (
            self.circuits[which].open_until
            for which in (Which(executor.id, ""), Which(executor.id, executor.model_of(model)))
            if which in self.circuits and self.circuits[which].state is Circuit.OPEN
        )
        return max(ends, default=-inf)

    def lets_through(self, executor: Executor, model: str) -> bool:
        """Tell whether an executor may be given the model now."""
        return executor.id not in self.down and self.rests_until(executor, model) == -inf

    def open_pools(self) -> set[str]:
        """Return the pools of the executors of which a circuit is open."""
        circuits = self.circuits.items()
        return {self.home[which.executor] for which, one in circuits if one.state is Circuit.OPEN}

    # --- jobs -----------------------------------------------------------------------------

    def entered(self, job: SimJob, seq: int) -> Run:
        """Return a job that has just arrived."""
        rule = self.workflows.get((job.tenant, job.workflow))
        pool = job.pool or self.first_pool
        cost = job.cost or (rule.cost if rule else None) or 1
        expected = self._expected(job, rule) / job.steps
        core = Job(
            id=job.id,
            seq=seq,
            tenant=job.tenant,
            workspace=_joined(job.tenant, job.workspace),
            submitted_at=job.at,
            class_name=job.class_name if job.class_name in self.rules else self._default,
            cost=cost,
            charge=self.charge(job, cost, expected),
            expected_s=expected,
            deadline=job.deadline,
            limits=self._own_limits(job),
            shared=self._shared_limits(job, pool),
            kind=job.kind or WORK,
            model=job.model,
            region=job.region,
            labels=job.labels,
            workflow=_joined(job.tenant, job.workflow),
            tokens=(job.tokens_in + job.tokens_out) // job.steps,
        )
        paced = structs.replace(core, workflow=f"{core.workflow}/{job.user}") if job.user else core
        return Run(job=job, seq=seq, pool=pool, core=core, paced=paced, own_cost=bool(job.cost))

    def _expected(self, job: SimJob, rule: WorkflowRule | None) -> float:
        if job.expected_s is not None:
            return job.expected_s
        if rule is not None and rule.expected_s is not None:
            return rule.expected_s
        return self.policy.default_expected_s

    def charge(self, job: SimJob, cost: int, seconds: float) -> int:
        """Return what one placement of a job takes of its tenant's turn, if it takes so long."""
        return charge_of(
            self.policy,
            cost=cost,
            expected_s=seconds,
            input_tokens=-(-job.tokens_in // job.steps),
            output_tokens=-(-job.tokens_out // job.steps),
        )

    def _own_limits(self, job: SimJob) -> tuple[LimitKey, ...]:
        if not self._capped:
            return ()
        return tuple(key for key in _own_keys(job) if key[0] in self._capped)

    def _shared_limits(self, job: SimJob, pool: str) -> tuple[LimitKey, ...]:
        if not job.keys:
            return ()
        return GLOBAL, ("pool", pool), *(("key", key) for key in dict.fromkeys(job.keys))

    def review(self, run: Run) -> Job:
        """Return the review of a job: it needs a reviewer, and no units."""
        return structs.replace(
            run.core,
            class_name=REVIEWS.name,
            cost=0,
            charge=1,
            expected_s=REVIEW_S,
            deadline=None,
            limits=UNLIMITED,
            shared=(),
            kind=REVIEWS.name,
            model="",
            region="",
            labels=frozenset(),
            tokens=0,
            by_worker=False,
            retry=False,
        )

    def recost(self, tenant: str, workflow: str, cost: int) -> None:
        """Give the jobs of a workflow that come from now on another cost."""
        known = self.workflows.get((tenant, workflow))
        named = known or WorkflowRule(tenant=tenant, name=workflow)
        self.workflows[tenant, workflow] = replace(named, cost=cost)

    def most(self, run: Run) -> int:
        """Return the largest cost that a job's class can ever have in its pool."""
        state = self.states[run.pool]
        return ceiling(state.pool, uses_reserve=state.uses_reserve(run.core.class_name))

    def provider(self, executor: str) -> str:
        """Return whose retry budget and rates an executor's work counts in."""
        return self.executors[executor].provider


def _executor(station: Station) -> Executor:
    one = station.executor
    if HUMAN in one.kinds:
        return structs.replace(one, kinds=frozenset({REVIEWS.name}), slots=0, seats=one.most)
    return structs.replace(one, kinds=one.kinds | {WORK}, provider=one.provider or one.id)


def _has_backlog_caps(scenario: Scenario) -> bool:
    caps = scenario.policy.backlog
    every = (
        caps.workspace,
        caps.tenant,
        caps.total,
        *(one.backlog_cap for one in scenario.tenants),
    )
    return any(cap is not None and cap < NO_CAP for cap in every)


def _capped(scenario: Scenario) -> frozenset[str]:
    """Return the scopes of which some may run no more than so many jobs."""
    scopes = set(scenario.policy.default_caps.by_scope())
    if any(one.max_running is not None for one in scenario.tenants):
        scopes.add("tenant")
    return frozenset(scopes)


def _limits(scenario: Scenario, policy: Policy) -> Limits:
    caps = {
        ("tenant", one.name): one.max_running
        for one in scenario.tenants
        if one.max_running is not None
    }
    limits = Limits(caps, defaults={**KEY_CAP, **policy.default_caps.by_scope()})
    limits.set_rates(dict(_rates(scenario.stations)))
    limits.set_retries(policy.retry)
    return limits


def _rates(stations: Iterable[Station]) -> Iterator[tuple[LimitKey, Rate]]:
    """Yield the rates by provider; executors of one provider add theirs up."""
    sums: dict[str, Rate] = {}
    for one in stations:
        rate = Rate(requests=one.requests_per_min, tokens=one.tokens_per_min)
        if rate == Rate():
            continue
        provider = one.executor.provider or one.executor.id
        known = sums.get(provider)
        sums[provider] = rate if known is None else _sum(known, rate)
    return iter([(("provider", provider), rate) for provider, rate in sums.items()])


def _sum(one: Rate, other: Rate) -> Rate:
    return one.plus(requests=other.requests or 0, tokens=other.tokens or 0)


@lru_cache(maxsize=65_536)
def _joined(tenant: str, name: str) -> str:
    """Return the id of a tenant's workspace or workflow: names are not unique among tenants."""
    return f"{tenant}/{name}"


def _own_keys(job: SimJob) -> Iterator[LimitKey]:
    yield "tenant", job.tenant
    yield "workspace", _joined(job.tenant, job.workspace)
    yield "workflow", _joined(job.tenant, job.workflow)
    if job.user:
        yield "user", job.user
