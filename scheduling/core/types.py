"""The values that the core decides on: plain, frozen, without a database behind them.

Times are float epoch seconds (UTC); durations are float seconds; costs and charges are whole
units. Ids are opaque strings except a job's `seq`, its arrival number, which ends every ordering:
two jobs never share one.

What is made for each job or decision is a `msgspec.Struct`, here and in the other modules: made five
to ten times as fast as a frozen dataclass, copied (`msgspec.structs.replace`) seventy times as fast.
Those that there are very many of hold nothing that leads back to them, and so are spared by the
collector (`gc=False`).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

LimitKey: TypeAlias = tuple[str, str]
"""A counted scope: ("tenant", id), ("workspace", id), ("workflow", id), ("user", id) ..."""

GLOBAL: LimitKey = ("global", "all")
"""Every job counts under it."""
KEY = ""
"""The model that the circuit of an executor's key is kept under: it stands for all of them."""

UNLIMITED: tuple[LimitKey, ...] = (("none", "none"),)
"""The limits of a job that counts under none: its tenant's and workspace's do not bind it either."""


class Verdict(StrEnum):
    """What admission says."""

    ADMITTED = "admitted"
    QUEUED = "queued"
    DEFERRED = "deferred"
    DENIED = "denied"


class Reason(StrEnum):
    """Why a job was let in, stands where it stands, or ended: one list for all surfaces."""

    STARTS_NOW = "starts_now"
    IN_ORDER = "in_order"
    HEAD_WAITS_FOR_UNITS = "head_waits_for_units"
    BEHIND_HEAD = "behind_head"
    TENANT_HELD = "tenant_held"
    JOB_PAUSED = "job_paused"
    OWN_LIMIT = "own_limit"
    SHARED_LIMIT = "shared_limit"
    RATE_WINDOW = "rate_window"
    CLASS_QUOTA = "class_quota"
    NO_EXECUTOR = "no_executor"
    EXECUTOR_BUSY = "executor_busy"
    NEVER_FITS = "never_fits"
    NOT_BEFORE = "not_before"
    DEPENDENCY = "dependency"
    WAITING_ON_CHILD = "waiting_on_child"
    STEP_DONE = "step_done"
    RETRY_WAIT = "retry_wait"
    RETRY_BUDGET = "retry_budget"
    FALLBACK = "fallback"
    FELL_BACK = "fell_back"
    CIRCUIT_OPEN = "circuit_open"
    BUDGET = "budget"
    UNPRICED_MODEL = "unpriced_model"
    BACKLOG_FULL = "backlog_full"
    SHED = "shed"
    HARD_CEILING = "hard_ceiling"
    NOT_PERMITTED = "not_permitted"
    PLACED = "placed"
    BACKFILLED = "backfilled"
    WORKER_LOST = "worker_lost"
    CALLER_LOST = "caller_lost"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    EXECUTION_ERROR = "execution_error"
    DEADLINE = "deadline"
    EXPIRED = "expired"
    CANCELED = "canceled"
    FINISHED = "finished"
    REVIEW = "review"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    REQUEUED = "requeued"
    PREEMPTED = "preempted"


MemoryKey: TypeAlias = tuple[str, str | None, str | None]
"""(class, tenant, workspace): (c, None, None) is the class itself, (c, t, None) the tenant's line,
(c, t, w) the line of a workspace inside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRule:
    """One entry of the policy's ordered class table."""

    name: str
    fifo: bool = False
    uses_reserve: bool = False
    sheddable: bool = False
    ages_to: str | None = None
    """A higher, fair class that waiting jobs of this class may climb to; None: they do not age."""
    asked_by: str = "submitter"
    """The least role that may ask for this class: submitter, tenant_admin or operator."""
    quota: int | None = None
    """The most jobs of this class that a workspace may have waiting or live; None: no quota."""


REVIEWS = ClassRule(name="review", uses_reserve=True)
"""The class in which reviews stand, whatever class their work is of: in front of all others.

A review needs a reviewer and no units, counts under no limit and in no rate, and goes on while its
tenant is held, so it takes nothing from what stands behind it and waits for nothing but a reviewer;
tenants share the reviewers by turns of their own.
"""


class Memory(Struct, frozen=True, kw_only=True):
    """The durable service memory of one line (DESIGN 4.1).

    `turn` and `used` say how far the line has been served: `used` is the charge taken of the
    present turn, 0 <= used < weight. `lifts` counts the times that the line was lifted, so that a
    late negative correction can be told from a fair one. `top` is the highest turn of any job
    placed from the lines below this one (what a newly backlogged child is lifted to).
    `last_placed_at` is when a job of this class was last placed (for aging), or None.
    `backlogged` says that the line had startable jobs when this was written: after a restart it
    is then not lifted a second time. False is always safe.
    """

    turn: int = 0
    used: int = 0
    lifts: int = 0
    top: int = 0
    last_placed_at: float | None = None
    backlogged: bool = False


