"""Settling attempts, in sets, exactly once: states, usage, money, events, circuits.

The rows of a set are locked first, in the order of arrival and each job before its attempt, so
that two sets never wait for each other in a circle; the balances, which all jobs of a tenant share,
are moved last. An attempt that is no longer live, or whose
fence its job has passed, is stale: it changes nothing, but what it used is booked as wasted, for
it was paid for. An attempt may end a step and not its job: that keeps its reservation then, and its
checkpoint is stored with the rest.
"""

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from django.db import transaction
from msgspec import Struct

from billing.core.dimensions import ATTEMPT_EVENT
from billing.core.pricing import Usage as PricedUsage
from billing.services.corrections import work_rejected
from billing.services.prices import UnpricedModel
from billing.services.settlement import balances_follow, book
from billing.services.usage import Settled, Settlement, UsageConflict
from scheduling.core.policy.settings import Policy, ShareBy
from scheduling.core.states import LIVE_ATTEMPTS, AttemptState, WorkOutcome
from scheduling.core.types import Reason
from scheduling.events import nudge_on_commit
from scheduling.executors.contract import ErrorClass, Outcome, Usage
from scheduling.kinds.flow import KIND as FLOW
from scheduling.selectors.policy import active_policy
from scheduling.services.cancel import below_stop
from scheduling.services.circuits import circuits_move
from scheduling.services.dependencies import (
    End,
    dependants_lock,
    dependants_settle,
    open_dependencies,
    version_and_waited,
)
from scheduling.services.endings import Ending, ending_of, ending_of_lost
from scheduling.services.late_results import late_results_tell
from scheduling.services.scopes import chain_of
from scheduling.services.settlement_rows import (
    Closing,
    Locked,
    attempts_close,
    attempts_lock,
    deferred_wake,
)
from scheduling.services.stories import Told, events_write

NOTHING_USED = Usage()
LATE_EVENT = "late"
BOOKING_FAULTS = (UnpricedModel, UsageConflict)
"""What undoes a whole set for the fault of one attempt in it: settle the attempts alone then."""


class Report(Struct, frozen=True, kw_only=True):
    """What a worker says of one attempt; `outcome` None: the worker is lost."""

    attempt_id: uuid.UUID
    fence: int
    outcome: Outcome | None


class SettledSet(Struct, frozen=True, kw_only=True):
    """How many attempts of a set were settled, and how many reports came too late."""

    settled: int
    stale: int


@transaction.atomic
def attempts_settle(*, reports: Sequence[Report], now: datetime) -> SettledSet:
    """Settle a set of reports; a report that comes again or too late changes no state.

    Raises one of `BOOKING_FAULTS`, having changed nothing, when an attempt cannot be booked.
    """
    by_id = {report.attempt_id: report for report in reports}
    fresh: list[Locked] = []
    stale: list[Locked] = []
    for one in attempts_lock(by_id):
        (fresh if _is_live(one, by_id[one.attempt_id]) else stale).append(one)
    version, waited = version_and_waited({one.id for one in fresh})
    policy = active_policy(version)
    outcomes = _heard(fresh, by_id)
    closings = [_closing(one, outcomes[one.attempt_id], policy, now) for one in fresh]
    fallout = dependants_lock(_ended(closings) if waited else {})
    booked = [_settlement(one.locked, one.outcome, one.ending) for one in closings]
    late = _late(stale, by_id)
    late_results_tell(late)
    booked += [_settlement(locked, outcome, None) for locked, outcome in late]
    _waste_rejected(closings)
    given_back = [*fallout.lost, *_unfunded(closings)]
    books = book(settlements=booked, version=version, released=given_back)
    _write(closings, books.settled, policy, now)
    dependants_settle(fallout, now)
    balances_follow(books)
    _stop_below(closings, now)
    return SettledSet(settled=len(fresh), stale=len(stale))


