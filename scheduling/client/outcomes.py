"""From what a caller's own model call gave, or raised, to the outcome that is settled and booked.

An answer's usage is read as OpenAI's API writes it, from an object or a mapping; what it does not
tell is taken from the estimate. Of an exception only the type is kept: its text may hold a key or a
prompt.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from scheduling.executors.contract import ErrorClass, Outcome, Status, Usage, status_of
from scheduling.executors.faults import class_of_status
from scheduling.executors.usage import Meter, Written, unused
from scheduling.kinds.contract import Estimate

_GIVEN_UP = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)
DEEPEST = 4
"""How far into a report of usage is looked: it is two objects deep."""


def completed(answer: object, estimate: Estimate, *, elapsed_s: float) -> Outcome:
    """Return the outcome of a call that gave an answer."""
    report = told_usage(answer)
    meter = Meter(estimate)
    meter.take(report)
    # Where no output is told, what was expected of it stands in for it.
    written = Written(tokens=0 if meter.reported else estimate.output_tokens)
    usage = meter.usage(written, elapsed_s=elapsed_s, partial=False)
    return Outcome(status=Status.COMPLETE, usage=usage)


def failed(error: BaseException, *, elapsed_s: float) -> Outcome:
    """Return the outcome of a call that raised."""
    error_class = class_of(error)
    return Outcome(
        status=status_of(error_class),
        usage=unused(requests=1, elapsed_s=elapsed_s),
        error_class=error_class,
        message=f"the call raised {type(error).__name__}",
    )


def given_up(*, elapsed_s: float = 0.0) -> Outcome:
    """Return the outcome of a slot that was given back without a call."""
    return Outcome(
        status=Status.CANCELED,
        usage=Usage() if elapsed_s <= 0 else unused(requests=0, elapsed_s=elapsed_s),
        error_class=ErrorClass.CANCELED,
        message="the slot was given back without a call",
    )


def class_of(error: BaseException) -> ErrorClass:
    """Return the error class of an exception: by the status of its answer, where it has one."""
    status = _status(error)
    if status is not None:
        return class_of_status(status)
    if isinstance(error, _GIVEN_UP):
        return ErrorClass.CANCELED
    name = type(error).__name__
    if isinstance(error, TimeoutError) or "Timeout" in name:
        return ErrorClass.TIMEOUT
    if isinstance(error, ConnectionError) or "Connect" in name:
        return ErrorClass.UNREACHABLE
    return ErrorClass.INTERNAL


def told_usage(answer: object) -> object:
    """Return the usage that an answer tells of as plain objects; None where it tells of none.

    An answer that cannot be read (it is a client's own, and may raise anything) tells of none.
    """
    try:
        told = (
            answer.get("usage") if isinstance(answer, Mapping) else getattr(answer, "usage", None)
        )
        return _plain(told, DEEPEST)
    except Exception:  # noqa: BLE001 (the call was made and its slot must be given back)
        return None


def _status(error: BaseException) -> int | None:
    """Read the status as the client libraries keep it: on the error, or on its response."""
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if isinstance(status, int) and status >= 400:
            return status
    return None


def _plain(value: object, depth: int) -> object:
    if not depth or value is None or isinstance(value, int | float | str):
        return value if depth else None
    if isinstance(value, Mapping):
        fields: Mapping[Any, Any] = value
    else:
        fields = getattr(value, "__dict__", {})
    return {str(name): _plain(one, depth - 1) for name, one in fields.items()}
