"""What every executor promises, and the values that pass between it and the scheduler.

An executor takes one attempt (`Work`), runs it, and answers with an `Outcome`. A provider's fault
is an outcome and never an exception, so that nothing between here and the settling of the attempt
has to guess what happened. Whatever ends a dispatch, SystemExit included, the attempt leaves
`running()` and its connection is closed or given back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from threading import Event
from typing import Any, Protocol

from scheduling.kinds.contract import Estimate

OnText = Callable[[str], None]


class ErrorClass(StrEnum):
    """Why an attempt did not complete. `retry` and circuit rules read nothing but this."""

    UNREACHABLE = "unreachable"  # the request never left: refused, no such host, no connection
    TIMEOUT = "timeout"  # connected, but no first token, or silence in the middle
    RATE_LIMITED = "rate_limited"
    PROVIDER_ERROR = "provider_error"
    INVALID_RESPONSE = "invalid_response"  # empty, HTML, no choices, not the protocol
    INVALID_REQUEST = "invalid_request"
    UNAUTHORIZED = "unauthorized"
    INTERRUPTED = "interrupted"  # the answer began, or was awaited, and the connection ended
    CANCELED = "canceled"
    MAX_RUNTIME = "max_runtime"  # the whole-run limit; the same work would meet it again
    INTERNAL = "internal"  # a fault of ours; retried, for attempts are bounded anyway

    @property
    def retryable(self) -> bool:
        """Whether the same work may succeed later."""
        return self not in _FINAL

    @property
    def leaves_no_effect(self) -> bool:
        """Whether surely nothing was done: what must not run twice may be tried again."""
        return self in (ErrorClass.UNREACHABLE, ErrorClass.RATE_LIMITED, ErrorClass.CANCELED)

    @property
    def counts_as_try(self) -> bool:
        """Whether the attempt spends one of the job's tries; not if it never reached anybody."""
        return self not in (ErrorClass.UNREACHABLE, ErrorClass.CANCELED)


_FINAL = frozenset(
    {
        ErrorClass.INVALID_REQUEST,
        ErrorClass.UNAUTHORIZED,
        ErrorClass.CANCELED,
        ErrorClass.MAX_RUNTIME,
    }
)


class Status(StrEnum):
    """How an attempt ended, seen from its executor."""

    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    ERROR = "error"
    CANCELED = "canceled"


def status_of(error_class: ErrorClass | None) -> Status:
    """The status that goes with an error class; None is a complete attempt."""
    if error_class is None:
        return Status.COMPLETE
    named = {ErrorClass.INTERRUPTED: Status.INTERRUPTED, ErrorClass.CANCELED: Status.CANCELED}
    return named.get(error_class, Status.ERROR)


