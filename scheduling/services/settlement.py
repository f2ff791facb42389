"""Settling attempts, in sets, exactly once: states, usage, money, events, circuits.

The rows of a set are locked first, jobs before attempts and in the order of arrival, so that two
sets never wait for each other. An attempt that is no longer live, or whose fence its job has
passed, is stale: it changes nothing, but what it used is booked as wasted, for it was paid for.
"""

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db import connection, transaction

from billing.core.pricing import Usage as PricedUsage
from billing.services.prices import UnpricedModel
from billing.services.settlement import settle
from billing.services.usage import Settled, Settlement, UsageConflict
from scheduling.core.policy.settings import Policy, ShareBy
from scheduling.core.states import LIVE_ATTEMPTS, AttemptState
from scheduling.events import nudge_on_commit
from scheduling.executors.contract import ErrorClass, Outcome, Usage
from scheduling.models import Attempt
from scheduling.selectors.policy import active_policy
from scheduling.services.admission import chain_of
from scheduling.services.circuits import circuits_move
from scheduling.services.endings import Course, ending_of, ending_of_lost
from scheduling.services.settlement_rows import Closing, attempts_close, deferred_wake, jobs_close
from scheduling.services.stories import Told, events_write

NOTHING_USED = Usage()
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
    attempts = _locked(list(by_id))
    fresh = [one for one in attempts if _is_live(one, by_id[one.id])]
    policy = active_policy()
    closings = [_closing(one, by_id[one.id].outcome, policy, now) for one in fresh]
    stale = [one for one in attempts if one.id not in {live.id for live in fresh}]
    costs = settle(settlements=[_settlement(one) for one in closings] + _late(stale, by_id))
    _write(closings, costs, now)
    return SettledSet(settled=len(fresh), stale=len(stale))


def _locked(ids: list[uuid.UUID]) -> list[Attempt]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT j.id FROM scheduling_job j JOIN scheduling_attempt a ON a.job_id = j.id "
            "WHERE a.id = ANY(%s) ORDER BY j.seq FOR UPDATE OF j",
            [ids],
        )
    rows = Attempt.objects.filter(id__in=ids).select_for_update(of=("self",)).order_by("job__seq")
    large = ("job__payload", "job__result", "job__error", "usage")
    return list(rows.select_related("job__workflow", "executor").defer(*large))


def _is_live(attempt: Attempt, report: Report) -> bool:
    return (
        attempt.state in LIVE_ATTEMPTS
        and attempt.fence == report.fence
        and attempt.job.fence == report.fence
        and attempt.job.state == "running"
    )


def _closing(attempt: Attempt, outcome: Outcome | None, policy: Policy, now: datetime) -> Closing:
    job = attempt.job
    course = Course(
        cancel_requested=job.cancel_requested,
        tries=job.tries,
        fence=job.fence,
        max_attempts=job.max_attempts,
        idempotent=job.idempotent,
        deadline=job.deadline,
    )
    if outcome is None:
        ending = ending_of_lost(course, policy=policy)
    else:
        jitter = random.random()  # noqa: S311 (spreads retries, guards nothing)
        ending = ending_of(outcome, course, policy=policy, now=now.timestamp(), jitter=jitter)
    return Closing(
        attempt=attempt,
        outcome=outcome,
        ending=ending,
        charge_due=_charge_due(attempt, outcome, policy, now),
    )


def _charge_due(
    attempt: Attempt, outcome: Outcome | None, policy: Policy, now: datetime
) -> int | None:
    """Return the turn charge that came true, None where the estimate stands.

    An attempt that used nothing is refunded; a lost one used something that nobody can name.
    """
    if outcome is None:
        return None
    if outcome.error_class in (ErrorClass.UNREACHABLE, ErrorClass.CANCELED):
        return 0 if outcome.usage.requests == 0 else None
    due = attempt.charge
    if policy.share_by is ShareBy.COST_TIME and attempt.started_at:
        due = max(1, -int(-attempt.cost * (now - attempt.started_at).total_seconds() // 1))
    elif policy.share_by is ShareBy.TOKENS:
        due = max(1, outcome.usage.input_total + 2 * outcome.usage.output_total)
    return due if due != attempt.charge else None


def _settlement(closing: Closing) -> Settlement:
    outcome, ending = closing.outcome, closing.ending
    complete = ending.attempt_state is AttemptState.COMPLETE
    return replace(
        _booked(closing.attempt, outcome.usage if outcome else NOTHING_USED),
        final=ending.final,
        kind="incurred" if complete else "wasted",
        failure_class="" if complete else _failure_class(outcome),
        is_try=outcome is not None and (complete or _counts(outcome)),
    )


def _booked(attempt: Attempt, usage: Usage) -> Settlement:
    """Return the settlement of an attempt that failed and did not end its job."""
    job = attempt.job
    return Settlement(
        attempt_id=attempt.id,
        job_id=job.id,
        tenant_id=job.tenant_id,
        workspace_id=job.workspace_id,
        workflow_id=job.workflow_id,
        mission_id=job.mission_id,
        executor_id=attempt.executor_id,
        provider=attempt.executor.provider,
        model=model_of(attempt),
        dispatched_at=attempt.dispatched_at,
        usage=_priced(usage),
        chain=chain_of(job),
        final=False,
        kind="wasted",
    )


def model_of(attempt: Attempt) -> str:
    """Return the model that the attempt runs: the job's, else the executor's first, else its kind."""
    offered = attempt.executor.models_offered
    return attempt.job.model or (offered[0] if offered else attempt.executor.kind)


def _counts(outcome: Outcome) -> bool:
    return outcome.error_class is not None and outcome.error_class.counts_as_try


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
        flags=("usage_inconsistent",) if usage.inconsistent else (),
    )


def _late(stale: Sequence[Attempt], by_id: dict[uuid.UUID, Report]) -> list[Settlement]:
    """Return the settlements of lost attempts whose worker reports after all."""
    late = []
    for attempt in stale:
        outcome = by_id[attempt.id].outcome
        if outcome is not None and attempt.state == AttemptState.LOST:
            booked = _booked(attempt, outcome.usage)
            late.append(replace(booked, source_event="late", failure_class="lost", is_try=False))
    return late


def _write(closings: Sequence[Closing], costs: Sequence[Settled], now: datetime) -> None:
    spend = {cost.attempt_id: cost.cost for cost in costs if cost.source_event == "attempt"}
    attempts_close(closings, spend, now)
    jobs_close(closings, now)
    events_write(_told(one, spend.get(one.attempt.id, Decimal(0))) for one in closings)
    circuits_move(closings, now)
    deferred_wake({one.attempt.job.tenant_id for one in closings if one.ending.final}, now)
    if closings:
        nudge_on_commit()


def _told(closing: Closing, spend: Decimal) -> Told:
    attempt, ending = closing.attempt, closing.ending
    facts: dict[str, Any] = {"fence": attempt.fence, "spend": str(spend)}
    if closing.outcome is not None and closing.outcome.error_class:
        facts |= {"error": closing.outcome.error_class, "message": closing.outcome.message}
    if ending.wake_at is not None:
        facts["retry_at"] = datetime.fromtimestamp(ending.wake_at, tz=UTC).isoformat()
    return Told(
        job_id=attempt.job_id,
        tenant_id=attempt.job.tenant_id,
        attempt_id=attempt.id,
        event=ending.event,
        reason=ending.reason,
        data=facts,
    )
