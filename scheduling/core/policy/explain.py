"""Why a job stands where it stands, asked of the very rules that decide (DESIGN 4.1, 4.2, 4.5).

No rule is written a second time here. A rule that answers for many things at once is asked about
one of them at a time, with all else made easy: an executor that would take the job but for its
region, admission with nothing against the job but its size. What the rule then says is what that
one thing says. The tests of capacity are those of the cycle itself, run on a state that is the
caller's to spoil.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from msgspec.structs import replace

from scheduling.core.admission import Answer, Facts, admit
from scheduling.core.order.aging import rungs_of
from scheduling.core.placement import candidates
from scheduling.core.policy.cycle import cycle, waits
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Executor, Job, Reason


class Status(StrEnum):
    """What a check says of a job."""

    PASSED = "passed"
    WAITS = "waits"
    FAILS = "fails"
    NOT_REACHED = "not_reached"


class Check(StrEnum):
    """The checks that a job meets, in the order in which they are made."""

    PERMISSION = "permission"
    OFFER = "offer"
    DEADLINE = "deadline"
    EXPIRY = "expiry"
    SIZE = "size"
    PRICE = "price"
    CEILINGS = "ceilings"
    CLASS_QUOTA = "class_quota"
    BACKLOG = "backlog"
    BUDGET = "budget"
    CIRCUIT = "circuit"
    NOT_BEFORE = "not_before"
    HOLD = "hold"
    DEPENDENCIES = "dependencies"
    READMISSION = "readmission"
    RETRY = "retry"
    PAUSE = "pause"
    ORDER = "order"
    OWN_LIMITS = "own_limits"
    SHARED_LIMITS = "shared_limits"
    EXECUTORS = "executors"
    RATES = "rates"
    RETRIES = "retries"
    UNITS = "units"
    SLOTS = "slots"
    RUN = "run"
    END = "end"


class Misfit(StrEnum):
    """What keeps an executor from being a candidate for a job."""

    NOT_OPEN = "not_open"
    KIND = "kind"
    MODEL = "model"
    REGION = "region"
    LABELS = "labels"
    TOOLS = "tools"
    DATA_CLASS = "data_class"
    COMPUTE_CLASS = "compute_class"
    FUNDS = "funds"
    CIRCUIT = "circuit"
    UNAVAILABLE = "unavailable"


_ADMISSION: Mapping[Check, tuple[Reason, tuple[str, ...]]] = MappingProxyType(
    {
        Check.PERMISSION: (Reason.NOT_PERMITTED, ("permission", "permitted")),
        Check.DEADLINE: (Reason.DEADLINE, ("deadline", "not_before")),
        Check.EXPIRY: (Reason.EXPIRED, ("expires_at", "not_before")),
        Check.SIZE: (Reason.NEVER_FITS, ("cost", "most")),
        Check.PRICE: (Reason.UNPRICED_MODEL, ("unpriced_model",)),
        Check.CEILINGS: (Reason.HARD_CEILING, ("ceilings",)),
        Check.CLASS_QUOTA: (Reason.CLASS_QUOTA, ("quota", "other_classes")),
        Check.BACKLOG: (
            Reason.BACKLOG_FULL,
            ("backlogs", "sheddable", "shed_share", "retry_s", "other_classes"),
        ),
        Check.BUDGET: (Reason.BUDGET, ("refusals",)),
        Check.CIRCUIT: (Reason.CIRCUIT_OPEN, ("circuit_until",)),
        Check.NOT_BEFORE: (Reason.NOT_BEFORE, ("not_before",)),
        Check.HOLD: (Reason.TENANT_HELD, ("tenant_held",)),
        Check.DEPENDENCIES: (Reason.DEPENDENCY, ("open_dependencies",)),
    }
)
"""Per test of admission, the reason that it gives and the facts that it looks at."""

CAPACITY: Mapping[Reason, Check] = MappingProxyType(
    {
        Reason.OWN_LIMIT: Check.OWN_LIMITS,
        Reason.SHARED_LIMIT: Check.SHARED_LIMITS,
        Reason.NO_EXECUTOR: Check.EXECUTORS,
        Reason.CIRCUIT_OPEN: Check.EXECUTORS,
        Reason.RATE_WINDOW: Check.RATES,
        Reason.RETRY_BUDGET: Check.RETRIES,
        Reason.HEAD_WAITS_FOR_UNITS: Check.UNITS,
        Reason.BEHIND_HEAD: Check.UNITS,
        Reason.EXECUTOR_BUSY: Check.SLOTS,
        Reason.STARTS_NOW: Check.RUN,
    }
)
"""Per answer of the walk, the check that gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A job's place, counted from 1, and who goes first: its tenant's jobs, and others' jobs."""

    place: int
    class_name: str
    turn: int | None
    own: int
    others: int
    tenants: int
    """How many other tenants have jobs ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What the walk says of a job once all that may start has started.

    `first` are the jobs in front of it that wait for units, or behind one that does, in order.
    """

    reason: Reason
    first: tuple[Job, ...] = ()


