"""The settings that a governor schedules by, read as one picture and compared with the last."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf

from django.db import connection
from msgspec import structs

from scheduling.core import types
from scheduling.core.policy.raises import (
    Raise,
    caps_raised,
    changes_at,
    in_force,
    rates_raised,
)
from scheduling.core.policy.settings import Policy, with_reviews
from scheduling.core.policy.windows import Rate
from scheduling.core.types import LimitKey
from scheduling.models import Circuit, Executor, Limit, Pool, Workflow
from scheduling.models.limit import REQUESTS, RUNNING, TOKENS
from scheduling.selectors.circuits import CLOSED, Circuits, circuit_word, circuits_open
from scheduling.selectors.policy import (
    active_policy,
    caps_by_default,
    core_executor,
    core_pool,
)
from scheduling.selectors.raises import core_raise, raises_open
from tenants.controls import control_number
from tenants.models import Tenant, Workspace

WORKER_SEEN_S = 5
LIST_S = 0.25
"""The most expected work, in seconds, that one message carries, unless it is a single attempt."""
LIST_MOST = 64
LISTS = 2
"""Lists of short work that a thread may have: one that it works on, and one that lies ready."""
PLENTY = 4
"""With so many attempts before each thread of a kind, a few milliseconds more starve nobody."""

_THREADS = """
SELECT q.name, sum(w.threads) FROM scheduling_worker w,
    jsonb_array_elements_text(w.queues) AS q(name)
WHERE w.seen_at > clock_timestamp() - make_interval(secs => %s) GROUP BY q.name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFacts:
    """What the order and the boards need of a tenant."""

    slug: str
    name: str
    weight: int
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceFacts:
    """What ordering and display need of a workspace; `path` is "tenant/workspace" by slug."""

    path: str
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFacts:
    """What ordering and display need of a workflow."""

    tenant: str
    slug: str
    cost: int
    expected_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorFacts:
    """What dispatch and display need of an executor; `slots` are the configured ones."""

    slug: str
    kind: str
    slots: int
    health: str
    circuit: str
    enabled: bool
    draining: bool
    provider: str = ""
    drain_stops: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings at one control number, keyed by id as text; `threads` live ones by kind.

    `caps` are the running limits and `rates` those a minute, by the keys that jobs count under, with
    the escalations in force (`raised`, of all in `raises`) on top of `base_caps` and `base_rates`;
    at `changes_at` (epoch seconds) others are.
    """

    control: int
    policy: Policy
    pools: dict[str, types.Pool]
    pool_slugs: dict[str, str]
    executors: dict[str, dict[str, types.Executor]]
    executor_rows: dict[str, ExecutorFacts]
    tenants: dict[str, TenantFacts]
    workspaces: dict[str, WorkspaceFacts]
    workflows: dict[str, WorkflowFacts]
    threads: dict[str, int] = field(default_factory=dict)
    caps: dict[LimitKey, int] = field(default_factory=dict)
    rates: dict[LimitKey, Rate] = field(default_factory=dict)
    base_caps: dict[LimitKey, int] = field(default_factory=dict)
    base_rates: dict[LimitKey, Rate] = field(default_factory=dict)
    raises: tuple[Raise, ...] = ()
    raised: tuple[Raise, ...] = ()
    changes_at: float = inf

    @property
    def is_troubled(self) -> bool:
        """Whether any circuit is not closed."""
        return any(one.circuit != CLOSED for one in self.executor_rows.values())

    def executor(self, executor_id: str) -> types.Executor | None:
        """Return an executor of any pool, None where there is none of that id."""
        found = (pool.get(executor_id) for pool in self.executors.values())
        return next((one for one in found if one is not None), None)


def config_load(
    run_s: Mapping[str, float] = {},
    before: Config | None = None,
    now: float | None = None,
    policy: Policy | None = None,
) -> Config:
    """Read all settings; the control number first, so that a later change is seen again.

    `run_s` are the mean run times by executor, as far as they were measured. With `before`, what
    only levers change is read anew only if a lever was moved since. `now` is the time whose
    escalations are in force (epoch seconds; None: the present). `policy` stands in place of the
    one in force.
    """
    now = time.time() if now is None else now
    control = control_number()
    rows = list(Executor.objects.order_by("slug"))
    threads, circuits = _threads(), circuits_open()
    if before is None or before.control != control:
        before = _levers(control, now, active_policy() if policy is None else policy)
    config = _raised(before, now)
    return replace(
        config,
        executors=_executors(rows, threads, run_s, config.caps, circuits),
        executor_rows={str(row.id): _executor(row, circuits.get(row.id, ())) for row in rows},
        threads=threads,
    )


def _levers(control: int, now: float, policy: Policy) -> Config:
    """Return what only levers change, with no executors and with nothing raised yet."""
    tenants = list(Tenant.objects.all())
    workspaces = list(Workspace.objects.select_related("tenant"))
    workflows = list(Workflow.objects.all())
    limits = list(Limit.objects.all())
    policy, raises = with_reviews(policy), _raises(now)
    caps = _caps(tenants, workspaces, workflows) | _running(limits)
    return Config(
        control=control,
        policy=policy,
        pools={str(pool.id): core_pool(pool) for pool in Pool.objects.all()},
        pool_slugs={str(pool.id): pool.slug for pool in Pool.objects.all()},
        executors={},
        executor_rows={},
        tenants={str(one.id): _tenant(one) for one in tenants},
        workspaces={str(one.id): _workspace(one) for one in workspaces},
        workflows={str(one.id): _workflow(one) for one in workflows},
        base_caps=_defaults(policy, raises) | caps,
        base_rates=_rates(limits),
        raises=raises,
    )


def _raised(config: Config, now: float) -> Config:
    """Return the settings with the escalations on top that are in force."""
    raised = in_force(config.raises, now)
    return replace(
        config,
        caps=caps_raised(config.base_caps, raised),
        rates=rates_raised(config.base_rates, raised),
        raised=raised,
        changes_at=changes_at(config.raises, now),
    )


def _tenant(row: Tenant) -> TenantFacts:
    return TenantFacts(slug=row.slug, name=row.name, weight=row.weight, held=row.held)


def _executor(row: Executor, circuits: Sequence[Circuit]) -> ExecutorFacts:
    return ExecutorFacts(
        slug=row.slug,
        kind=row.kind,
        slots=row.slots,
        health=row.health,
        circuit=circuit_word(row, circuits).state,
        enabled=row.enabled,
        draining=row.draining,
        provider=row.provider,
        drain_stops=row.draining and row.drain_stops,
    )


def _workspace(row: Workspace) -> WorkspaceFacts:
    return WorkspaceFacts(path=f"{row.tenant.slug}/{row.slug}", weight=row.weight)


def _workflow(row: Workflow) -> WorkflowFacts:
    return WorkflowFacts(
        tenant=str(row.tenant_id), slug=row.slug, cost=row.cost, expected_s=row.expected_s
    )


def _caps(
    tenants: list[Tenant], workspaces: list[Workspace], workflows: list[Workflow]
) -> dict[LimitKey, int]:
    caps: dict[LimitKey, int] = {}
    for scope, rows in (("tenant", tenants), ("workspace", workspaces), ("workflow", workflows)):
        caps |= {(scope, str(row.id)): row.max_running for row in rows if row.max_running}
    return caps


def _raises(now: float) -> tuple[Raise, ...]:
    rows = raises_open(datetime.fromtimestamp(now, tz=UTC))
    return tuple(core_raise(row) for row in rows)


def _defaults(policy: Policy, raises: tuple[Raise, ...]) -> dict[LimitKey, int]:
    """Return the policy's caps of the keys that are raised, each a base unless it has its own."""
    defaults = caps_by_default(policy)
    return {
        one.key: defaults[one.key[0]] for one in raises if one.running and one.key[0] in defaults
    }


