"""The circuit breaker: one table of (state, signal) for each (executor, model) or key.

Closed lets calls through and counts failures in a row; at `threshold` it opens. A rate limit
(429, or 401 on a key) opens at once, for as long as the Retry-After says. Open lets nothing
through until `open_until`. Then it is half-open and lets one probe through: its success closes
the circuit, its failure opens it again (Nygard, "Release It!", 2nd ed. 2018).

Opening is monotone: of two deadlines the later wins, so a late, shorter answer of a call that was
under way cannot shorten the rest, and its late success cannot close the circuit. A probe that is
never reported back (its worker died) gives up its turn after one cool-down.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum


class Circuit(StrEnum):
    """What the circuit lets through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Signal(StrEnum):
    """What can happen to a circuit: a call's start or end, or the passing of time."""

    CALL = "call"
    SUCCESS = "success"
    FAILURE = "failure"
    RATE_LIMITED = "rate_limited"
    CLOCK = "clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """The policy's part on circuits. Durations are seconds."""

    threshold: int = 5
    cooldown_s: float = 60.0
    longest_cooldown_s: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """One circuit: `failures` in a row while closed, and the deadlines (epoch seconds)."""

    state: Circuit = Circuit.CLOSED
    failures: int = 0
    open_until: float = 0.0
    probe_until: float | None = None
    """While half-open: when the probe under way is given up; None when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    now: float
    settings: BreakerSettings
    rest_s: float


def after(
    breaker: Breaker,
    signal: Signal,
    *,
    now: float,
    settings: BreakerSettings,
    retry_after_s: float | None = None,
) -> Breaker:
    """Return the circuit after `signal` at `now`.

    Time is let pass first, so an open circuit whose deadline is over is half-open before the
    signal counts. `retry_after_s` belongs to a rate limit; absurd values are made safe.
    """
    moment = _Moment(now=now, settings=settings, rest_s=_rest_s(retry_after_s, settings))
    seen = _MOVES[breaker.state, Signal.CLOCK](breaker, moment)
    return _MOVES[seen.state, signal](seen, moment)


def admits(breaker: Breaker, *, now: float, settings: BreakerSettings) -> bool:
    """Tell whether a call may be made at `now`; if so, report its start with `Signal.CALL`."""
    seen = after(breaker, Signal.CLOCK, now=now, settings=settings)
    return seen.state is not Circuit.OPEN and seen.probe_until is None


def _rest_s(retry_after_s: float | None, settings: BreakerSettings) -> float:
    if retry_after_s is None or math.isnan(retry_after_s) or retry_after_s < 0:
        return settings.cooldown_s
    return min(retry_after_s, settings.longest_cooldown_s)


def _same(breaker: Breaker, _moment: _Moment) -> Breaker:
    return breaker


def _closed(_breaker: Breaker, _moment: _Moment) -> Breaker:
    return Breaker()


def _count(breaker: Breaker, moment: _Moment) -> Breaker:
    failures = breaker.failures + 1
    if failures >= moment.settings.threshold:
        return _rest(breaker, moment)
    return replace(breaker, failures=failures)


def _rest(breaker: Breaker, moment: _Moment) -> Breaker:
    return _opened(breaker, moment.now + moment.settings.cooldown_s)


def _limited(breaker: Breaker, moment: _Moment) -> Breaker:
    return _opened(breaker, moment.now + moment.rest_s)


def _opened(breaker: Breaker, until: float) -> Breaker:
    return Breaker(state=Circuit.OPEN, open_until=max(breaker.open_until, until))


def _wake(breaker: Breaker, moment: _Moment) -> Breaker:
    if moment.now < breaker.open_until:
        return breaker
    return replace(breaker, state=Circuit.HALF_OPEN)


def _probe(breaker: Breaker, moment: _Moment) -> Breaker:
    return replace(breaker, probe_until=moment.now + moment.settings.cooldown_s)


def _give_up_probe(breaker: Breaker, moment: _Moment) -> Breaker:
    if breaker.probe_until is None or moment.now < breaker.probe_until:
        return breaker
    return replace(breaker, probe_until=None)


_MOVES: dict[tuple[Circuit, Signal], Callable[[Breaker, _Moment], Breaker]] = {
    (Circuit.CLOSED, Signal.CALL): _same,
    (Circuit.CLOSED, Signal.SUCCESS): _closed,
    (Circuit.CLOSED, Signal.FAILURE): _count,
    (Circuit.CLOSED, Signal.RATE_LIMITED): _limited,
    (Circuit.CLOSED, Signal.CLOCK): _same,
    (Circuit.OPEN, Signal.CALL): _same,
    (Circuit.OPEN, Signal.SUCCESS): _same,
    (Circuit.OPEN, Signal.FAILURE): _rest,
    (Circuit.OPEN, Signal.RATE_LIMITED): _limited,
    (Circuit.OPEN, Signal.CLOCK): _wake,
    (Circuit.HALF_OPEN, Signal.CALL): _probe,
    (Circuit.HALF_OPEN, Signal.SUCCESS): _closed,
    (Circuit.HALF_OPEN, Signal.FAILURE): _rest,
    (Circuit.HALF_OPEN, Signal.RATE_LIMITED): _limited,
    (Circuit.HALF_OPEN, Signal.CLOCK): _give_up_probe,
}
