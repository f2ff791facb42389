"""The forecast of a pool: what comes, how long it waits, when the backlog is gone, what it asks for."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from django.db.models import Sum

from scheduling.core.eta.arrivals import HOUR_S, WEEK, Expected, Pattern, learnt
from scheduling.core.eta.outlook import (
    Hour,
    Work,
    clear_hours,
    outlook,
    servers,
    units_for,
    units_to_recover,
)
from scheduling.models import Executor, Job, Pool
from scheduling.models.executor import HUMAN
from scheduling.selectors.foresight.history import WEEKS, Group, History, Runs, pool_history
from scheduling.selectors.policy import active_policy
from scheduling.snapshot import Header

HOURS = 24
ENOUGH_HOURS = 2 * WEEK
MOST_GROUPS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked: how to group, of which groups to tell, the targets of the advice (seconds).

    `key` is the one group that is wanted, `tenants` the ids of those whose groups are told; None: all.
    """

    by: str = "workflow"
    key: str | None = None
    tenants: Collection[str] | None = None
    target_wait_s: float = 60.0
    outage_s: float = 3600.0
    recover_s: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HourAhead:
    """An hour: what comes, and what waits at its end (with few arrivals, with many).

    The first has begun: its arrivals are those of the whole hour, its depth counts what is left.
    """

    starts_at: float
    arrivals: float
    arrivals_low: float
    arrivals_high: float
    depth: float
    depth_low: float
    depth_high: float
    wait_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAhead:
    """A group over the next day: arrivals with their range, and how long its runs take."""

    key: str
    tenant: str
    seen: int
    basis: str
    arrivals: float
    arrivals_low: float
    arrivals_high: float
    runs: Runs | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Units for a target wait (None: none would do), and those that recover from an outage."""

    units_now: int
    units: int | None
    units_high: int | None
    units_recover: int
    reserve: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAhead:
    """All of it. `clear_s` are the seconds until the backlog is gone while more comes: if few jobs
    come, as expected, if many; None: not within a week. `said` says what it rests on. Of the groups that are asked for
    those with most jobs are told."""

    pool: Pool
    at: float
    history_at: float
    history_hours: int
    jobs: int
    basis: str
    said: str
    backlog: int
    run_s: float
    hours: list[HourAhead]
    clear_s: tuple[float | None, float | None, float | None]
    groups: list[GroupAhead]
    groups_left_out: int
    advice: Advice


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """What waits and comes, what it is like, and which part of the first hour is left."""

    backlog: int
    week: Expected
    work: Work
    left: float


def pool_ahead(pool: Pool, asked: Asked, header: Header | None, now: float) -> PoolAhead:
    """Forecast a pool at `now`; `header` is its last order, None while there is none.

    Raises `PolicyVersion.DoesNotExist` where neither a run nor a policy tells how long jobs take.
    """
    history = pool_history(pool, "workflow", now)
    told = history if asked.by == "workflow" else pool_history(pool, asked.by, now)
    pattern = _pattern(_totals(history), history.at)
    first = int(now // HOUR_S)
    week = pattern.ahead(first, WEEK)
    work = _work(history.runs, pattern)
    count = servers(pool.budget - pool.reserve, _slots(pool), work)
    backlog = header.startable if header is not None else _queued(pool)
    line = _Line(backlog=backlog, week=week, work=work, left=1 - now % HOUR_S / HOUR_S)
    groups = [group for group in told.groups if _is_asked(group, asked)]
    return PoolAhead(
        pool=pool,
        at=now,
        history_at=history.at,
        history_hours=pattern.hours,
        jobs=sum(sum(group.arrivals.values()) for group in history.groups),
        basis=pattern.basis,
        said=_said(pattern, history),
        backlog=backlog,
        run_s=work.run_s,
        hours=_hours(first, line, count),
        clear_s=_clear(line, count),
        groups=_groups(groups, told, first),
        groups_left_out=max(0, len(groups) - MOST_GROUPS),
        advice=_advice(pool, asked, line),
    )


def _totals(history: History) -> Counter[int]:
    totals: Counter[int] = Counter()
    for group in history.groups:
        totals.update(group.arrivals)
    return totals


def _pattern(
    arrivals: Counter[int] | dict[int, int], at: float, first: int | None = None
) -> Pattern:
    """Learn the whole hours up to `at`: from the first with a job on, but no longer than kept."""
    last = int(at // HOUR_S)
    start = min(arrivals, default=last) if first is None else first
    start = min(max(start, last - WEEKS * WEEK), last)
    counts = np.array([arrivals.get(hour, 0) for hour in range(start, last)], dtype=np.float64)
    return learnt(counts, start)


def _work(runs: Runs | None, pattern: Pattern) -> Work:
    if runs is None:
        return Work(run_s=active_policy().default_expected_s, arrival_scv=pattern.dispersion)
    return Work(
        run_s=max(runs.mean_s, 1e-3),
        cost=max(runs.cost, 1.0),
        run_scv=runs.scv,
        arrival_scv=pattern.dispersion,
    )


def _slots(pool: Pool) -> int:
    able = Executor.objects.filter(pool=pool, enabled=True, draining=False).exclude(kind=HUMAN)
    return able.exclude(health="down").aggregate(all=Sum("slots"))["all"] or 0


def _queued(pool: Pool) -> int:
    return Job.objects.filter(pool=pool, state="queued", paused=False).count()


def _hours(first: int, line: _Line, count: int) -> list[HourAhead]:
    week = line.week
    lines = [
        outlook(line.backlog, way[:HOURS], line.work, count, line.left)
        for way in (week.low, week.mean, week.high)
    ]
    return [
        HourAhead(
            starts_at=float((first + hour) * HOUR_S),
            arrivals=float(week.mean[hour]),
            arrivals_low=float(week.low[hour]),
            arrivals_high=float(week.high[hour]),
            depth=lines[1][hour].depth,
            depth_low=lines[0][hour].depth,
            depth_high=lines[2][hour].depth,
            wait_s=_finite(lines[1][hour]),
        )
        for hour in range(HOURS)
    ]


def _finite(hour: Hour) -> float | None:
    return hour.wait_s if np.isfinite(hour.wait_s) else None


def _clear(line: _Line, count: int) -> tuple[float | None, float | None, float | None]:
    week = line.week
    few, mean, many = (
        clear_hours(line.backlog, way, line.work, count, line.left)
        for way in (week.low, week.mean, week.high)
    )
    return _seconds(few), _seconds(mean), _seconds(many)


def _seconds(hours: float | None) -> float | None:
    return None if hours is None else hours * HOUR_S


def _is_asked(group: Group, asked: Asked) -> bool:
    seen = asked.tenants is None or group.tenant in asked.tenants
    return seen and (asked.key is None or group.key == asked.key)


def _groups(groups: list[Group], history: History, first: int) -> list[GroupAhead]:
    """Return those with most jobs; all are learnt over the span of the whole pool."""
    start = min(_totals(history), default=None)
    largest = sorted(groups, key=lambda one: (-sum(one.arrivals.values()), one.key))
    return [_group(group, history.at, start, first) for group in largest[:MOST_GROUPS]]


def _group(group: Group, at: float, start: int | None, first: int) -> GroupAhead:
    pattern = _pattern(group.arrivals, at, start)
    day = pattern.ahead(first, HOURS)
    mean, low, high = (float(part.sum()) for part in (day.mean, day.low, day.high))
    return GroupAhead(
        key=group.key,
        tenant=group.tenant,
        seen=sum(group.arrivals.values()),
        basis=pattern.basis,
        arrivals=mean,
        arrivals_low=mean - _spread(mean - low),
        arrivals_high=mean + _spread(high - mean),
        runs=group.runs,
    )


def _spread(sum_of_hours: float) -> float:
    """Hours vary by themselves: a day's range grows with the root of their number, not with it."""
    return float(sum_of_hours / HOURS**0.5)


