"""What was measured of models: how good their accepted work was, and how fast they answer."""

from collections.abc import Collection

from django.db import connection

REVIEWED_DAYS = 30
LAST_RUNS = 100
"""So many of the last complete attempts of an executor say how fast a model is there."""

_RUNS = "coalesce(nullif(j.runs_model, ''), j.model)"
_QUALITY = f"""
SELECT {_RUNS} AS runs, avg((j.outcome = 'accepted')::int)::float8
FROM scheduling_job j JOIN scheduling_workflow w ON w.id = j.workflow_id
WHERE j.outcome IN ('accepted', 'rejected') AND (j.needs_review OR w.needs_review)
  AND j.finished_at > clock_timestamp() - make_interval(days => %s)
  AND {_RUNS} = ANY(%s::text[])
GROUP BY runs
"""  # noqa: S608 (constants)
_LATENCY = """
SELECT a.model,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM a.ended_at - a.started_at))
FROM scheduling_executor e CROSS JOIN LATERAL (
    SELECT model, started_at, ended_at, state FROM scheduling_attempt
    WHERE executor_id = e.id AND ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT %s
) a WHERE e.models_offered && %s::varchar[] AND a.state = 'complete' AND a.model = ANY(%s::text[])
GROUP BY a.model
"""


def quality_of(models: Collection[str]) -> dict[str, float]:
    """Return the share of accepted jobs among the reviewed ones of each model that has any."""
    return _measured(_QUALITY, [REVIEWED_DAYS, list(models)]) if models else {}


def latency_of(models: Collection[str]) -> dict[str, float]:
    """Return the median seconds that recent attempts of each model ran, of those that did."""
    names = list(models)
    return _measured(_LATENCY, [LAST_RUNS, names, names]) if names else {}


def _measured(statement: str, values: list[int | list[str]]) -> dict[str, float]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return {model: float(value) for model, value in cursor.fetchall()}