def _waste_rejected(closings: Sequence[Closing]) -> None:
    rejected = [one for one in closings if one.ending.outcome is WorkOutcome.REJECTED]
    if rejected:
        work_rejected([one.locked.id for one in rejected])


def _stop_below(closings: Sequence[Closing], now: datetime) -> None:
    """Have what flows that end leave behind canceled, once they have ended for all to see.

    In a transaction of its own: it locks jobs and budgets, and these are locked after the jobs.
    """
    flows = [one.locked.id for one in closings if one.ending.final and one.locked.kind == FLOW]
    if flows:
        transaction.on_commit(partial(below_stop, job_ids=flows, now=now), robust=True)


def _ended(closings: Sequence[Closing]) -> dict[uuid.UUID, End]:
    """Return the jobs that end with this set, and how."""
    final = (one for one in closings if one.ending.final)
    return {one.locked.id: (one.ending.job_state, one.ending.outcome) for one in final}


def _heard(
    fresh: Sequence[Locked], by_id: Mapping[uuid.UUID, Report]
) -> dict[uuid.UUID, Outcome | None]:
    """Return the outcomes by attempt; a step whose jobs have all ended has nothing to wait for.

    A job that ends while its parent is locked here comes to it afterwards, and finds it waiting.
    """
    outcomes = {one.attempt_id: by_id[one.attempt_id].outcome for one in fresh}
    waiting = {
        one.attempt_id: one.id
        for one in fresh
        if (outcome := outcomes[one.attempt_id]) and outcome.next and outcome.next.waits
    }
    still = open_dependencies(waiting.values()) if waiting else {}
    for attempt_id, job_id in waiting.items():
        outcome = outcomes[attempt_id]
        if outcome and outcome.next and job_id not in still:
            outcomes[attempt_id] = replace(outcome, next=replace(outcome.next, waits=False))
    return outcomes


def _unfunded(closings: Sequence[Closing]) -> list[uuid.UUID]:
    return [one.locked.id for one in closings if one.ending.reason is Reason.BUDGET]


def _is_live(locked: Locked, report: Report) -> bool:
    return (
        locked.attempt_state in LIVE_ATTEMPTS
        and locked.attempt_fence == report.fence == locked.fence
        and locked.state == "running"
    )


def _closing(locked: Locked, outcome: Outcome | None, policy: Policy, now: datetime) -> Closing:
    if outcome is None:
        ending = ending_of_lost(locked, policy=policy)
    else:
        jitter = random.random()  # noqa: S311 (spreads retries, guards nothing)
        ending = ending_of(outcome, locked, policy=policy, now=now.timestamp(), jitter=jitter)
    due = _charge_due(locked, outcome, policy, now, made_room=ending.made_room)
    return Closing(locked=locked, outcome=outcome, ending=ending, charge_due=due)


