"""From how a call ended to its outcome: which class, which sentence, and what is to be paid.

Whatever the server began to work on is charged, at its own counts or at our estimate; what it
refused, or never got, is not.
"""

import logging
import traceback
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from scheduling.executors.completion import Completion
from scheduling.executors.contract import ErrorClass, Outcome, Status, Usage, status_of
from scheduling.executors.endpoint import Endpoint
from scheduling.executors.faults import ServerFault, one_line
from scheduling.executors.usage import unused
from scheduling.executors.watch import Stopped
from scheduling.kinds.contract import UnusableAnswer
from scheduling.kinds.registry import UnknownKind

log = logging.getLogger(__name__)

_FAULTS: tuple[tuple[tuple[type[Exception], ...], ErrorClass, str], ...] = (
    (
        (httpcore.TimeoutException,),
        ErrorClass.TIMEOUT,
        "{server} did not take the request in time",
    ),
    (
        (httpcore.NetworkError, httpcore.ProtocolError),
        ErrorClass.INTERRUPTED,
        "the connection to {server} broke before the answer was whole",
    ),
    (
        (httpx.DecodingError,),
        ErrorClass.INVALID_RESPONSE,
        "the response of {server} cannot be decoded",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why a call did not complete; `worked` says whether the server had begun to work."""

    error_class: ErrorClass
    message: str
    retry_after_s: float | None = None
    worked: bool = True


def ending_of(error: Exception, endpoint: Endpoint, *, heard: bool = True) -> Ending:
    """The ending that an exception means. One that nobody foresaw is ours, and logged.

    `heard` False says that no server can have taken the request (see `Watch.was_heard`).
    """
    if isinstance(error, Stopped):
        return Ending(error_class=error.error_class, message=error.sentence)
    if isinstance(error, ServerFault):
        return _server_ending(error, endpoint)
    if isinstance(error, UnknownKind):
        return Ending(error_class=ErrorClass.INVALID_REQUEST, message=str(error), worked=False)
    if isinstance(error, UnusableAnswer):
        return Ending(error_class=ErrorClass.INVALID_RESPONSE, message=str(error))
    if not heard and isinstance(error, httpcore.NetworkError | httpcore.ProtocolError):
        return _unreachable(endpoint)
    return _network_ending(error, endpoint) or _internal_ending(error)


def outcome_of(
    call: Completion, ending: Ending | None, result: dict[str, Any] | None, elapsed_s: float
) -> Outcome:
    """The outcome of a call; no ending means that it completed with this result."""
    usage = _usage(call, ending, elapsed_s)
    if ending is None:
        return Outcome(status=Status.COMPLETE, usage=usage, result=result)
    return Outcome(
        status=status_of(ending.error_class),
        usage=usage,
        error_class=ending.error_class,
        message=ending.message,
        retry_after_s=ending.retry_after_s,
        partial_text=call.answer.text,
    )


def _usage(call: Completion, ending: Ending | None, elapsed_s: float) -> Usage:
    worked = ending is None or (ending.worked and call.sent)
    if worked or call.answer.has_token or call.meter.reported:
        partial = ending is not None and ending.error_class is not ErrorClass.INVALID_RESPONSE
        return call.meter.usage(call.answer.written(), elapsed_s=elapsed_s, partial=partial)
    return unused(requests=int(call.sent), elapsed_s=elapsed_s)


def _server_ending(fault: ServerFault, endpoint: Endpoint) -> Ending:
    return Ending(
        error_class=fault.error_class,
        message=one_line(fault.message, secrets=(endpoint.api_key,)),
        retry_after_s=fault.retry_after_s,
        worked=fault.error_class is ErrorClass.INTERRUPTED,
    )


def _unreachable(endpoint: Endpoint) -> Ending:
    sentence = f"cannot connect to {endpoint.shown()}; is it running, and is the address right?"
    return Ending(error_class=ErrorClass.UNREACHABLE, message=sentence, worked=False)


def _network_ending(error: Exception, endpoint: Endpoint) -> Ending | None:
    if isinstance(error, httpcore.ConnectError | httpcore.ConnectTimeout):
        return _unreachable(endpoint)
    for types, error_class, sentence in _FAULTS:
        if isinstance(error, types):
            return Ending(error_class=error_class, message=sentence.format(server=endpoint.shown()))
    return None


def _internal_ending(error: Exception) -> Ending:
    """Only the type and the place are told: the text of an exception may hold a key or a prompt."""
    name = type(error).__name__
    frame = traceback.extract_tb(error.__traceback__)[-1]
    log.error("executor fault: %s in %s line %s", name, frame.name, frame.lineno)
    return Ending(
        error_class=ErrorClass.INTERNAL,
        message=f"a fault of the executor itself ({name}); its log says where",
    )