def spoken(check: Check, facts: Facts) -> Answer | None:
    """Return what one test of admission says of the facts; None when it lets the job pass."""
    _, names = _ADMISSION[check]
    answer = admit(Facts(now=facts.now, **{name: getattr(facts, name) for name in names}))
    return answer if check_of(answer.reason) is check else None


def check_of(reason: str) -> Check | None:
    """Return the test of admission that gives a reason, None when none of them does."""
    if reason == Reason.NO_EXECUTOR:
        return Check.OFFER
    if reason == Reason.SHED:
        return Check.BACKLOG
    return next((check for check, (given, _) in _ADMISSION.items() if given == reason), None)


def misfits(job: Job, executor: Executor) -> tuple[Misfit, ...]:
    """Return all that keeps an executor from being a candidate; nothing: it is one."""
    asks_nothing = replace(
        job,
        kind="",
        model="",
        region="",
        labels=frozenset(),
        tools=frozenset(),
        data_class="",
        compute_class="",
        places=frozenset(),
    )
    mended = replace(executor, available=True, resting=frozenset())
    for_all = replace(mended, tenant=None, workspace=None)
    probes = {
        Misfit.NOT_OPEN: (asks_nothing, mended),
        Misfit.KIND: (replace(asks_nothing, kind=job.kind), for_all),
        Misfit.MODEL: (replace(asks_nothing, model=job.model), for_all),
        Misfit.REGION: (replace(asks_nothing, region=job.region), for_all),
        Misfit.LABELS: (replace(asks_nothing, labels=job.labels), for_all),
        Misfit.TOOLS: (replace(asks_nothing, tools=job.tools), for_all),
        Misfit.DATA_CLASS: (replace(asks_nothing, data_class=job.data_class), for_all),
        Misfit.COMPUTE_CLASS: (replace(asks_nothing, compute_class=job.compute_class), for_all),
        Misfit.FUNDS: (replace(asks_nothing, places=job.places), for_all),
        Misfit.CIRCUIT: (
            replace(asks_nothing, model=job.model),
            replace(for_all, models=_offered(executor, job), resting=executor.resting),
        ),
        Misfit.UNAVAILABLE: (asks_nothing, replace(for_all, available=executor.available)),
    }
    return tuple(why for why, (asks, offers) in probes.items() if not candidates(asks, [offers]))


def ahead_of(state: PoolState, job: Job) -> Ahead | None:
    """Return where a job stands in the order; None when it stands in no line."""
    first: Counter[str] = Counter()
    for place, spot in enumerate(state.order.walk_all(), start=1):
        if spot.job.id == job.id:
            own = first.pop(job.tenant, 0)
            return Ahead(
                place=place,
                class_name=spot.class_name,
                turn=spot.turn,
                own=own,
                others=first.total(),
                tenants=len(first),
            )
        first[spot.job.tenant] += 1
    return None


def next_rung(state: PoolState, job: Job) -> tuple[str, float] | None:
    """Return the class that a startable job climbs to next and when (epoch seconds).

    None when it climbs no further, or is not among its tenant's oldest, which alone climb.
    """
    order = state.order
    rungs = rungs_of(order.classes).get(job.class_name, ())
    stands = order.stands_in(job.id)
    climbed = rungs.index(stands) + 1 if stands in rungs else 0
    older = sum(
        (one.tenant, one.class_name) == (job.tenant, job.class_name) and _age(one) < _age(job)
        for one, _ in order.startable()
    )
    if not order.age_after or climbed == len(rungs) or older >= order.age_limit:
        return None
    placed = order.memory((job.class_name, job.tenant, None)).last_placed_at
    since = job.submitted_at if placed is None else max(job.submitted_at, placed)
    return rungs[climbed], since + order.age_after * (climbed + 1)


def walked(state: PoolState, now: float, job: Job) -> Walked:
    """Start all that may start at `now`, then say why the job does not; the state is spoilt."""
    if any(placement.spot.job.id == job.id for placement in cycle(state, now)):
        return Walked(reason=Reason.STARTS_NOW)
    told = waits(state, now, len(state.order))
    names = list(told)
    first = (
        state.order.get(name)
        for name in names[: names.index(job.id)]
        if told[name] in (Reason.HEAD_WAITS_FOR_UNITS, Reason.BEHIND_HEAD)
    )
    return Walked(reason=told[job.id], first=tuple(one for one in first if one is not None))


def _offered(executor: Executor, job: Job) -> frozenset[str]:
    """Return an executor's models, with the one that a job asks for among them."""
    return executor.models | {job.model}


def _age(job: Job) -> tuple[float, int]:
    return job.submitted_at, job.seq
