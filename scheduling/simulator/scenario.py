"""A scenario: what a simulated run is given, as plain frozen values.

Times are seconds from the run's beginning, durations seconds, money USD. `reading` makes a
`Scenario` from a file, `engine` plays it. Jobs and arrivals of a trace come as a stream in the
order of their arrival (`Scenario.arrivals`), so a million of them need not stand in memory twice.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from scheduling.core.policy.settings import Policy
from scheduling.core.types import Executor, Pool


class Do(StrEnum):
    """A lever or fault that happens at a time."""

    TENANT_HOLD = "tenant_hold"
    TENANT_UNHOLD = "tenant_unhold"
    TENANT_WEIGHT = "tenant_weight"
    POOL_BUDGET = "pool_budget"
    EXECUTOR_DOWN = "executor_down"
    EXECUTOR_UP = "executor_up"
    RATE_LIMITED = "rate_limited"
    JOB_CANCEL = "job_cancel"
    JOB_PAUSE = "job_pause"
    JOB_RESUME = "job_resume"
    JOB_PRIORITISE = "job_prioritise"
    WORKFLOW_COST = "workflow_cost"
    WORKER_LOST = "worker_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One lever or fault: what is done at `at` to the named thing.

    `value` is the weight, budget, cost, the class of a prioritised job ("" for the lane of class
    expedite) or the seconds of a Retry-After.
    """

    at: float
    do: Do
    tenant: str = ""
    pool: str = ""
    executor: str = ""
    job: str = ""
    workflow: str = ""
    value: float | int | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRule:
    """A tenant's budget: at most `limit` of a dimension in each window (none, hour, day ...)."""

    dimension: str
    limit: Decimal
    window: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant: weight 0 is a hold; None: no cap."""

    name: str
    weight: int = 1
    max_running: int | None = None
    backlog_cap: int | None = None
    budgets: tuple[BudgetRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRule:
    """Cost and expected seconds of the jobs of a (tenant, workflow) pair that name none."""

    tenant: str
    name: str
    cost: int | None = None
    expected_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """An executor of the scenario with the pool that it works for and its rate windows."""

    executor: Executor
    pool: str
    requests_per_min: int | None = None
    tokens_per_min: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """USD per million tokens."""

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    cached: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What work costs: models, USD per cost unit and second, USD per hour of review."""

    models: Mapping[str, ModelPrice] = field(default_factory=dict)
    unit_second: Decimal = Decimal(0)
    review_hour: Decimal = Decimal(0)


class SimJob(Struct, frozen=True, kw_only=True, gc=False):
    """A job of a scenario. `duration` is what it will take (seconds), known to nobody before.

    `cost` and `expected_s` None: the workflow's, else 1 and the policy's default. `steps` of equal
    length hold a slot one at a time. `after` are the ids of jobs that must be done before. With
    `review_s` above 0 its work is reviewed for so long by a human executor once it is done.
    `fails` is how many of its tries fail before one succeeds. `checkpoints` lets a running try
    yield at a boundary without losing what it has done.
    """

    id: str
    tenant: str
    at: float = 0.0
    workflow: str = ""
    workspace: str = "main"
    class_name: str = ""
    cost: int | None = None
    duration: float = 60.0
    expected_s: float | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    model: str = ""
    region: str = ""
    labels: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    deadline: float | None = None
    max_attempts: int | None = None
    fails: int = 0
    steps: int = 1
    checkpoints: bool = False
    idempotent: bool = True
    review_s: float = 0.0
    pool: str = ""
    """Where it runs; "" is the scenario's first pool."""
    user: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that a run is given. `until` is inclusive; None: until everything has ended.

    `arrivals` gives the jobs anew each time that it is called, by (at, number in the file);
    `job_count` is how many.
    """

    name: str = "scenario"
    until: float | None = None
    seed: int = 0
    policy: Policy = field(default_factory=Policy)
    pools: tuple[Pool, ...] = ()
    stations: tuple[Station, ...] = ()
    prices: Prices = field(default_factory=Prices)
    tenants: tuple[Tenant, ...] = ()
    workflows: tuple[WorkflowRule, ...] = ()
    levers: tuple[Lever, ...] = ()
    """By (at, number in the file)."""
    arrivals: Callable[[], Iterator[SimJob]] = field(default=lambda: iter(()))
    job_count: int = 0
    compare: str = ""
    """"naive": the report draws the naive rules beside the run; "": it does not."""
    trace: Path | None = None
    """The trace that arrivals are read from, if any."""
    notes: tuple[str, ...] = ()
    """What the reader left out of a trace or put in order, a sentence each."""