class Source(StrEnum):
    """Where a count comes from: the server, our estimate, or nowhere (nothing was used)."""

    REPORTED = "reported"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one attempt used.

    `input_total` is gross: cached reads and writes are parts of it. `output_total` contains the
    reasoning tokens. `tool_calls` counts the calls that the answer asks for. `partial` marks
    counts taken before the end of an answer; `inconsistent` marks a report whose parts exceed
    their whole, or that names impossible numbers. `other` holds further meters of billing by name:
    environment (seconds), storage (byte-hours), network (bytes), review_minutes ...
    """

    input_total: int = 0
    cached_read: int = 0
    cached_write: int = 0
    output_total: int = 0
    reasoning: int = 0
    requests: int = 0
    tool_calls: int = 0
    worker_seconds: Decimal = Decimal(0)
    input_source: Source = Source.UNKNOWN
    output_source: Source = Source.UNKNOWN
    partial: bool = False
    inconsistent: bool = False
    other: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """Work that goes on after this attempt: its step is done, another one follows.

    `checkpoint` is all that the next step needs to know; it is stored with the settlement. `waits`:
    the next step comes when every job that this one has submitted has ended.
    """

    checkpoint: Mapping[str, Any]
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfunded:
    """Why an attempt did nothing: a budget has no room for it, `until` when (epoch seconds), if by time."""

    sentence: str
    until: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one attempt. `error_class` is None exactly when the status is complete.

    `verdict` is a reviewer's on the work of a job (accepted or rejected), with `message` as its note.

    `next` makes a complete attempt the end of a step and not of the job; `result` is then what the
    job has so far. With a canceled one it holds the checkpoint from which the work can go on.
    `ceiling` says in a sentence which of its ceilings ends the job with this attempt; `unfunded`
    sends it back to admission.

    `message` is one short line without secrets, fit for the submitter's eyes. `retry_after_s` is
    the provider's own wish in seconds. `partial_text` is what had arrived of an answer that did
    not complete.
    """

    status: Status
    usage: Usage
    error_class: ErrorClass | None = None
    message: str = ""
    retry_after_s: float | None = None
    result: dict[str, Any] | None = field(default=None, repr=False)
    partial_text: str = field(default="", repr=False)
    next: Next | None = field(default=None, repr=False)
    ceiling: str = ""
    verdict: str = ""
    unfunded: Unfunded | None = None

    @property
    def retryable(self) -> bool:
        """Whether another attempt may succeed; False for a complete one."""
        return self.error_class is not None and self.error_class.retryable


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One attempt to run. All limits are seconds; None switches a limit off.

    `first_token_timeout_s` counts from the dispatch to the first piece of the answer, comments
    excepted. `idle_timeout_s` is the longest silence once the server has begun to respond.
    `endpoint` and `api_key` are one pair: without an endpoint the executor's own pair is used.
    `checkpoint` is what an earlier attempt left to go on from, if any did. `max_spend` (USD) and
    `max_tokens` are what the submitter lets it take in all; `output_limit` is the most tokens of
    output that what is left of them allows.
    """

    attempt_id: str
    fence: int
    job_id: str
    kind: str
    payload: dict[str, Any] = field(repr=False)
    estimate: Estimate
    model: str = ""
    checkpoint: Mapping[str, Any] | None = field(default=None, repr=False)
    max_spend: Decimal | None = None
    max_tokens: int | None = None
    output_limit: int | None = None
    endpoint: str | None = None
    api_key: str | None = field(default=None, repr=False)
    connect_timeout_s: float = 3.0
    first_token_timeout_s: float | None = 120.0
    idle_timeout_s: float | None = 60.0
    max_runtime_s: float | None = 600.0


class Health(StrEnum):
    """Whether an executor can be given work; degraded still can."""

    OK = "ok"
    DEGRADED = "degraded"
    DOWN = "down"


class Cancel(StrEnum):
    """The answer to a cancel: it has ended, it has been told to end, or it is not here."""

    STOPPED = "stopped"
    STOPPING = "stopping"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an executor can run; empty `models` means that it names none."""

    job_kinds: frozenset[str]
    models: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Attempts that may run at once, that run now, and that wait inside the executor."""

    limit: int
    in_use: int
    queued: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What the scheduler may do to running work here; `max_runtime_s` None sets no bound."""

    idempotent: bool
    checkpoints: bool
    cancellable: bool
    max_runtime_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSpec:
    """The plain values from which an executor is built; two equal specs are the same executor."""

    name: str
    kind: str
    slots: int = 1
    endpoint: str | None = None
    api_key: str | None = field(default=None, repr=False)
    models: frozenset[str] = frozenset()


class AlreadyRunning(RuntimeError):
    """The caller dispatched an attempt that runs here already; nothing was started."""


class Executor(Protocol):
    """A place where work can run. One conformance suite holds every kind to this."""

    @property
    def kind(self) -> str: ...
    @property
    def traits(self) -> Traits: ...

    def capabilities(self) -> Capabilities: ...
    def capacity(self) -> Capacity: ...
    def health(self) -> Health: ...

    def dispatch(
        self, work: Work, cancel_event: Event, *, on_text: OnText | None = None
    ) -> Outcome:
        """Run the attempt to its end; `on_text` is given each piece of the answer as it arrives.

        Setting `cancel_event`, or `cancel`, ends it soon. Raises only `AlreadyRunning`.
        """

    def cancel(self, attempt_id: str) -> Cancel:
        """Tell a running attempt to end; does not wait for it."""

    def running(self) -> frozenset[str]:
        """Ids of the attempts that truly run in this process now: the truth for reconciliation."""

    def close(self) -> None:
        """Give back connections; running attempts may lose theirs."""