def _running(limits: list[Limit]) -> dict[LimitKey, int]:
    return {(row.scope, row.scope_id): row.value for row in limits if row.measure == RUNNING}


def _rates(limits: list[Limit]) -> dict[LimitKey, Rate]:
    values = {((row.scope, row.scope_id), row.measure): row.value for row in limits}
    return {
        key: Rate(requests=values.get((key, REQUESTS)), tokens=values.get((key, TOKENS)))
        for key, measure in values
        if measure != RUNNING
    }


def _executors(
    rows: list[Executor],
    threads: Mapping[str, int],
    run_s: Mapping[str, float],
    caps: Mapping[LimitKey, int],
    circuits: Circuits,
) -> dict[str, dict[str, types.Executor]]:
    """Return each pool's executors with the slots that live worker threads and caps let serve.

    Work that needs no worker of ours has all that is configured, within the caps (`seats`).
    Short work is dispatched ahead, up to `LISTS` lists a thread: a thread that waited for the
    governor after each of many short runs, or after each list of them, would mostly wait.
    """
    pools: dict[str, dict[str, types.Executor]] = defaultdict(dict)
    for row in rows:
        seats = min(row.slots, caps.get(("executor", str(row.id)), row.slots))
        slots = min(seats, threads.get(row.kind, 0) * ahead(run_s.get(str(row.id))))
        core = core_executor(
            row,
            slots=slots,
            available=is_available(row),
            circuits=circuits.get(row.id, ()),
        )
        pools[str(row.pool_id)][str(row.id)] = structs.replace(core, seats=seats)
    return dict(pools)


def ahead(run_s: float | None) -> int:
    """Return how many attempts a thread may have: as many as its lists carry, or one."""
    if run_s is None:
        return 1
    return max(1, min(LISTS * LIST_MOST, int(LISTS * LIST_S / max(run_s, 0.001))))


def is_available(row: Executor) -> bool:
    """Tell whether an executor may be given work, its circuits aside: on, not draining, not down."""
    return row.enabled and not row.draining and row.health != "down"


def _threads() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(_THREADS, [WORKER_SEEN_S])
        return {str(name): int(count) for name, count in cursor.fetchall()}
