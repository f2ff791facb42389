"""The rows of a settled set: locked in one statement, written back in one.

Theory of the lock. Rows are locked in the order of arrival, each job before its attempt, and
nobody who waits for a job holds an attempt; so two sets never wait for each other in a circle. The
server reads a row that it had to wait for anew, and so what is returned is the newest of both.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from msgspec import Struct

from billing.services.sets import array, columns, json_text
from scheduling.core.states import Phase
from scheduling.core.types import Reason
from scheduling.executors.contract import Outcome
from scheduling.services.endings import Course, Ending
from tenants.prepared import prepared

WAKE_AT_ONCE = 20
"""How many of a tenant's budget-deferred jobs one release sends back to admission."""
MESSAGE_LENGTH = 500
LOST = "The worker was lost."
BROKEN_OFF = "Its review was not ended."

# The jobs are named by their ids, and sorted by a sum that no index holds: else the server may walk
# all jobs in the order of arrival and look for the attempts among them.
_LOCK = """
SELECT j.id, j.kind, j.tenant_id, j.workspace_id, j.workflow_id, j.mission_id, j.submitted_by, j.state,
    j.fence, j.phase, j.step, j.step_fence, j.tries, j.max_attempts, j.idempotent, j.cancel_requested, j.deadline,
    a.id AS attempt_id, a.fence AS attempt_fence, a.state AS attempt_state, a.stop_for, a.executor_id,
    a.cost, a.charge, a.reviewer, a.started_at, a.dispatched_at, w.needs_review OR j.needs_review AS needs_review, e.provider,
    e.model, j.model AS asked_model, a.expected_s,
    EXISTS (
        SELECT 1 FROM scheduling_circuit c WHERE c.executor_id = a.executor_id
          AND c.model IN ('', e.model) AND (c.state <> 'closed' OR c.failures > 0)
    ) AS is_troubled
FROM scheduling_attempt a
JOIN scheduling_job j ON j.id = a.job_id
CROSS JOIN LATERAL (SELECT * FROM scheduling_workflow WHERE id = j.workflow_id OFFSET 0) w
CROSS JOIN LATERAL (
    SELECT provider, CASE WHEN kind = 'human' THEN kind ELSE coalesce(
        nullif(a.model, ''), nullif(j.runs_model, ''), nullif(j.model, ''), models_offered[1], kind
    ) END AS model FROM scheduling_executor WHERE id = a.executor_id OFFSET 0
) e
WHERE a.id = ANY(%s::uuid[])
    AND j.id = ANY(ARRAY(SELECT job_id FROM scheduling_attempt WHERE id = ANY(%s::uuid[])))
ORDER BY j.seq + 0, a.fence
FOR UPDATE OF j, a
"""
_CLOSE = """
WITH closing AS MATERIALIZED (
    SELECT * FROM unnest(
        %s::uuid[], %s::text[], %s::text[], %s::text[], %s::jsonb[], %s::numeric[], %s::bigint[],
        %s::uuid[], %s::text[], %s::text[], %s::jsonb[], %s::jsonb[], %s::int[],
        %s::timestamptz[], %s::bool[], %s::text[], %s::int[], %s::jsonb[], %s::text[]
    ) AS x(
        attempt, attempt_state, class, message, usage, spend, due,
        job, state, reason, result, error, tries, wake, final, outcome, stepped, checkpoint, phase
    )
), ended AS (
    UPDATE scheduling_attempt a SET state = x.attempt_state, error_class = x.class,
        message = x.message, usage = x.usage, spend = x.spend, charge_due = x.due, ended_at = %s
    FROM closing x WHERE a.id = x.attempt AND a.id = ANY(%s::uuid[])
)
UPDATE scheduling_job j SET state = x.state, reason = x.reason,
    result = coalesce(x.result, j.result), error = x.error, tries = x.tries, wake_at = x.wake,
    finished_at = CASE WHEN x.final THEN %s::timestamptz END, outcome = x.outcome,
    step = j.step + x.stepped, step_fence = CASE WHEN x.stepped = 1 THEN j.fence
        ELSE j.step_fence + (x.attempt_state = 'preempted')::int END,
    preemptions = j.preemptions + (x.attempt_state = 'preempted')::int,
    checkpoint = coalesce(x.checkpoint, j.checkpoint), phase = coalesce(x.phase, j.phase),
    changed = pg_current_xact_id()
FROM closing x WHERE j.id = x.job AND j.id = ANY(%s::uuid[])
"""
# The jobs are picked in a materialised step: in a plain `IN (... LIMIT ...)` the server may pick
# anew for every row that it looks at, which is slow and goes past the limit.
_WAKE = """
WITH due AS MATERIALIZED (
    SELECT j.id FROM unnest(%s::uuid[]) AS t(id) CROSS JOIN LATERAL (
        SELECT id FROM scheduling_job
        WHERE tenant_id = t.id AND state = 'deferred' AND reason = 'budget'
          AND (wake_at IS NULL OR wake_at > %s)
        ORDER BY seq LIMIT %s FOR UPDATE SKIP LOCKED
    ) j
)
UPDATE scheduling_job j SET wake_at = %s
FROM due WHERE j.id = due.id AND j.id = ANY(ARRAY(SELECT id FROM due))
"""
_ATTEMPT_WIDTH = 7
"""So many of the columns are the attempt's; the next is the job's id."""


