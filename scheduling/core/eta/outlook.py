"""What the hours ahead hold for a pool: its backlog, waits, and the capacity that they ask for.

The backlog is that of a fluid queue (Newell, "Applications of Queueing Theory", 1982): it grows by
what comes and shrinks by what c servers complete. Around it jobs wait since they come and run
irregularly: by the formula of Allen and Cunneen (1990) for the mean wait in a queue G/G/c,
Erlang's C / (c/s - rate) x (va + vs) / 2, with va and vs the squared coefficients of variation of
arrivals and of run times. Near saturation that mean is not reached within an hour; it is held to
what a reflected Brownian motion grows to in that time, sqrt(2 x rate x (va + vs) x hour / pi).

A server is the capacity that one job of mean cost takes: the units over that cost, or the slots if
they are fewer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf, pi, sqrt

from scheduling.core.eta.arrivals import HOUR_S, Floats

MOST_UNITS = 1_000_000
"""Where no capacity up to this meets a target, none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the jobs of a pool are like: mean units and run time (seconds), and how both vary.

    `run_scv` is the squared coefficient of variation of run times, `arrival_scv` that of the gaps
    between arrivals (1: independent arrivals).
    """

    run_s: float
    cost: float = 1.0
    run_scv: float = 1.0
    arrival_scv: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """An hour ahead: jobs waiting at its end, and the mean wait of those that come then (s)."""

    depth: float
    wait_s: float


def servers(units: int, slots: int, work: Work) -> int:
    """Return how many jobs of mean cost may run at once."""
    return max(0, min(int(units / max(work.cost, 1e-9)), slots))


def outlook(backlog: float, arrivals: Floats, work: Work, count: int) -> list[Hour]:
    """Return hour after hour, with so many waiting now and `count` servers."""
    return list(_hours(backlog, arrivals, work, count))


def _hours(backlog: float, arrivals: Floats, work: Work, count: int) -> Iterator[Hour]:
    fluid = float(backlog)
    done = count * HOUR_S / max(work.run_s, 1e-9)
    for came in arrivals.tolist():
        fluid = max(0.0, fluid + came - done)
        depth = fluid + _restless(came / HOUR_S, work, count)
        yield Hour(depth=depth, wait_s=depth * HOUR_S / done if done else inf)


def _restless(rate: float, work: Work, count: int) -> float:
    """Return how many wait in the mean for no other reason than irregularity."""
    variation = work.arrival_scv + work.run_scv
    most = sqrt(2 * rate * variation * HOUR_S / pi)
    load = rate * work.run_s
    if load >= count:
        return most
    return min(most, _erlang_c(count, load) * load / (count - load) * variation / 2)


def _erlang_c(count: int, load: float) -> float:
    """Return the share of arrivals that must wait in M/M/c (Erlang 1917), by the stable recursion."""
    blocked = 1.0
    for number in range(1, count + 1):
        blocked = load * blocked / (number + load * blocked)
    busy = load / count
    return blocked / (1 - busy + busy * blocked)


def clear_hours(backlog: float, arrivals: Floats, work: Work, count: int) -> float | None:
    """Return after how many hours nothing of the fluid backlog is left; None: not in this time."""
    left, done = float(backlog), count * HOUR_S / max(work.run_s, 1e-9)
    if left <= 0:
        return 0.0
    for hour, came in enumerate(arrivals.tolist()):
        if left + came <= done:
            return hour + min(1.0, left / (done - came)) if done > came else hour + 1.0
        left += came - done
    return None


def units_for(target_wait_s: float, backlog: float, arrivals: Floats, work: Work) -> int | None:
    """Return the fewest units with which no later hour's mean wait is above the target.

    The first hour is left to the backlog that is there already. None where no capacity would do.
    """
    fewest, most = 0, 1
    while not _meets(target_wait_s, backlog, arrivals, work, most):
        fewest, most = most, most * 2
        if most * work.cost > MOST_UNITS:
            return None
    while most - fewest > 1:
        middle = (fewest + most) // 2
        if _meets(target_wait_s, backlog, arrivals, work, middle):
            most = middle
        else:
            fewest = middle
    return ceil(most * work.cost)


def _meets(target_s: float, backlog: float, arrivals: Floats, work: Work, count: int) -> bool:
    hours = _hours(backlog, arrivals, work, count)
    return all(hour.wait_s <= target_s for number, hour in enumerate(hours) if number)


def units_to_recover(outage_s: float, within_s: float, rate: float, work: Work) -> int:
    """Return the units that clear what an outage leaves within a time, while more keeps coming.

    `rate` is the arrivals a second. Of the outage rate x outage jobs are left; in `within_s` those
    and rate x within more must be done.
    """
    jobs = rate * (outage_s + within_s)
    return ceil(ceil(jobs * work.run_s / within_s) * work.cost) if jobs else 0


def seconds_left(left: float, rate: float, window_s: float | None) -> float | None:
    """Return after how many seconds a budget is used up at `rate` a second.

    None where its window ends first, or nothing is drawn.
    """
    if left <= 0:
        return 0.0
    if rate <= 0:
        return None
    seconds = left / rate
    return None if window_s is not None and seconds >= window_s else seconds
