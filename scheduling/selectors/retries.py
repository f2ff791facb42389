"""What the attempts say of each provider's retry budget: its last minute's successes and retries.

The leader counts in memory; this is what it starts from. A retry is an attempt whose forerunner
failed at its provider, unless a fallback came between. Attempts that were dispatched within the
span are found by their ids, which sort by time (version 7).
"""

import time
from collections import defaultdict
from typing import Any

from django.db import connection

from scheduling.core.policy.settings import Policy
from scheduling.core.retry import SPAN_S, RetryBudget
from scheduling.kinds.contract import RunsBy
from scheduling.kinds.registry import KINDS, runs_by
from scheduling.selectors.limits import first_id

_CLOCKS_APART_S = 60.0
OURS = [name for name in KINDS if runs_by(name) is RunsBy.WORKERS]
"""What callers do with clients of their own counts for no provider."""
_RETRIES = """
SELECT e.provider, extract(epoch FROM a.dispatched_at)::float8
FROM scheduling_attempt a
JOIN scheduling_executor e ON e.id = a.executor_id
JOIN scheduling_attempt b ON b.job_id = a.job_id AND b.fence = a.fence - 1
WHERE a.id >= %s AND a.dispatched_at > clock_timestamp() - make_interval(secs => %s)
  AND b.state IN ('error', 'interrupted') AND NOT EXISTS (
    SELECT 1 FROM scheduling_jobevent v WHERE v.job_id = a.job_id AND v.event = 'fell_back'
      AND v.at BETWEEN b.ended_at AND a.dispatched_at
  )
ORDER BY a.dispatched_at
"""
_SUCCESSES = """
SELECT e.provider, floor(extract(epoch FROM a.ended_at))::bigint AS second, count(*)
FROM scheduling_executor e CROSS JOIN LATERAL (
    SELECT job_id, ended_at, state FROM scheduling_attempt
    WHERE executor_id = e.id AND ended_at > clock_timestamp() - make_interval(secs => %s) OFFSET 0
) a JOIN scheduling_job j ON j.id = a.job_id
WHERE a.state = 'complete' AND j.kind = ANY(%s::text[]) GROUP BY e.provider, second ORDER BY second
"""


def recent_retries(policy: Policy) -> dict[str, RetryBudget]:
    """Return the retry budgets of the providers that had a retry or a success within the span."""
    retries, successes = _by_provider(), _by_provider()
    with connection.cursor() as cursor:
        cursor.execute(_RETRIES, [first_id(time.time() - SPAN_S - _CLOCKS_APART_S), SPAN_S])
        for provider, at in cursor.fetchall():
            retries[provider].append(at)
        cursor.execute(_SUCCESSES, [SPAN_S, OURS])
        for provider, second, count in cursor.fetchall():
            successes[provider].append((int(second), count))
    return {
        provider: RetryBudget(
            policy.retry, retries=retries[provider], successes=successes[provider]
        )
        for provider in {*retries, *successes}
    }


def _by_provider() -> "defaultdict[str, list[Any]]":
    return defaultdict(list)