class Locked(Course, frozen=True, kw_only=True):
    """A job with one attempt of it, both locked: what settling has to know of them.

    `model` is what the attempt runs: the job's at its dispatch, else the first that its executor offers, else the
    executor's kind. `asked_model` is what the job was submitted with. `is_troubled`: a circuit of
    the executor has something to recover from.
    """

    id: uuid.UUID
    tenant_id: uuid.UUID
    workspace_id: uuid.UUID
    workflow_id: uuid.UUID
    mission_id: uuid.UUID | None
    submitted_by: str
    state: str
    step: int
    attempt_id: uuid.UUID
    attempt_fence: int
    attempt_state: str
    executor_id: uuid.UUID
    cost: int
    charge: int
    reviewer: str
    started_at: datetime | None
    dispatched_at: datetime
    provider: str
    model: str
    is_troubled: bool


class Closing(Struct, frozen=True, kw_only=True):
    """A live attempt with what its worker reported and what follows from it."""

    locked: Locked
    outcome: Outcome | None
    ending: Ending
    charge_due: int | None

    @property
    def message(self) -> str:
        """What is said of the attempt's end in a line."""
        if self.outcome is not None:
            return self.outcome.message[:MESSAGE_LENGTH]
        return BROKEN_OFF if self.locked.phase == Phase.REVIEW else LOST


def attempts_lock(ids: Collection[uuid.UUID]) -> list[Locked]:
    """Lock the attempts and their jobs, and return them in the order of arrival."""
    with prepared() as cursor:
        wanted = array(ids)
        cursor.execute(_LOCK, [wanted, wanted])
        names = [column.name for column in cursor.description]
        return [Locked(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def attempts_close(
    closings: Sequence[Closing], spend: Mapping[uuid.UUID, Decimal], now: datetime
) -> None:
    """Write the end of the attempts and what becomes of their jobs, as a change for the governor."""
    if not closings:
        return
    sets = columns((*_attempt_row(one, spend), *_job_row(one)) for one in closings)
    with prepared() as cursor:
        cursor.execute(_CLOSE, [*sets, now, sets[0], now, sets[_ATTEMPT_WIDTH]])


def deferred_wake(
    tenants: Collection[uuid.UUID], now: datetime, *, most: int = WAKE_AT_ONCE
) -> None:
    """Send each tenant's oldest jobs that wait for budget, at most so many, back to admission."""
    if not tenants:
        return
    with prepared() as cursor:
        cursor.execute(_WAKE, [array(sorted(tenants)), now, most, now])


def _attempt_row(one: Closing, spend: Mapping[uuid.UUID, Decimal]) -> tuple[object, ...]:
    outcome, attempt_id = one.outcome, one.locked.attempt_id
    return (
        attempt_id,
        one.ending.attempt_state,
        (outcome.error_class or "") if outcome else "",
        one.message,
        _usage(outcome),
        spend.get(attempt_id, Decimal(0)),
        one.charge_due,
    )


def _job_row(one: Closing) -> tuple[object, ...]:
    ending = one.ending
    return (
        one.locked.id,
        ending.job_state,
        ending.reason,
        _result(one.outcome),
        None
        if ending.made_room or one.locked.phase == Phase.REVIEW
        else _error(one.outcome, ending.retry_at),
        ending.tries,
        None if ending.wake_at is None else datetime.fromtimestamp(ending.wake_at, tz=UTC),
        ending.final,
        ending.outcome,
        int(ending.stepped),
        _checkpoint(one),
        ending.phase,
    )


def _usage(outcome: Outcome | None) -> str:
    return "{}" if outcome is None else json_text(outcome.usage)


def _result(outcome: Outcome | None) -> str | None:
    if outcome is None:
        return None
    if outcome.result is not None:
        return json_text(outcome.result)
    return json_text({"partial_text": outcome.partial_text}) if outcome.partial_text else None


def _checkpoint(one: Closing) -> str | None:
    goes_on = one.ending.stepped or one.ending.made_room
    if one.outcome is None or one.outcome.next is None or not goes_on:
        return None
    return json_text(one.outcome.next.checkpoint)


def _error(outcome: Outcome | None, retry_at: float | None) -> str | None:
    if outcome is None:
        return json_text({"class": "lost", "message": LOST})
    if outcome.ceiling:
        return json_text({"class": Reason.HARD_CEILING, "message": outcome.ceiling})
    if outcome.error_class is None or outcome.unfunded is not None:
        return None
    error = {"class": outcome.error_class, "message": outcome.message}
    if retry_at is not None:
        error["retry_at"] = datetime.fromtimestamp(retry_at, tz=UTC).isoformat()
    return json_text(error)
