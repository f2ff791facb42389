"""Rate windows: how many requests and tokens the last minute has seen of one key.

A window slides: it counts exactly what was dispatched in the `SPAN_S` seconds before now (a sliding
log, not a counter that is reset, so no minute, wherever it begins, holds more than its rate). A job
is one request and its estimated tokens, counted at its dispatch. A job of more tokens than the rate
has the window to itself: it starts when no token is counted, and nothing follows it until it has
left the window; else it could never run.

An own window (a tenant's) that has no room for its next job is shut until it has: meanwhile none of
the tenant's jobs stands in a line, so that they are in nobody's way and a small one does not take,
again and again, what a large one waits for.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.core.types import LimitKey

SPAN_S = 60.0
"""How far a window reaches back, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The most requests and tokens (>= 1) in any `SPAN_S` seconds; None: as many as come."""

    requests: int | None = None
    tokens: int | None = None

    def fits(self, requests: int, spent: int, tokens: int) -> bool:
        """Tell whether one more job of `tokens` may follow so many requests and spent tokens."""
        if self.requests is not None and requests >= self.requests:
            return False
        return self.tokens is None or spent == 0 or spent + tokens <= self.tokens

    def plus(self, *, requests: int, tokens: int) -> "Rate":
        """Return the rate with so much more of each that is limited."""
        return Rate(
            requests=None if self.requests is None else self.requests + requests,
            tokens=None if self.tokens is None else self.tokens + tokens,
        )


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A dispatch of the last `SPAN_S` seconds: when, for whom and where, with its tokens."""

    at: float
    tenant: str
    provider: str
    tokens: int

    def limit_keys(self) -> tuple[LimitKey, ...]:
        """Return the keys whose windows it counts in."""
        return rate_keys(self.tenant, self.provider)


def rate_keys(tenant: str, provider: str) -> tuple[LimitKey, ...]:
    """Return the keys of the windows that a job of a tenant at a provider counts in."""
    return ("tenant", tenant), ("provider", provider)


class Window:
    """The dispatches of one key within the last `SPAN_S` seconds. Times never run back."""

    __slots__ = ("_entries", "_tokens", "rate")

    def __init__(self, rate: Rate, entries: Iterable[tuple[float, int]] = ()) -> None:
        """Start with dispatches as (time, tokens), the oldest first."""
        self.rate = rate
        self._entries = deque(entries)
        self._tokens = sum(tokens for _, tokens in self._entries)

    def copy(self) -> "Window":
        """Return an independent window with the same content."""
        return Window(self.rate, self._entries)

    def used(self, now: float) -> tuple[int, int]:
        """Return the requests and the tokens that count at `now`."""
        entries = self._entries
        while entries and entries[0][0] + SPAN_S <= now:
            self._tokens -= entries.popleft()[1]
        return len(entries), self._tokens

    def has_room(self, tokens: int, now: float) -> bool:
        """Tell whether one more job of `tokens` may be dispatched at `now`."""
        return self.rate.fits(*self.used(now), tokens)

    def opens_at(self, tokens: int, now: float) -> float:
        """Return when a job of `tokens` has room, if nothing else is dispatched; `now` if it has."""
        (requests, spent), at = self.used(now), now
        for began, amount in self._entries:
            if self.rate.fits(requests, spent, tokens):
                break
            requests, spent, at = requests - 1, spent - amount, began + SPAN_S
        return at

    def add(self, at: float, tokens: int) -> None:
        """Count a dispatch."""
        self._entries.append((at, tokens))
        self._tokens += tokens

    def take_back(self, at: float, tokens: int) -> None:
        """Count a dispatch no more that has not come about; one that has left is no error."""
        if (at, tokens) in self._entries:
            self._entries.remove((at, tokens))
            self._tokens -= tokens
