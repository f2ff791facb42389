"""What a lever would change: the forecast of a pool as it is beside that with the lever pulled.

Both are the fast-forward of the order that dispatches (`forecast`), on copies: nothing is moved.
The answer is as good as the estimates of how long jobs run, which are the same on both sides, so
the difference is better than either of the times.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from scheduling.core.eta.forecast import Forecast, forecast
from scheduling.core.policy.explain import ahead_of
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Job

SLACK_S = 0.5
"""A start that moves by less is told as unmoved."""

Change: TypeAlias = Callable[[PoolState], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A job that would start later, by so many seconds."""

    job: Job
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What would become of a job: its place, start and finish (epoch seconds), and who waits longer.

    `start_before` is its start without the lever; None: no start is in sight.
    """

    place: int | None
    start: float | None
    start_before: float | None
    finish: float | None
    delayed: tuple[Delay, ...]


def starts(state: PoolState, now: float, measured: Mapping[str, float]) -> dict[str, float]:
    """Return when each job of a pool should start (epoch seconds), all of them exactly."""
    return _starts(forecast(state, now, exact=len(state.order), measured=measured))


def effect(
    state: PoolState,
    change: Change,
    job: Job,
    now: float,
    *,
    before: Mapping[str, float],
    measured: Mapping[str, float],
) -> Effect:
    """Return what `change` would do; `before` are the starts as things stand."""
    changed = state.first(len(state.order))
    change(changed)
    ahead = ahead_of(changed, job)
    told = forecast(changed, now, exact=len(changed.order), measured=measured)
    after = _starts(told)
    later = ((state.order.get(one), after.get(one, at) - at) for one, at in before.items())
    return Effect(
        place=ahead.place if ahead else None,
        start=after.get(job.id),
        start_before=before.get(job.id),
        finish=dict(zip(told.job_ids, told.finishes, strict=True)).get(job.id),
        delayed=tuple(
            Delay(job=one, by_s=by_s)
            for one, by_s in later
            if one is not None and one.id != job.id and by_s >= SLACK_S
        ),
    )


def _starts(found: Forecast) -> dict[str, float]:
    return dict(zip(found.job_ids, found.starts, strict=True))
