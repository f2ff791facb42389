"""The rows of a settled set, each table in one statement."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db import connection
from psycopg.types.json import Jsonb

from scheduling.executors.contract import Outcome
from scheduling.models import Attempt
from scheduling.services.endings import Ending

WAKE_AT_ONCE = 20
"""How many of a tenant's budget-deferred jobs one release sends back to admission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """A live attempt with what its worker reported and what follows from it."""

    attempt: Attempt
    outcome: Outcome | None
    ending: Ending
    charge_due: int | None


def attempts_close(
    closings: Sequence[Closing], spend: Mapping[uuid.UUID, Decimal], now: datetime
) -> None:
    """Write the end of the attempts."""
    rows = [
        (
            one.attempt.id,
            one.ending.attempt_state,
            (one.outcome.error_class or "") if one.outcome else "",
            one.outcome.message[:500] if one.outcome else "The worker was lost.",
            Jsonb(_usage(one.outcome)),
            spend.get(one.attempt.id, Decimal(0)),
            one.charge_due,
        )
        for one in closings
    ]
    _update(
        "UPDATE scheduling_attempt a SET state = x.state, error_class = x.error, "
        "message = x.message, usage = x.usage, spend = x.spend, charge_due = x.due, ended_at = %s "
        "FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::jsonb[], %s::numeric[], "
        "%s::bigint[]) AS x(id, state, error, message, usage, spend, due) WHERE a.id = x.id",
        [now],
        rows,
    )


def jobs_close(closings: Sequence[Closing], now: datetime) -> None:
    """Write what becomes of the jobs, and flag them for the governor."""
    rows = [
        (
            one.attempt.job_id,
            one.ending.job_state,
            one.ending.reason,
            _result(one),
            _error(one),
            one.ending.tries,
            _time(one.ending.wake_at),
            now if one.ending.final else None,
            "accepted" if _accepted(one) else "unreviewed",
        )
        for one in closings
    ]
    _update(
        "UPDATE scheduling_job j SET state = x.state, reason = x.reason, "
        "result = coalesce(x.result, j.result), error = x.error, tries = x.tries, "
        "wake_at = x.wake, finished_at = x.ended, outcome = x.outcome, changed = true "
        "FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::jsonb[], %s::jsonb[], %s::int[], "
        "%s::timestamptz[], %s::timestamptz[], %s::text[]) "
        "AS x(id, state, reason, result, error, tries, wake, ended, outcome) WHERE j.id = x.id",
        [],
        rows,
    )


def deferred_wake(tenants: Collection[uuid.UUID], now: datetime) -> None:
    """Send the tenants' oldest jobs that wait for budget back to admission.

    The rows are picked in a materialised step: in a plain `IN (... LIMIT ...)` the server may pick
    anew for every row that it looks at, which is slow and goes past the limit.
    """
    for tenant in sorted(tenants):
        with connection.cursor() as cursor:
            cursor.execute(
                "WITH due AS MATERIALIZED (SELECT id FROM scheduling_job "
                "WHERE tenant_id = %s AND state = 'deferred' AND reason = 'budget' "
                "AND (wake_at IS NULL OR wake_at > %s) ORDER BY seq LIMIT %s "
                "FOR UPDATE SKIP LOCKED) "
                "UPDATE scheduling_job j SET wake_at = %s FROM due WHERE j.id = due.id",
                [tenant, now, WAKE_AT_ONCE, now],
            )


def _update(statement: str, first: list[Any], rows: Sequence[tuple[Any, ...]]) -> None:
    if not rows:
        return
    with connection.cursor() as cursor:
        cursor.execute(statement, [*first, *(list(column) for column in zip(*rows, strict=True))])


def _usage(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {}
    usage = asdict(outcome.usage)
    return usage | {"worker_seconds": str(usage["worker_seconds"])}


def _result(closing: Closing) -> Jsonb | None:
    if closing.outcome is None:
        return None
    if closing.outcome.result is not None:
        return Jsonb(closing.outcome.result)
    partial = closing.outcome.partial_text
    return Jsonb({"partial_text": partial}) if partial else None


def _error(closing: Closing) -> Jsonb | None:
    outcome = closing.outcome
    if outcome is None:
        return Jsonb({"class": "lost", "message": "The worker was lost."})
    if outcome.error_class is None:
        return None
    return Jsonb({"class": outcome.error_class, "message": outcome.message})


def _accepted(closing: Closing) -> bool:
    return closing.ending.event == "finished" and not closing.attempt.job.workflow.needs_review


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
