"""How good the ETAs were that jobs were given: each beside what came true and the naive formula.

What was predicted stands in the attempt that completed (its first estimate, with the range); this
reads it for a span that has passed. The naive formula, pending x average / capacity, is worked out
for the same moment from the same rows: how many jobs of the pool had come and not been placed. Those
are counted in the database between the moments that are asked about. An answer is kept for some
minutes (`readings`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TypeAlias
from uuid import UUID

import msgspec
import numpy as np
from django.db import connection
from numpy.typing import NDArray

from scheduling.core.eta.calibration import Checked, Score, naive_s, score
from scheduling.models import Pool
from scheduling.selectors.foresight.readings import reading
from scheduling.selectors.limits import first_id

SPANS = {"day": timedelta(days=1), "week": timedelta(days=7)}
_GRACE = timedelta(days=30)
"""Attempts are found by their ids: one that ended in the span began at most so long before."""
MOST = 20_000
"""So many of the newest estimates are scored."""
KEY = "telemachus:honesty:"
_CHECKED = """
SELECT j.tenant_id::text, w.slug, extract(epoch FROM a.eta_at)::float8,
    extract(epoch FROM a.eta_finish - a.eta_at)::float8,
    extract(epoch FROM a.eta_low - a.eta_at)::float8,
    extract(epoch FROM a.eta_high - a.eta_at)::float8,
    extract(epoch FROM a.ended_at - a.eta_at)::float8,
    extract(epoch FROM a.ended_at - a.dispatched_at)::float8
FROM scheduling_attempt a
JOIN scheduling_job j ON j.id = a.job_id JOIN scheduling_workflow w ON w.id = j.workflow_id
WHERE a.id >= %s AND a.ended_at > to_timestamp(%s) AND j.pool_id = %s AND a.state = 'complete'
  AND a.job_class <> 'review' AND a.eta_finish IS NOT NULL AND a.eta_low IS NOT NULL
  AND (%s::uuid[] IS NULL OR j.tenant_id = ANY(%s::uuid[]))
ORDER BY a.id DESC LIMIT %s
"""
_PENDING = """
SELECT width_bucket(-p.at, %s::float8[]), sum(p.more)::bigint
FROM scheduling_job j LEFT JOIN scheduling_attempt a ON a.job_id = j.id AND a.fence = 1
CROSS JOIN LATERAL (VALUES
    (extract(epoch FROM j.submitted_at)::float8, 1), (extract(epoch FROM a.dispatched_at)::float8, -1)
) p(at, more)
WHERE j.id >= %s AND j.pool_id = %s AND p.at IS NOT NULL
  AND CASE WHEN a.id IS NULL THEN j.finished_at IS NULL
      ELSE a.dispatched_at > to_timestamp(%s) END
GROUP BY 1
"""
"""By how many of the moments (negative, from the last to the first) are not before it: the change."""
_Row: TypeAlias = tuple[str, str, float, float, float, float, float, float]
_Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Honesty:
    """The score of a tenant's workflow, or of all ("" and ""), beside the naive formula's error."""

    tenant: str
    workflow: str
    score: Score
    naive_error_s: float


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    at: float
    rows: list[Honesty]


def eta_honesty(
    pool: Pool, span: str, now: datetime, tenants: Collection[UUID] | None = None
) -> list[Honesty]:
    """Return the score of the `MOST` newest that came due in the span, then those of each workflow.

    `tenants` bounds whose workflows are told, and then what is summed up; None: everybody's.
    Empty without any prediction that came due. Raises KeyError for an unknown span.
    """
    since, wanted = now - SPANS[span], None if tenants is None else sorted(tenants)
    whose = "all" if wanted is None else sha256(b"".join(one.bytes for one in wanted)).hexdigest()
    at = now.timestamp()
    return reading(
        f"{KEY}{pool.id}:{span}:{whose}",
        at,
        _Told,
        lambda: _Told(at=at, rows=_honesty(pool, since, wanted)),
    ).rows


def _honesty(pool: Pool, since: datetime, wanted: list[UUID] | None) -> list[Honesty]:
    rows = _read(pool, since, wanted)
    if not rows:
        return []
    naive = _naive(pool, since, rows)
    by_key: dict[_Key, list[int]] = defaultdict(list, {("", ""): list(range(len(rows)))})
    for number, row in enumerate(rows):
        by_key[row[0], row[1]].append(number)
    return [_scored(key, [(rows[n], float(naive[n])) for n in own]) for key, own in by_key.items()]


def _read(pool: Pool, since: datetime, wanted: list[UUID] | None) -> list[_Row]:
    with connection.cursor() as cursor:
        oldest = first_id((since - _GRACE).timestamp())
        cursor.execute(_CHECKED, [oldest, since.timestamp(), pool.id, wanted, wanted, MOST])
        rows: list[_Row] = cursor.fetchall()
    return sorted(rows)


def _naive(pool: Pool, since: datetime, rows: list[_Row]) -> NDArray[np.float64]:
    """Return what the naive formula would have said when each prediction was made."""
    asked = np.array([row[2] for row in rows], dtype=np.float64)
    latest_first = np.argsort(-asked)
    oldest = since - _GRACE
    given = [(-asked[latest_first]).tolist(), first_id(oldest.timestamp()), pool.id]
    with connection.cursor() as cursor:
        cursor.execute(_PENDING, [*given, oldest.timestamp()])
        changes = cursor.fetchall()
    moved = np.zeros(len(rows) + 1)
    for bucket, change in changes:
        moved[bucket] = change
    pending = np.empty(len(rows))
    # What lies in bucket b had happened by the b latest moments: by the nth latest, all above n.
    pending[latest_first] = np.cumsum(moved[:0:-1])[::-1]
    one_s = naive_s(1, float(np.mean([row[7] for row in rows])), max(1, pool.budget))
    said: NDArray[np.float64] = np.maximum(pending, 0) * one_s
    return said


def _scored(key: _Key, own: Iterable[tuple[_Row, float]]) -> Honesty:
    checked, naive = [], []
    for row, naive_said in own:
        _, _, _, predicted, low, high, actual, _ = row
        checked.append(Checked(predicted_s=predicted, low_s=low, high_s=high, actual_s=actual))
        naive.append(abs(naive_said - actual))
    found = score(checked)
    assert found is not None  # noqa: S101 - a key stands for at least one row
    return Honesty(tenant=key[0], workflow=key[1], score=found, naive_error_s=float(np.mean(naive)))
