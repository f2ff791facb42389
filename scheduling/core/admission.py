"""Admission: is a job eligible and funded, and what does its submitter do if not (DESIGN 4.5).

Everything that was measured comes in as `Facts`; the verdict is a pure function of them. The tests
are made in this order, and the first that speaks decides:

1. permission, 2. deadline, 3. time to live, 4. size (never fits), 5. price known, 6. the job's own
ceilings, 7. the quota of its class, 8. backlog (backpressure; the sheddable classes are refused
first), 9. budgets, 10. circuit without fallback, 11. not-before: denied or deferred; then 12. held
tenant, 13. open dependencies: queued with a mark; then admitted when it should start at once, else
queued with a place.

A budget refusal is final (denied) when waiting cannot help: the estimate alone is above the limit,
or the budget has no window and what was spent leaves no room. Else the job is deferred to the
window's end, or, where only held amounts stand in the way, until one of them is released.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from msgspec import Struct

from scheduling.core.types import Reason, Verdict


class BudgetRefusal(Struct, frozen=True, kw_only=True):
    """One scope of the chain that cannot cover the estimate; amounts in its dimension's unit."""

    scope: str
    dimension: str
    limit: Decimal
    spent: Decimal
    held: Decimal
    estimate: Decimal
    window_ends_at: float | None = None

    @property
    def final(self) -> bool:
        """Whether no release and no new window can ever cover the estimate."""
        lasting = Decimal(0) if self.window_ends_at is not None else self.spent
        return lasting + self.estimate > self.limit


class Backlog(Struct, frozen=True, kw_only=True):
    """The jobs that wait in one scope ("workspace", "tenant", "all") and the most that may."""

    scope: str
    waiting: int
    cap: int


class Ceiling(Struct, frozen=True, kw_only=True):
    """The most that the submitter lets the job take of a dimension, and what it is expected to."""

    dimension: str
    most: Decimal
    estimate: Decimal


class Quota(Struct, frozen=True, kw_only=True):
    """The jobs of a class that a workspace has waiting or live, and the most that it may."""

    class_name: str
    used: int
    most: int


class Facts(Struct, frozen=True, kw_only=True):
    """What admission goes by. Times are epoch seconds; `eta` is the expected finish.

    From `expires_at` on a job that has not started is not wanted any more.

    `most` is the largest cost that the job's class can ever have in its pool. `shed_share` is the
    share of the backlog cap of all at which a sheddable class is refused. `circuit_until` is set
    when the job's circuit is open and no fallback is prequalified. `other_classes` may be asked for
    too, have no quota and are not shed.
    """

    now: float
    permission: str = ""
    permitted: bool = True
    cost: int = 1
    most: int = 1
    unpriced_model: str = ""
    ceilings: tuple[Ceiling, ...] = ()
    quota: Quota | None = None
    other_classes: tuple[str, ...] = ()
    backlogs: tuple[Backlog, ...] = ()
    sheddable: bool = False
    shed_share: float = 1.0
    refusals: tuple[BudgetRefusal, ...] = ()
    circuit_until: float | None = None
    not_before: float | None = None
    deadline: float | None = None
    expires_at: float | None = None
    tenant_held: bool = False
    open_dependencies: int = 0
    starts_now: bool = False
    place: int | None = None
    eta: float | None = None
    retry_s: float = 30.0
    """How long a submitter should wait before trying a full backlog again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Something that would admit the job: what to do, for programs, and in words."""

    action: str
    sentence: str


class Answer(Struct, frozen=True, kw_only=True):
    """The verdict, why, what to tell the submitter, when to try again and what would admit it."""

    verdict: Verdict
    reason: Reason
    sentence: str
    retry_at: float | None = None
    alternatives: tuple[Alternative, ...] = ()


def admit(facts: Facts) -> Answer:
    """Return the answer of the first test that speaks, in the module's order."""
    for test in _TESTS:
        answer = test(facts)
        if answer is not None:
            return answer
    return _queued(facts)


def _denied(reason: Reason, sentence: str, *alternatives: Alternative) -> Answer:
    return Answer(
        verdict=Verdict.DENIED, reason=reason, sentence=sentence, alternatives=alternatives
    )


def _permission(facts: Facts) -> Answer | None:
    if facts.permitted:
        return None
    what = facts.permission or "this kind of job"
    return _denied(
        Reason.NOT_PERMITTED,
        f"The submitter may not use {what} in this workspace; ask a tenant admin for it.",
        _to("ask_for_permission", f"the permission {what}: ask a tenant admin"),
    )