def _charge_due(
    locked: Locked, outcome: Outcome | None, policy: Policy, now: datetime, *, made_room: bool
) -> int | None:
    """Return the turn charge that came true, None where the estimate stands.

    An attempt that used nothing is refunded; a lost one used something that nobody can name, unless
    nobody had claimed it. One that made room is charged for the time that it had, if it had any.
    """
    if outcome is None:
        return None if locked.started_at else 0
    worked = made_room and outcome.usage.worker_seconds > 0
    if outcome.error_class in (ErrorClass.UNREACHABLE, ErrorClass.CANCELED) and not worked:
        return 0 if outcome.usage.requests == 0 else None
    due = locked.charge
    if policy.share_by is ShareBy.COST_TIME and locked.started_at:
        due = max(1, -int(-locked.cost * (now - locked.started_at).total_seconds() // 1))
    elif policy.share_by is ShareBy.TOKENS:
        due = max(1, outcome.usage.input_total + 2 * outcome.usage.output_total)
    return due if due != locked.charge else None


def _late(
    stale: Sequence[Locked], by_id: Mapping[uuid.UUID, Report]
) -> list[tuple[Locked, Outcome]]:
    """Return the lost attempts whose worker reports after all, with what it says."""
    reported = [(one, by_id[one.attempt_id].outcome) for one in stale]
    return [
        (one, outcome)
        for one, outcome in reported
        if outcome is not None and one.attempt_state == AttemptState.LOST
    ]


def _settlement(locked: Locked, outcome: Outcome | None, ending: Ending | None) -> Settlement:
    """Return what is to be booked; without an ending the report came too late to end anything."""
    complete = ending is not None and ending.attempt_state is AttemptState.COMPLETE
    made_room = ending is not None and ending.made_room
    goes_on = made_room and outcome is not None and outcome.next is not None
    heard = outcome if ending else None  # a late report's attempt stays one that was lost
    return Settlement(
        attempt_id=locked.attempt_id,
        job_id=locked.id,
        tenant_id=locked.tenant_id,
        workspace_id=locked.workspace_id,
        workflow_id=locked.workflow_id,
        mission_id=locked.mission_id,
        executor_id=locked.executor_id,
        provider=locked.provider,
        model=locked.model,
        dispatched_at=locked.dispatched_at,
        usage=priced(outcome.usage if outcome else NOTHING_USED),
        chain=chain_of(locked),
        final=ending is not None and ending.final,
        kind="incurred" if complete or goes_on else "wasted",
        failure_class="" if complete or goes_on else _failure_class(heard, made_room=made_room),
        is_try=(complete and not locked.step) or _counts(heard),
        source_event=ATTEMPT_EVENT if ending else LATE_EVENT,
    )


def _counts(outcome: Outcome | None) -> bool:
    return bool(outcome and outcome.error_class and outcome.error_class.counts_as_try)


def _failure_class(outcome: Outcome | None, *, made_room: bool) -> str:
    if made_room:
        return "preempted"
    return "lost" if outcome is None else outcome.error_class or "canceled"


def priced(usage: Usage) -> PricedUsage:
    """Return what an attempt used as its price is made of it."""
    return PricedUsage(
        input_total=usage.input_total,
        cached_read=usage.cached_read,
        cached_write=usage.cached_write,
        output_total=usage.output_total,
        reasoning=usage.reasoning,
        tool_calls=usage.tool_calls,
        worker_seconds=Decimal(usage.worker_seconds),
        other=usage.other,
        flags=("usage_inconsistent",) if usage.inconsistent else (),
    )


def _write(
    closings: Sequence[Closing], costs: Sequence[Settled], policy: Policy, now: datetime
) -> None:
    if not closings:
        return
    spend = {cost.attempt_id: cost.cost for cost in costs if cost.source_event == ATTEMPT_EVENT}
    attempts_close(closings, spend, now)
    events_write(_told(one, spend.get(one.locked.attempt_id, Decimal(0))) for one in closings)
    circuits_move(closings, policy, now)
    deferred_wake({one.locked.tenant_id for one in closings if one.ending.final}, now)
    nudge_on_commit()


def _told(closing: Closing, spend: Decimal) -> Told:
    locked, ending = closing.locked, closing.ending
    facts: dict[str, Any] = {"fence": locked.fence, "spend": str(spend)}
    if ending.made_room and closing.outcome is not None:
        facts |= {"stop_for": locked.stop_for, "checkpoint": closing.outcome.next is not None}
    elif closing.outcome is not None and closing.outcome.error_class:
        facts |= {"error": closing.outcome.error_class, "message": closing.outcome.message}
    if ending.stepped:
        facts["step"] = locked.step + 1
    if locked.reviewer:
        facts |= {"by": locked.reviewer, "note": closing.message}
    again = ending.retry_at or ending.wake_at
    if again is not None:
        facts["retry_at"] = datetime.fromtimestamp(again, tz=UTC).isoformat()
    return Told(
        job_id=locked.id,
        tenant_id=locked.tenant_id,
        attempt_id=locked.attempt_id,
        event=ending.event,
        reason=ending.reason,
        data=facts,
    )
