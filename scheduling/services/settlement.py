"""Settling attempts, in sets, exactly once: states, usage, money, events, circuits.

The rows of a set are locked first, in the order of arrival and each job before its attempt, so
that two sets never wait for each other in a circle; the balances, which all jobs of a tenant share,
are moved last. An attempt that is no longer live, or whose
fence its job has passed, is stale: it changes nothing, but what it used is booked as wasted, for
it was paid for.
"""

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db import transaction

from billing.core.dimensions import ATTEMPT_EVENT
from billing.core.pricing import Usage as PricedUsage
from billing.services.prices import UnpricedModel
from billing.services.settlement import balances_follow, book
from billing.services.usage import Settled, Settlement, UsageConflict
from scheduling.core.policy.settings import Policy, ShareBy
from scheduling.core.states import LIVE_ATTEMPTS, AttemptState, JobState
from scheduling.events import nudge_on_commit
from scheduling.executors.contract import ErrorClass, Outcome, Usage
from scheduling.selectors.policy import active_policy
from scheduling.services.circuits import circuits_move
from scheduling.services.dependencies import (
    dependants_lock,
    dependants_settle,
    version_and_waited,
)
from scheduling.services.endings import Ending, ending_of, ending_of_lost
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker says of one attempt; `outcome` None: the worker is lost."""

    attempt_id: uuid.UUID
    fence: int
    outcome: Outcome | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledSet:
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
    closings = [_closing(one, by_id[one.attempt_id].outcome, policy, now) for one in fresh]
    fallout = dependants_lock(_ended(closings) if waited else {})
    booked = [_settlement(one.locked, one.outcome, one.ending) for one in closings]
    late = _late(stale, by_id)
    books = book(settlements=booked + late, version=version, released=fallout.lost)
    _write(closings, books.settled, policy, now)
    dependants_settle(fallout, now)
    balances_follow(books)
    return SettledSet(settled=len(fresh), stale=len(stale))


def _ended(closings: Sequence[Closing]) -> dict[uuid.UUID, bool]:
    """Return the jobs that end with this set, and whether each is done."""
    final = (one for one in closings if one.ending.final)
    return {one.locked.id: one.ending.job_state is JobState.DONE for one in final}


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
    due = _charge_due(locked, outcome, policy, now)
    return Closing(locked=locked, outcome=outcome, ending=ending, charge_due=due)


def _charge_due(
    locked: Locked, outcome: Outcome | None, policy: Policy, now: datetime
) -> int | None:
    """Return the turn charge that came true, None where the estimate stands.

    An attempt that used nothing is refunded; a lost one used something that nobody can name.
    """
    if outcome is None:
        return None
    if outcome.error_class in (ErrorClass.UNREACHABLE, ErrorClass.CANCELED):
        return 0 if outcome.usage.requests == 0 else None
    due = locked.charge
    if policy.share_by is ShareBy.COST_TIME and locked.started_at:
        due = max(1, -int(-locked.cost * (now - locked.started_at).total_seconds() // 1))
    elif policy.share_by is ShareBy.TOKENS:
        due = max(1, outcome.usage.input_total + 2 * outcome.usage.output_total)
    return due if due != locked.charge else None


def _late(stale: Sequence[Locked], by_id: Mapping[uuid.UUID, Report]) -> list[Settlement]:
    """Return the settlements of lost attempts whose worker reports after all."""
    reported = [(one, by_id[one.attempt_id].outcome) for one in stale]
    return [
        _settlement(one, outcome, None)
        for one, outcome in reported
        if outcome is not None and one.attempt_state == AttemptState.LOST
    ]


def _settlement(locked: Locked, outcome: Outcome | None, ending: Ending | None) -> Settlement:
    """Return what is to be booked; without an ending the report came too late to end anything."""
    complete = ending is not None and ending.attempt_state is AttemptState.COMPLETE
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
        usage=_priced(outcome.usage if outcome else NOTHING_USED),
        chain=chain_of(locked),
        final=ending is not None and ending.final,
        kind="incurred" if complete else "wasted",
        failure_class="" if complete else _failure_class(heard),
        is_try=complete or _counts(heard),
        source_event=ATTEMPT_EVENT if ending else LATE_EVENT,
    )


def _counts(outcome: Outcome | None) -> bool:
    return bool(outcome and outcome.error_class and outcome.error_class.counts_as_try)


def _failure_class(outcome: Outcome | None) -> str:
    return "lost" if outcome is None else outcome.error_class or "canceled"


def _priced(usage: Usage) -> PricedUsage:
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
    if closing.outcome is not None and closing.outcome.error_class:
        facts |= {"error": closing.outcome.error_class, "message": closing.outcome.message}
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