def _advice(pool: Pool, asked: Asked, line: _Line) -> Advice:
    day, many = line.week.mean[:HOURS], line.week.high[:HOURS]
    work, target_s = line.work, asked.target_wait_s
    peak = float(day.max(initial=0.0)) / HOUR_S
    recover = units_to_recover(asked.outage_s, asked.recover_s, peak, work)
    return Advice(
        units_now=pool.budget - pool.reserve,
        units=units_for(target_s, line.backlog, day, work, line.left),
        units_high=units_for(target_s, line.backlog, many, work, line.left),
        units_recover=recover,
        reserve=max(0, recover - (pool.budget - pool.reserve)),
    )


def _said(pattern: Pattern, history: History) -> str:
    runs = history.runs.count if history.runs else 0
    seen = f"{_days(pattern.hours)} of arrivals and {_counted(runs, 'measured run')}"
    if pattern.hours >= ENOUGH_HOURS and runs:
        return f"Rests on {seen}: the pattern of the week is known."
    lacks = (
        ["two weeks of arrivals tell the pattern of the week"] if pattern.basis != "week" else []
    )
    lacks += [] if runs else ["no run was measured yet, so the policy's default stands for it"]
    return f"Not enough history: it rests on {seen}; {'; '.join(lacks)}."


def _days(hours: int) -> str:
    return _counted(hours, "hour") if hours < 48 else f"{hours / 24:.0f} days"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
