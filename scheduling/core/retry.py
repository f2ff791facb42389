"""Retries: may a failed try be repeated, and when (DESIGN 4.8).

The wait grows by doubling from `base_s` up to `cap_s` (truncated exponential backoff). Half of it
is certain and half is spread by the jitter ("equal jitter", Marc Brooker, AWS Architecture Blog,
2015), so that jobs which failed together do not come back together. A server's Retry-After is
a floor: jitter only ever moves a retry later than it. The dice are thrown by the caller.

A failure that never reached the provider is no try: it does not use up `max_attempts`, but it
backs off like any other. A provider's retries are bounded by a budget, a share of its recent
successes and a floor (the retry budget of Finagle), so that retries cannot multiply an outage.
"""

import math
from dataclasses import dataclass

from scheduling.core.types import Reason

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
    `budget_left` False means that the provider's retry budget is used up.
    """

    retryable: bool
    counts_as_try: bool = True
    tries: int = 0
    unreached: int = 0
    max_attempts: int | None = None
    deadline: float | None = None
    retry_after_s: float | None = None
    budget_left: bool = True


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
    if failure.deadline is not None and not_before >= failure.deadline:
        return RetryDecision(retry=False, reason=Reason.DEADLINE)
    return RetryDecision(retry=True, reason=Reason.RETRY_WAIT, not_before=not_before)


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


def _refusal(failure: Failure, settings: RetrySettings) -> Reason | None:
    if not failure.retryable:
        return Reason.EXECUTION_ERROR
    most = settings.max_attempts if failure.max_attempts is None else failure.max_attempts
    if failure.counts_as_try and failure.tries + 1 >= most:
        return Reason.ATTEMPTS_EXHAUSTED
    return None if failure.budget_left else Reason.RETRY_BUDGET
