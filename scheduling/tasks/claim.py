"""Claiming: a message's attempts become this worker's in one statement.

A message that comes again, late or for a canceled job finds nothing to claim: the fence, the state
and the job must all still agree.
"""

import json
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from django.conf import settings
from msgspec import Struct

from billing.services.sets import array
from tenants.prepared import prepared

# Rows are looked up one by one by their ids (OFFSET 0 keeps conditions out): the tables swing between
# empty and full faster than the server's statistics, so a plan that may choose walks all live jobs
# for each attempt. The update is joined to nothing, or each attempt would be compared with all, and
# its state is written so that no index of live attempts holds it.
_CLAIM = """
WITH mine AS MATERIALIZED (
    SELECT a.id, a.fence, j.id AS job, j.kind, j.payload,
        coalesce(nullif(j.runs_model, ''), j.model) AS model, j.idempotent, j.input_tokens,
        j.output_tokens, j.max_spend, j.max_tokens, j.step_fence, j.checkpoint, e.slug, e.kind AS executor_kind, e.provider, e.slots,
        e.endpoint, e.models_offered
    FROM unnest(%s::uuid[], %s::int[]) AS x(id, fence)
    CROSS JOIN LATERAL (SELECT * FROM scheduling_attempt WHERE id = x.id OFFSET 0) a
    CROSS JOIN LATERAL (SELECT * FROM scheduling_job WHERE id = a.job_id OFFSET 0) j
    CROSS JOIN LATERAL (SELECT * FROM scheduling_executor WHERE id = a.executor_id OFFSET 0) e
    WHERE a.fence = x.fence AND j.fence = a.fence AND j.state = 'running'
      AND NOT j.cancel_requested AND j.phase = 'work'
), taken AS (
    UPDATE scheduling_attempt
    SET state = 'running', worker_id = %s, started_at = clock_timestamp(),
        lease_until = clock_timestamp() + make_interval(secs => %s)
    WHERE id = ANY(ARRAY(SELECT id FROM mine)) AND state || '' = 'dispatched'
    RETURNING id
)
SELECT * FROM mine WHERE id = ANY(ARRAY(SELECT id FROM taken))
"""


class Claimed(Struct, frozen=True, kw_only=True):
    """An attempt that this worker now owns, with all that running it needs."""

    attempt_id: uuid.UUID
    fence: int
    job_id: uuid.UUID
    kind: str
    payload: dict[str, Any]
    model: str
    idempotent: bool
    input_tokens: int
    output_tokens: int
    max_spend: Decimal | None
    max_tokens: int | None
    step_fence: int
    checkpoint: dict[str, Any] | None
    executor: str
    executor_kind: str
    provider: str
    slots: int
    endpoint: str
    models: tuple[str, ...]


def attempts_claim(*, worker_id: int, pairs: Sequence[tuple[str, int]]) -> list[Claimed]:
    """Claim what is still to be had of (attempt, fence) pairs, in their order."""
    ids = [uuid.UUID(attempt) for attempt, _ in pairs]
    fences = [fence for _, fence in pairs]
    with prepared() as cursor:
        cursor.execute(_CLAIM, [array(ids), array(fences), worker_id, settings.WORKER_LEASE_S])
        rows = cursor.fetchall()
    claimed = [_claimed(row) for row in rows]
    places = {attempt: place for place, attempt in enumerate(ids)}
    return sorted(claimed, key=lambda one: places[one.attempt_id])


def _claimed(row: tuple[Any, ...]) -> Claimed:
    (attempt, fence, job, kind, payload, model, idempotent, *rest) = row
    tokens_in, tokens_out, max_spend, max_tokens, step_fence, checkpoint, *executor = rest
    slug, executor_kind, provider, slots, endpoint, models = executor
    return Claimed(
        attempt_id=attempt,
        fence=fence,
        job_id=job,
        kind=kind,
        payload=json.loads(payload),  # Django reads jsonb as text in its raw cursors
        model=model or (models[0] if models else ""),
        idempotent=idempotent,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        max_spend=max_spend,
        max_tokens=max_tokens,
        step_fence=step_fence,
        checkpoint=None if checkpoint is None else json.loads(checkpoint),
        executor=slug,
        executor_kind=executor_kind,
        provider=provider,
        slots=slots,
        endpoint=endpoint,
        models=tuple(models),
    )