def _deadline(facts: Facts) -> Answer | None:
    if facts.deadline is None or facts.deadline > max(facts.now, facts.not_before or 0.0):
        return None
    if facts.deadline <= facts.now:
        sentence = "The deadline has passed already; submit with a later one or none."
    else:
        sentence = "The deadline is not after not_before, so the job could never run in time."
    return _denied(Reason.DEADLINE, sentence, _to("change_deadline", "a later deadline"))


def _expiry(facts: Facts) -> Answer | None:
    if facts.expires_at is None or facts.expires_at > max(facts.now, facts.not_before or 0.0):
        return None
    if facts.expires_at <= facts.now:
        sentence = "Its time to live is over already; submit with a later expires_at or a ttl_s."
    else:
        sentence = "It would expire before its not_before, so the job could never start."
    return _denied(Reason.EXPIRED, sentence, _to("change_expiry", "a longer time to live"))


def _size(facts: Facts) -> Answer | None:
    if facts.cost <= facts.most:
        return None
    return _denied(
        Reason.NEVER_FITS,
        f"The job costs {_units(facts.cost)} but its class can have at most {facts.most} in this "
        "pool; lower the workflow's cost or ask an operator for a larger pool.",
        _to("lower_cost", f"a cost of at most {_units(facts.most)}"),
    )


def _price(facts: Facts) -> Answer | None:
    if not facts.unpriced_model:
        return None
    return _denied(
        Reason.UNPRICED_MODEL,
        f"No price is known for model {facts.unpriced_model}; choose a priced model or ask an "
        "operator to publish a cost rule for it.",
        _to("change_model", "a model with a published price"),
    )


def _ceilings(facts: Facts) -> Answer | None:
    over = [one for one in facts.ceilings if one.estimate > one.most]
    if not over:
        return None
    first = over[0]
    return _denied(
        Reason.HARD_CEILING,
        f"The job may take at most {_plain(first.most)} {first.dimension} and is expected to take "
        f"{_plain(first.estimate)}; raise its max_{first.dimension} or lower its estimate.",
        *(
            _to(
                f"raise_max_{one.dimension}",
                f"a max_{one.dimension} of at least {_plain(one.estimate)}",
            )
            for one in over
        ),
    )


def _quota(facts: Facts) -> Answer | None:
    quota = facts.quota
    if quota is None or quota.used < quota.most:
        return None
    return _denied(
        Reason.CLASS_QUOTA,
        f"The workspace has {quota.used} jobs of class {quota.class_name} and may have at most "
        f"{quota.most}; submit it when one has ended, or in another class.",
        *_other_class(facts),
    )


def _backlog(facts: Facts) -> Answer | None:
    for backlog in facts.backlogs:
        cap = _cap(backlog, facts)
        if backlog.waiting >= cap:
            shed = backlog.waiting < backlog.cap
            again = _to("try_later", f"the same job in {_seconds(facts.retry_s)}")
            return Answer(
                verdict=Verdict.DENIED,
                reason=Reason.SHED if shed else Reason.BACKLOG_FULL,
                sentence=_full_sentence(backlog, cap),
                retry_at=facts.now + facts.retry_s,
                alternatives=(again, *(_other_class(facts) if shed else ())),
            )
    return None


def _cap(backlog: Backlog, facts: Facts) -> int:
    if facts.sheddable and backlog.scope == "all":
        return int(backlog.cap * facts.shed_share)
    return backlog.cap


def _full_sentence(backlog: Backlog, cap: int) -> str:
    where = "in all" if backlog.scope == "all" else f"in this {backlog.scope}"
    shed = backlog.waiting < backlog.cap
    kind = "jobs of a class that can wait" if shed else "jobs"
    most = cap if shed else backlog.cap
    return (
        f"{backlog.waiting} jobs wait {where} and no more {kind} are taken from {most} on; "
        "try again later."
    )


def _other_class(facts: Facts) -> tuple[Alternative, ...]:
    """Name the classes that would be taken now."""
    return tuple(_to("change_class", f"class {name} now") for name in facts.other_classes)


def _budget(facts: Facts) -> Answer | None:
    if not facts.refusals:
        return None
    final = next((refusal for refusal in facts.refusals if refusal.final), None)
    if final is not None:
        return _denied(Reason.BUDGET, _budget_sentence(final), *_instead(facts.refusals))
    ends = [one.window_ends_at for one in facts.refusals if one.window_ends_at is not None]
    return Answer(
        verdict=Verdict.DEFERRED,
        reason=Reason.BUDGET,
        sentence=_budget_sentence(facts.refusals[0]),
        retry_at=max(ends, default=None),
        alternatives=_instead(facts.refusals),
    )


