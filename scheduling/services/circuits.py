"""The executors' circuits: moved with each settled set by the pure table of the breaker."""

from collections.abc import Sequence
from datetime import UTC, datetime

from scheduling.core.breaker import Breaker, Circuit, Signal, after
from scheduling.core.policy.settings import Policy
from scheduling.executors.contract import ErrorClass
from scheduling.models import Executor
from scheduling.services.settlement_rows import Closing

_SIGNALS = {
    ErrorClass.UNREACHABLE: Signal.FAILURE,
    ErrorClass.TIMEOUT: Signal.FAILURE,
    ErrorClass.PROVIDER_ERROR: Signal.FAILURE,
    ErrorClass.INTERRUPTED: Signal.FAILURE,
    ErrorClass.INVALID_RESPONSE: Signal.FAILURE,
    ErrorClass.RATE_LIMITED: Signal.RATE_LIMITED,
    ErrorClass.UNAUTHORIZED: Signal.RATE_LIMITED,
}
"""What an attempt's end says of its executor; the other errors are the job's own."""


def circuits_move(closings: Sequence[Closing], policy: Policy, now: datetime) -> None:
    """Apply the ends of a set to the circuits that they concern; untouched ones are not locked."""
    concerned = {
        one.locked.executor_id
        for one in closings
        if _signal(one) is not Signal.SUCCESS or one.locked.is_troubled
    }
    if not concerned:
        return
    rows = Executor.objects.filter(id__in=concerned).order_by("id").select_for_update(no_key=True)
    for row in rows:
        own = [one for one in closings if one.locked.executor_id == row.id]
        circuit_save(row, _moved(row, own, policy, now))


def circuit_of(row: Executor) -> Breaker:
    """Return the executor's circuit as the core sees it."""
    return Breaker(
        state=Circuit(row.circuit),
        failures=row.circuit_failures,
        open_until=row.circuit_until.timestamp() if row.circuit_until else 0.0,
    )


def circuit_save(row: Executor, breaker: Breaker) -> None:
    """Store a circuit."""
    row.circuit = breaker.state
    row.circuit_failures = breaker.failures
    until = datetime.fromtimestamp(breaker.open_until, tz=UTC) if breaker.open_until else None
    row.circuit_until = until
    row.save(update_fields=["circuit", "circuit_failures", "circuit_until"])


def _moved(row: Executor, own: Sequence[Closing], policy: Policy, now: datetime) -> Breaker:
    breaker = circuit_of(row)
    for one in own:
        signal = _signal(one)
        if signal is not None and one.outcome is not None:
            breaker = after(
                breaker,
                signal,
                now=now.timestamp(),
                settings=policy.breaker,
                retry_after_s=one.outcome.retry_after_s,
            )
    return breaker


def _signal(closing: Closing) -> Signal | None:
    outcome = closing.outcome
    if outcome is None:
        return None
    if outcome.error_class is None:
        return Signal.SUCCESS
    return _SIGNALS.get(outcome.error_class)
