"""Circuits: moved with each settled set by the pure table of the breaker.

A refused key (401) and a rate limit (429) concern the executor's key, and so all of its models;
any other fault of a provider concerns the model that ran. Callers make their calls with clients and
keys of their own, so what becomes of those says nothing of what all share. Only what has failed has
a row. Rows are
made and locked in the order of (executor, model), so that two sets never wait in a circle.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from django.db.backends.utils import CursorWrapper

from billing.services.sets import columns
from scheduling.core.breaker import Breaker, Circuit, Signal, after
from scheduling.core.policy.settings import Policy
from scheduling.core.types import KEY
from scheduling.executors.contract import ErrorClass
from scheduling.services.settlement_rows import Closing
from tenants.prepared import prepared

Row: TypeAlias = tuple[uuid.UUID, str, str, int, datetime | None]
Which: TypeAlias = tuple[uuid.UUID, str]
"""(executor, model)"""

_SIGNALS = {
    ErrorClass.UNREACHABLE: Signal.FAILURE,
    ErrorClass.TIMEOUT: Signal.FAILURE,
    ErrorClass.PROVIDER_ERROR: Signal.FAILURE,
    ErrorClass.INTERRUPTED: Signal.FAILURE,
    ErrorClass.INVALID_RESPONSE: Signal.FAILURE,
    ErrorClass.RATE_LIMITED: Signal.RATE_LIMITED,
    ErrorClass.UNAUTHORIZED: Signal.RATE_LIMITED,
}
"""What an attempt's end says of its provider; the other errors are the job's own."""

_MAKE = """
INSERT INTO scheduling_circuit (executor_id, model, state, failures)
SELECT executor, model, 'closed', 0 FROM unnest(%s::uuid[], %s::text[]) k(executor, model)
ORDER BY executor, model ON CONFLICT DO NOTHING
"""
_LOCK = """
SELECT c.executor_id, c.model, c.state, c.failures, c.until FROM scheduling_circuit c
JOIN unnest(%s::uuid[], %s::text[]) k(executor, model)
    ON c.executor_id = k.executor AND c.model = k.model
ORDER BY c.executor_id, c.model FOR NO KEY UPDATE OF c
"""
_SAVE = """
UPDATE scheduling_circuit c SET state = k.state, failures = k.failures, until = k.until
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::int[], %s::timestamptz[])
    k(executor, model, state, failures, until)
WHERE c.executor_id = k.executor AND c.model = k.model
"""


def circuits_move(closings: Sequence[Closing], policy: Policy, now: datetime) -> None:
    """Apply the ends of a set to the circuits that they concern; untouched ones are not locked."""
    heard: dict[Which, list[tuple[Signal, float | None]]] = defaultdict(list)
    failed: set[Which] = set()
    for closing in closings:
        for which, signal in _heard(closing):
            outcome = closing.outcome
            heard[which].append((signal, outcome.retry_after_s if outcome else None))
            if signal is not Signal.SUCCESS:
                failed.add(which)
    if not heard:
        return
    with prepared() as cursor:
        if failed:
            cursor.execute(_MAKE, columns(sorted(failed)))
        cursor.execute(_LOCK, columns(sorted(heard)))
        moved = [
            (row, _moved(circuit_of(*row[2:]), heard[row[0], row[1]], policy, now))
            for row in cursor.fetchall()
        ]
        _save(cursor, moved)


def circuit_of(state: str, failures: int, until: datetime | None) -> Breaker:
    """Return a stored circuit as the core sees it."""
    return Breaker(
        state=Circuit(state),
        failures=failures,
        open_until=until.timestamp() if until else 0.0,
    )


def _heard(closing: Closing) -> Iterator[tuple[Which, Signal]]:
    """Yield the circuits that an end concerns, and what it says of each."""
    outcome, locked = closing.outcome, closing.locked
    if outcome is None or locked.by_caller:
        return
    key, model = (locked.executor_id, KEY), (locked.executor_id, locked.model)
    if outcome.error_class is None:
        if locked.is_troubled:
            yield key, Signal.SUCCESS
            yield model, Signal.SUCCESS
        return
    signal = _SIGNALS.get(outcome.error_class)
    if signal is not None:
        yield (key if signal is Signal.RATE_LIMITED else model), signal


def _moved(
    breaker: Breaker,
    heard: Sequence[tuple[Signal, float | None]],
    policy: Policy,
    now: datetime,
) -> Breaker:
    for signal, retry_after_s in heard:
        breaker = after(
            breaker,
            signal,
            now=now.timestamp(),
            settings=policy.breaker,
            retry_after_s=retry_after_s,
        )
    return breaker


def _save(cursor: CursorWrapper, moved: Sequence[tuple[Row, Breaker]]) -> None:
    rows = [
        (row[0], row[1], breaker.state.value, breaker.failures, _until(breaker))
        for row, breaker in moved
    ]
    if rows:
        cursor.execute(_SAVE, columns(rows))


def _until(breaker: Breaker) -> datetime | None:
    return datetime.fromtimestamp(breaker.open_until, tz=UTC) if breaker.open_until else None