class Job(Struct, frozen=True, kw_only=True, gc=False):
    """A job as the core sees it. Only what ordering, capacity, placement and ETA need.

    `charge` is what a placement takes of the tenant's turn (the policy's share_by, >= 1);
    `cost` the capacity units it occupies (>= 1; 0 for a review); `expected_s` the estimated run time;
    `retry` says that its last try failed, so that this one counts in its provider's retry budget;
    `places` are the ids of the executors that it is funded or qualified for (empty: all are);
    `limits` the own-limit keys that it counts under; `shared` the keys of limits that it shares
    with other tenants (`GLOBAL`, its pool, concurrency keys), to which its provider comes once an
    executor is chosen; `tokens` what it should use of a rate window; `class_name` its own class.
    """

    id: str
    seq: int
    tenant: str
    workspace: str
    submitted_at: float
    class_name: str
    cost: int = 1
    charge: int = 1
    expected_s: float = 60.0
    deadline: float | None = None
    limits: tuple[LimitKey, ...] = ()
    shared: tuple[LimitKey, ...] = ()
    kind: str = ""
    model: str = ""
    region: str = ""
    labels: frozenset[str] = frozenset()
    workflow: str = ""
    tools: frozenset[str] = frozenset()
    data_class: str = ""
    compute_class: str = ""
    tokens: int = 0
    by_worker: bool = True
    """One of our workers runs it; else its caller or a person does, and it needs a slot alone."""
    retry: bool = False
    places: frozenset[str] = frozenset()


class Spot(Struct, frozen=True, kw_only=True, gc=False):
    """A job's place in the order: the class it stands in now (aging may have lifted it) and turns.

    `turn` is the tenant's turn in which it is served and `workspace_turn` the turn inside the
    tenant's line; both None in a fifo class, which goes by age alone.
    """

    job: Job
    class_name: str
    turn: int | None
    workspace_turn: int | None


class Live(Struct, frozen=True, kw_only=True, gc=False):
    """A job that holds capacity now (its attempt is dispatched, running or stopping).

    `model` is what it runs, "" where neither it nor its executor names one.
    """

    job_id: str
    tenant: str
    workspace: str
    cost: int
    class_name: str
    executor: str
    started_at: float
    expected_s: float
    limits: tuple[LimitKey, ...] = ()
    shared: tuple[LimitKey, ...] = ()
    workflow: str = ""
    by_worker: bool = True
    model: str = ""


class Executor(Struct, frozen=True, kw_only=True):
    """A place where work can run. `tenant` and `workspace` None: open to everybody.

    `slots` is how many jobs our workers can run here at once, `seats` how many may run here in all,
    with those that need no worker of ours (None: no more than `slots`).
    `default_model` is what a job that names no model runs. `resting` are the models whose circuit
    is open here and `probing` those whose circuit is half-open, so that one live job is let through;
    `KEY` among them stands for the executor's key, and so for all that it offers.
    """

    id: str
    kinds: frozenset[str]
    slots: int
    models: frozenset[str] = frozenset()
    region: str = ""
    labels: frozenset[str] = frozenset()
    weight: int = 1
    tenant: str | None = None
    workspace: str | None = None
    tools: frozenset[str] = frozenset()
    data_classes: frozenset[str] = frozenset()
    compute_class: str = ""
    provider: str = ""
    default_model: str = ""
    resting: frozenset[str] = frozenset()
    probing: frozenset[str] = frozenset()
    available: bool = True
    """Enabled, not draining, health ok or degraded."""
    seats: int | None = None

    @property
    def most(self) -> int:
        """How many jobs may run here at once, whoever runs them."""
        return self.slots if self.seats is None else self.seats

    def model_of(self, asked: str) -> str:
        """Return the model that a job which asks for `asked` ("" for none) runs here."""
        return asked or self.default_model

    def rests(self, asked: str) -> bool:
        """Tell whether an open circuit keeps such a job away."""
        return bool(self.resting) and not self.resting.isdisjoint((KEY, self.model_of(asked)))


class Pool(Struct, frozen=True, kw_only=True):
    """A capacity domain: `budget` units, of which `reserve` serve reserve classes only."""

    id: str
    budget: int
    reserve: int = 0


class Placement(Struct, frozen=True, kw_only=True, gc=False):
    """One decision to run a job now; `spot` is the place it was taken from.

    `lifts` and `workspace_lifts` are the memory's lift counts at the placement: a later negative
    correction of the charge counts only while they are unchanged (DESIGN 4.1).
    """

    spot: Spot
    executor: str
    reason: Reason
    free_before: int
    free_after: int
    lifts: int = 0
    workspace_lifts: int = 0
