"""The limits of one call: cancel, whole run, first token, and silence.

    start ............ response begins ............ first token ............ end
    |<------------------ first-token limit ----------------->|
                       |<-- idle limit, anew at every byte -------------------->|
    |<------------------------- whole-run limit, cancel ----------------------->|

A keep-alive comment is bytes, so it ends a silence; it is no token, so it does not hold off the
first-token limit. Before the response begins a server may think silently for as long as the
first-token limit lets it (Ollama sends no headers until it has a token).
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from scheduling.executors.contract import ErrorClass

SLICE_S = 0.1  # the longest wait in one read, hence the longest delay of a cancel


class Stopped(Exception):
    """A limit was reached, or the call was canceled; `error_class` says which."""

    def __init__(self, error_class: ErrorClass, sentence: str) -> None:
        super().__init__(sentence)
        self.error_class = error_class
        self.sentence = sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a call in seconds; None is no limit."""

    whole_s: float | None = None
    first_token_s: float | None = None
    idle_s: float | None = None


class Watch:
    """The clockwork of one call; used by its own thread only, but for the event."""

    def __init__(self, limits: Limits, cancel_event: Event, clock: Callable[[], float]) -> None:
        self.started = clock()
        self._clock = clock
        self._limits = limits
        self._cancel_event = cancel_event
        self._last_bytes: float | None = None
        self._awaits_token = True
        self._drain_until: float | None = None
        self._connected = False

    @property
    def was_heard(self) -> bool:
        """Whether the request has surely reached a server that was there to take it.

        A kept connection may have been dropped by its server just as we reused it. If it ends
        without a byte of response, the server never took the request.
        """
        return self._connected or self._last_bytes is not None

    def elapsed_s(self) -> float:
        """Seconds since the call began."""
        return self._clock() - self.started

    def connected(self) -> None:
        """A connection was opened for this call."""
        self._connected = True

    def bytes_arrived(self) -> None:
        """The server said something, be it a comment."""
        self._last_bytes = self._clock()

    def token_arrived(self) -> None:
        """The answer has begun: the first-token limit is met."""
        self._awaits_token = False

    def drain(self, seconds: float) -> None:
        """The answer is whole: allow this long for the end of the response, whatever happens."""
        self._drain_until = self._clock() + seconds

    def check(self) -> None:
        """Raise `Stopped` if the call was canceled, or a limit is past that bytes cannot lift."""
        now = self._clock()
        if self._drain_until is not None:
            if now >= self._drain_until:
                raise Stopped(ErrorClass.TIMEOUT, "the response did not end after its last event")
            return
        if self._cancel_event.is_set():
            raise Stopped(ErrorClass.CANCELED, "canceled")
        self._check_limits(now - self.started)

    def check_silence(self) -> None:
        """Raise `Stopped` if nothing has come for the idle limit; to be asked after an empty read."""
        limit, last = self._limits.idle_s, self._last_bytes
        if limit is not None and last is not None and self._clock() - last >= limit:
            raise Stopped(ErrorClass.TIMEOUT, f"the server was silent for {limit:g} s")

    def _check_limits(self, elapsed: float) -> None:
        whole, first = self._limits.whole_s, self._limits.first_token_s
        if whole is not None and elapsed >= whole:
            raise Stopped(ErrorClass.MAX_RUNTIME, f"ran for its whole limit of {whole:g} s")
        if self._awaits_token and first is not None and elapsed >= first:
            raise Stopped(ErrorClass.TIMEOUT, f"no first token within {first:g} s")
