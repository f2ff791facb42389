"""The limits that are set, what is in use of each, and the last minute's dispatches.

All of it is derived from attempts: live ones hold what a running limit counts; a rate counts those
that were dispatched within the span. Those are found by their ids, which sort by time (version 7),
so no index is written for them.
"""

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import connection
from django.utils import timezone

from scheduling.core.policy.windows import SPAN_S, Dispatched
from scheduling.core.states import Phase
from scheduling.models import Limit, LimitRaise
from scheduling.models.limit import EVERYTHING, RUNNING, TOKENS
from scheduling.selectors.raises import raises_by_limit, subject_of

_CLOCKS_APART_S = 60.0
"""By so much the clock that made an id may be behind the one that asks."""

_RECENT = """
SELECT extract(epoch FROM a.dispatched_at)::float8, j.tenant_id::text, e.provider,
    j.input_tokens + j.output_tokens
FROM scheduling_attempt a
JOIN scheduling_job j ON j.id = a.job_id
JOIN scheduling_executor e ON e.id = a.executor_id
WHERE a.id >= %s AND a.dispatched_at > clock_timestamp() - make_interval(secs => %s)
  AND a.job_class <> 'review'
ORDER BY a.dispatched_at
"""

_LIVE = """
SELECT j.pool_id::text, a.executor_id::text, e.provider, j.submitted_by, j.keys, j.phase
FROM scheduling_attempt a
JOIN scheduling_job j ON j.id = a.job_id
JOIN scheduling_executor e ON e.id = a.executor_id
WHERE a.state IN ('dispatched', 'running', 'stopping')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInUse:
    """A limit with what is in use of it: live jobs, or requests or tokens of the last minute.

    `escalations` are those in force, `in_force` the limit with them.
    """

    limit: Limit
    in_use: int
    escalations: Sequence[LimitRaise] = ()

    @property
    def in_force(self) -> int:
        """The limit as it holds now."""
        return self.limit.value + sum(one.extra for one in self.escalations)


def recent_dispatches() -> list[Dispatched]:
    """Return what was dispatched within the span of a rate window, the oldest first."""
    since = first_id(time.time() - SPAN_S - _CLOCKS_APART_S)
    with connection.cursor() as cursor:
        cursor.execute(_RECENT, [since, SPAN_S])
        return [Dispatched(*row) for row in cursor.fetchall()]


def limits_in_use(limits: Iterable[Limit]) -> list[LimitInUse]:
    """Return limits with what is in use of each now."""
    rows = list(limits)
    running = _running() if any(row.measure == RUNNING for row in rows) else Counter()
    rates = _rates() if any(row.measure != RUNNING for row in rows) else (Counter(), Counter())
    raised, found = raises_by_limit(timezone.now()), []
    for row in rows:
        counted = running if row.measure == RUNNING else rates[row.measure == TOKENS]
        used, raises = counted[row.scope, row.scope_id], raised.get(subject_of(row), ())
        found.append(LimitInUse(limit=row, in_use=used, escalations=raises))
    return found


def _running() -> Counter[tuple[str, str]]:
    """Return the live jobs by scope and id."""
    counts: Counter[tuple[str, str]] = Counter()
    with connection.cursor() as cursor:
        cursor.execute(_LIVE)
        for pool, executor, provider, user, keys, phase in cursor.fetchall():
            counts.update([("executor", executor), ("provider", provider)])
            if phase == Phase.REVIEW:
                continue  # it counts where it lies alone
            counts.update([("global", EVERYTHING), ("pool", pool), ("user", user)])
            counts.update({("key", key) for key in keys})
    return counts


def _rates() -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Return the requests and the tokens of the last minute by scope and id."""
    requests: Counter[tuple[str, str]] = Counter()
    tokens: Counter[tuple[str, str]] = Counter()
    for one in recent_dispatches():
        for key in one.limit_keys():
            requests[key] += 1
            tokens[key] += one.tokens
    return requests, tokens


def first_id(at: float) -> uuid.UUID:
    """Return the least version 7 id that is made at a time (epoch seconds) or later."""
    return uuid.UUID(int=max(0, int(at * 1000)) << 80)
