"""Retries: may a failed try be repeated, and when (DESIGN 4.8).

The wait grows by doubling from `base_s` up to `cap_s` (truncated exponential backoff). Half of it
is certain and half is spread by the jitter ("equal jitter", Marc Brooker, AWS Architecture Blog,
2015), so that jobs which failed together do not come back together. A server's Retry-After is
a floor: jitter only ever moves a retry later than it. The dice are thrown by the caller.

A failure that never reached the provider is no try: it does not use up `max_attempts`, but it
backs off like any other. What could not end before its deadline is not tried again.

A provider's retries, of all tenants together, are bounded by a budget: within any `SPAN_S` seconds
no more than a floor and a share of its successes in that time (the retry budget of Finagle), so
that retries cannot multiply an outage. Who finds the budget used up waits, without a slot.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.core.types import Reason

SPAN_S = 60.0
"""How far back a provider's successes and retries count, in seconds."""
_MOST_DOUBLINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """The policy's part on retries. Durations are seconds.

    `budget_ratio` and `budget_floor` bound the retries of one provider; `longest_wait_s` is the
    most that a Retry-After is believed.
    """

    max_attempts: int = 3
    base_s: float = 1.0
    cap_s: float = 60.0
    longest_wait_s: float = 3600.0
    budget_ratio: float = 0.2
    budget_floor: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is known of a failed try.

    `tries` counts the tries before this one that counted, `unreached` those that did not;
    `counts_as_try` says which of them this one is. `max_attempts` None takes the policy's.
    `expected_s` is how long another try should take (seconds).
    """

    retryable: bool
    counts_as_try: bool = True
    tries: int = 0
    unreached: int = 0
    max_attempts: int | None = None
    deadline: float | None = None
    retry_after_s: float | None = None
    expected_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDecision:
    """Whether the job is tried again, from when on (epoch seconds), and why or why not."""

    retry: bool
    reason: Reason
    not_before: float | None = None


def decide(
    failure: Failure, *, now: float, settings: RetrySettings, jitter: float
) -> RetryDecision:
    """Decide on the next try after `failure`; `jitter` is a throw in [0, 1)."""
    refusal = _refusal(failure, settings)
    if refusal is not None:
        return RetryDecision(retry=False, reason=refusal)
    not_before = now + wait_s(failure, settings=settings, jitter=jitter)
    if is_too_late(failure, not_before):
        return RetryDecision(retry=False, reason=Reason.DEADLINE)
    return RetryDecision(retry=True, reason=Reason.RETRY_WAIT, not_before=not_before)


def is_too_late(failure: Failure, at: float) -> bool:
    """Tell whether a try that starts at `at` (epoch seconds) could not end before the deadline."""
    return failure.deadline is not None and at + failure.expected_s >= failure.deadline


def backoff_s(failures: int, settings: RetrySettings) -> float:
    """Return the whole wait in seconds after `failures` earlier failures, without jitter."""
    return min(settings.cap_s, settings.base_s * 2.0 ** min(failures, _MOST_DOUBLINGS))


def wait_s(failure: Failure, *, settings: RetrySettings, jitter: float) -> float:
    """Return the seconds to wait: half the backoff or the Retry-After, and the jitter on top."""
    half = backoff_s(failure.tries + failure.unreached, settings) / 2
    floor = sane_wait_s(failure.retry_after_s, longest_s=settings.longest_wait_s)
    return max(half, floor) + jitter * half


def sane_wait_s(asked_s: float | None, *, longest_s: float) -> float:
    """Return what a Retry-After is believed: 0 for none, negative or NaN; at most `longest_s`."""
    if asked_s is None or math.isnan(asked_s):
        return 0.0
    return min(max(asked_s, 0.0), longest_s)


def budget_left(*, successes: int, retries: int, settings: RetrySettings) -> bool:
    """Tell whether a provider with these recent `successes` and `retries` may be retried."""
    return retries < settings.budget_floor + settings.budget_ratio * successes


class RetryBudget:
    """The successes and retries of one provider within the last `SPAN_S` seconds.

    Retries are kept one by one, so that the bound is exact; successes by the second, the last of
    which are forgotten up to a second early. Times never run back.
    """

    __slots__ = ("_retries", "_successes", "_total", "settings")

    def __init__(
        self,
        settings: RetrySettings,
        *,
        retries: Iterable[float] = (),
        successes: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Start with the times of retries, and counts of successes by the second, oldest first."""
        self.settings = settings
        self._retries = deque(retries)
        self._successes: deque[tuple[int, int]] = deque(successes)
        self._total = sum(count for _, count in self._successes)

    def copy(self) -> "RetryBudget":
        """Return an independent budget with the same content."""
        return RetryBudget(self.settings, retries=self._retries, successes=self._successes)

    def succeeded(self, at: float) -> None:
        """Count a success; one that comes late counts with the newest."""
        second = int(at)
        self._total += 1
        if self._successes and self._successes[-1][0] >= second:
            last, count = self._successes[-1]
            self._successes[-1] = (last, count + 1)
        else:
            self._successes.append((second, 1))

    def retried(self, at: float) -> None:
        """Count a retry that is placed."""
        self._retries.append(at)

    def take_back(self, at: float) -> None:
        """Count a retry no more that has not come about; one that has left is no error."""
        if at in self._retries:
            self._retries.remove(at)

    def used(self, now: float) -> tuple[int, int]:
        """Return the retries and the successes that count at `now`."""
        while self._retries and self._retries[0] + SPAN_S <= now:
            self._retries.popleft()
        while self._successes and self._successes[0][0] + SPAN_S <= now:
            self._total -= self._successes.popleft()[1]
        return len(self._retries), self._total

    def has_room(self, now: float) -> bool:
        """Tell whether one more retry may be placed at `now`."""
        retries, successes = self.used(now)
        return budget_left(successes=successes, retries=retries, settings=self.settings)

    def most(self, now: float) -> int:
        """Return how many retries may count at `now`."""
        _, successes = self.used(now)
        return math.ceil(self.settings.budget_floor + self.settings.budget_ratio * successes)

    def opens_at(self, now: float) -> float:
        """Return when the oldest retry has left, the first time at which time alone gives room.

        `now` where there is room, infinity where there is no retry to leave.
        """
        if self.has_room(now):
            return now
        return self._retries[0] + SPAN_S if self._retries else math.inf


def _refusal(failure: Failure, settings: RetrySettings) -> Reason | None:
    if not failure.retryable:
        return Reason.EXECUTION_ERROR
    most = settings.max_attempts if failure.max_attempts is None else failure.max_attempts
    if failure.counts_as_try and failure.tries + 1 >= most:
        return Reason.ATTEMPTS_EXHAUSTED
    return None