def _budget_sentence(refusal: BudgetRefusal) -> str:
    left = refusal.limit - refusal.spent - refusal.held
    if refusal.final:
        advice = "lower the estimate or ask for an escalation"
    elif refusal.window_ends_at is None:
        advice = "the job is taken up when a reservation is released"
    else:
        advice = "the job is taken up when there is room, at the latest in the next window"
    return (
        f"The {refusal.dimension} budget of {refusal.scope} has {_plain(left)} left of "
        f"{_plain(refusal.limit)} ({_plain(refusal.spent)} spent, {_plain(refusal.held)} held) "
        f"and the job needs {_plain(refusal.estimate)}; {advice}."
    )


def _instead(refusals: tuple[BudgetRefusal, ...]) -> tuple[Alternative, ...]:
    """Name, per refused scope, the largest estimate that passes now, its next window, its owner."""
    return tuple(way for one in refusals for way in _ways(one))


def _ways(refusal: BudgetRefusal) -> Iterator[Alternative]:
    room = refusal.limit - refusal.spent - refusal.held
    if room > 0:
        most = f"{_plain(room)} {refusal.dimension} ({refusal.scope})"
        yield _to("lower_estimate", f"an estimate of at most {most}")
    if refusal.window_ends_at is not None and not refusal.final:
        start = datetime.fromtimestamp(refusal.window_ends_at, tz=UTC)
        when = f"the next window of {refusal.scope}, from {start:%Y-%m-%d %H:%M} UTC on"
        yield _to("wait_for_window", when)
    owner = "an operator" if refusal.scope.split(" ")[0] == "tenant" else "a tenant admin"
    budget = f"the {refusal.dimension} budget of {refusal.scope}"
    yield _to("raise_budget", f"more of {budget}: ask {owner}")


def _circuit(facts: Facts) -> Answer | None:
    if facts.circuit_until is None or facts.circuit_until <= facts.now:
        return None
    return Answer(
        verdict=Verdict.DEFERRED,
        reason=Reason.CIRCUIT_OPEN,
        sentence="The circuit of every executor for this job is open and no fallback is qualified; "
        f"it is tried again in {_seconds(facts.circuit_until - facts.now)}.",
        retry_at=facts.circuit_until,
        alternatives=(_to("change_model", "another model"),),
    )


def _not_before(facts: Facts) -> Answer | None:
    if facts.not_before is None or facts.not_before <= facts.now:
        return None
    return Answer(
        verdict=Verdict.DEFERRED,
        reason=Reason.NOT_BEFORE,
        sentence="The job may not start before its not_before, in "
        f"{_seconds(facts.not_before - facts.now)}.",
        retry_at=facts.not_before,
    )


def _held(facts: Facts) -> Answer | None:
    if not facts.tenant_held:
        return None
    return Answer(
        verdict=Verdict.QUEUED,
        reason=Reason.TENANT_HELD,
        sentence="The job is funded and waits, as an operator holds its tenant; it has no place "
        "and no ETA until the hold ends.",
    )


def _dependencies(facts: Facts) -> Answer | None:
    if not facts.open_dependencies:
        return None
    jobs = "1 job" if facts.open_dependencies == 1 else f"{facts.open_dependencies} jobs"
    return Answer(
        verdict=Verdict.QUEUED,
        reason=Reason.DEPENDENCY,
        sentence=f"The job is funded and waits for {jobs} that it depends on.",
    )


def _queued(facts: Facts) -> Answer:
    if facts.starts_now:
        return Answer(
            verdict=Verdict.ADMITTED,
            reason=Reason.STARTS_NOW,
            sentence="The job is funded and should start at once.",
        )
    place = "" if facts.place is None else f" at place {facts.place}"
    eta = "" if facts.eta is None else f", done in about {_seconds(facts.eta - facts.now)}"
    return Answer(
        verdict=Verdict.QUEUED,
        reason=Reason.IN_ORDER,
        sentence=f"The job is funded and stands in the order{place}{eta}.",
    )


_TESTS: tuple[Callable[[Facts], Answer | None], ...] = (
    _permission, _deadline, _expiry, _size, _price, _ceilings, _quota, _backlog, _budget, _circuit,
    _not_before, _held, _dependencies,
)  # fmt: skip


def _to(action: str, sentence: str) -> Alternative:
    return Alternative(action=action, sentence=sentence)


def _units(count: int) -> str:
    return "1 unit" if count == 1 else f"{count} units"


def _seconds(duration_s: float) -> str:
    return f"{max(0.0, duration_s):.0f} s"


def _plain(amount: Decimal) -> str:
    return f"{amount:f}"
