"""What the hours ahead hold for a pool: its backlog, waits, and the capacity that they ask for.

The backlog is that of a fluid queue (Newell, "Applications of Queueing Theory", 1982): it grows by
what comes and shrinks by what c servers complete. Around it jobs wait since they come and run
irregularly: by the formula of Allen and Cunneen (1990) for the mean wait in a queue G/G/c,
Erlang's C / (c/s - rate) x (va + vs) / 2, with va and vs the squared coefficients of variation of
arrivals and of run times. Near saturation that mean is not reached within an hour; it is held to
what a reflected Brownian motion grows to in that time, sqrt(2 x rate x (va + vs) x hour / pi).

A server is the capacity that one job of mean cost takes: the units over that cost, or the slots if
they are fewer. The first hour may have begun: of it a part is `left` (1: all), which scales what comes
and what is done in it; arrivals are always told by the whole hour.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, inf, pi, sqrt

from scheduling.core.eta.arrivals import HOUR_S, Floats

MOST_UNITS = 1_000_000
"""Where no capacity up to this meets a target, none is named."""
_NOBODY = 1e-12
"""A share of arrivals that is none."""
_FORGOTTEN = 9.0
"""exp(-9 x 9 / 2) is what is left of an error so far below the load."""


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


def outlook(
    backlog: float, arrivals: Floats, work: Work, count: int, left: float = 1.0
) -> list[Hour]:
    """Return hour after hour, with so many waiting now and `count` servers."""
    return list(_hours(backlog, arrivals, work, count, left))


def _hours(backlog: float, arrivals: Floats, work: Work, count: int, left: float) -> Iterator[Hour]:
    fluid, part = float(backlog), left
    done = count * HOUR_S / max(work.run_s, 1e-9)
    for came in arrivals.tolist():
        fluid, part = max(0.0, fluid + (came - done) * part), 1.0
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
    """Return the share of arrivals that must wait in M/M/c (Erlang 1917), by the stable recursion.

    Needs `load` below `count`. Each step n below the load shrinks an error by n / load, so what
    it begins with `_FORGOTTEN` roots of the load below it has no weight left at the load.
    """
    blocked, first = 1.0, max(0, int(load - _FORGOTTEN * sqrt(load)))
    for number in range(first + 1, count + 1):
        blocked = load * blocked / (number + load * blocked)
        if number > load and blocked < _NOBODY:
            return 0.0  # it only falls from here on
    busy = load / count
    return blocked / (1 - busy + busy * blocked)


def clear_hours(
    backlog: float, arrivals: Floats, work: Work, count: int, left: float = 1.0
) -> float | None:
    """Return after how many hours nothing of the fluid backlog waits; None: not in this time."""
    fluid, done = float(backlog), count * HOUR_S / max(work.run_s, 1e-9)
    if fluid <= 0:
        return 0.0
    passed, part = 0.0, left
    for came in arrivals.tolist():
        net: float = (done - came) * part
        if fluid <= net:
            return passed + part * fluid / net
        fluid, passed, part = fluid - net, passed + part, 1.0
    return None


def units_for(
    target_wait_s: float, backlog: float, arrivals: Floats, work: Work, left: float = 1.0
) -> int | None:
    """Return the fewest units with which no later hour's mean wait is above the target.

    The first hour is left to the backlog that is there already. None where no capacity would do.
    """
    meets = partial(_meets, target_wait_s, backlog, arrivals, work, left)
    fewest, most = 0, 1
    while not meets(most):
        fewest, most = most, most * 2
        if most * work.cost > MOST_UNITS:
            return None
    while most - fewest > 1:
        middle = (fewest + most) // 2
        if meets(middle):
            most = middle
        else:
            fewest = middle
    return ceil(most * work.cost)


def _meets(
    target_s: float, backlog: float, arrivals: Floats, work: Work, left: float, count: int
) -> bool:
    hours = _hours(backlog, arrivals, work, count, left)
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
