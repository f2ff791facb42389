"""What came and how long it ran, in hours and groups: what a forecast is made of.

A reading is kept for some minutes (`readings`). Rows are found by their ids, which sort by time
(version 7).
"""

import msgspec
from django.db import connection

from scheduling.models import Pool
from scheduling.selectors.foresight.readings import reading
from scheduling.selectors.limits import first_id

WEEKS = 8
WEEK_S = 7 * 86_400
_CLOCKS_APART_S = 60.0
"""By so much the clock that made an id may be behind the database's."""
KEY = "telemachus:history:"
GROUPINGS = {
    "workflow": "w.slug",
    "kind": "j.kind",
    "model": "coalesce(nullif(j.runs_model, ''), j.model)",
    "label": "l.label",
}
"""What arrivals and runs may be told apart by; a job with several labels counts under each."""
_LABELS = """
CROSS JOIN LATERAL unnest(CASE WHEN j.labels = '{}' THEN ARRAY[''] ELSE j.labels END) l(label)
"""
_ARRIVALS = """
SELECT {key}, j.tenant_id::text, floor(extract(epoch FROM j.submitted_at) / 3600)::bigint, count(*)
FROM scheduling_job j JOIN scheduling_workflow w ON w.id = j.workflow_id {labels}
WHERE j.id >= %s AND j.pool_id = %s AND j.submitted_at >= to_timestamp(%s) AND j.state <> 'denied'
GROUP BY 1, 2, 3
"""
_RUNS = """
SELECT {key}, j.tenant_id::text, count(*), avg(r.s)::float8, coalesce(var_pop(r.s), 0)::float8,
    percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY r.s), avg(a.cost)::float8
FROM scheduling_attempt a
JOIN scheduling_job j ON j.id = a.job_id JOIN scheduling_workflow w ON w.id = j.workflow_id {labels}
CROSS JOIN LATERAL (
    SELECT greatest(0, extract(epoch FROM a.ended_at - a.dispatched_at))::float8 AS s
) r
WHERE a.id >= %s AND j.pool_id = %s AND a.state = 'complete' AND a.job_class <> 'review'
GROUP BY GROUPING SETS ((1, 2), ())
"""


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Measured runs (seconds from dispatch to settlement) and the units that they held."""

    count: int
    mean_s: float
    variance: float
    p10_s: float
    p50_s: float
    p90_s: float
    cost: float

    @property
    def scv(self) -> float:
        """The squared coefficient of variation."""
        return self.variance / self.mean_s**2 if self.mean_s else 1.0


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs told apart by a key, of one tenant (its id): arrivals by hour since the epoch, runs."""

    key: str
    tenant: str
    arrivals: dict[int, int]
    runs: Runs | None


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool has seen until `at` (epoch seconds); `runs` are those of all groups together."""

    at: float
    by: str
    groups: list[Group]
    runs: Runs | None


def pool_history(pool: Pool, by: str, now: float) -> History:
    """Return the last weeks of a pool, as a rule at most ten minutes old.

    Raises KeyError for a grouping that is not in `GROUPINGS`.
    """
    return reading(f"{KEY}{pool.id}:{by}", now, History, lambda: history_read(pool, by, now))


def history_read(pool: Pool, by: str, now: float) -> History:
    """Read the last weeks of a pool from the rows."""
    since = now - WEEKS * WEEK_S
    given = {"key": GROUPINGS[by], "labels": _LABELS if by == "label" else ""}
    arrivals: dict[tuple[str, str], dict[int, int]] = {}
    runs: dict[tuple[str | None, str | None], Runs] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            _ARRIVALS.format(**given), [first_id(since - _CLOCKS_APART_S), pool.id, since]
        )
        for key, tenant, hour, count in cursor.fetchall():
            arrivals.setdefault((key, tenant), {})[hour] = count
        cursor.execute(_RUNS.format(**given), [first_id(since), pool.id])
        for key, tenant, *figures in cursor.fetchall():
            if figures[0]:
                runs[key, tenant] = _runs(*figures)
    groups = [
        Group(key=key, tenant=tenant, arrivals=hours, runs=runs.get((key, tenant)))
        for (key, tenant), hours in arrivals.items()
    ]
    return History(at=now, by=by, groups=groups, runs=runs.get((None, None)))


def _runs(count: int, mean_s: float, variance: float, points: list[float], cost: float) -> Runs:
    p10_s, p50_s, p90_s = points
    return Runs(
        count=count,
        mean_s=mean_s,
        variance=variance,
        p10_s=p10_s,
        p50_s=p50_s,
        p90_s=p90_s,
        cost=cost,
    )
