"""What a lever would change: the forecast of a pool as it is beside that with the lever pulled.

Both are the fast-forward of the order that dispatches (`forecast`), on copies: nothing is moved.
The answer is as good as the estimates of how long jobs run, which are the same on both sides, so
the difference is better than either of the times. Starts for which the looks of the fast-forward
did not suffice come from lanes on either side and are told as rough.
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


class Starts(dict[str, float]):
    """When each job of a pool should start (epoch seconds); `rough` are those by the lanes."""

    __slots__ = ("rough",)

    def __init__(self, found: Forecast) -> None:
        """Take the starts of a forecast."""
        super().__init__(zip(found.job_ids, found.starts, strict=True))
        self.rough = frozenset(found.job_ids[found.exact :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A job that would start later, by so many seconds."""

    job: Job
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What would become of a job: its place, start and finish (epoch seconds), and who waits longer.

    `start_before` is its start without the lever; None: no start is in sight. `rough`: one of these
    starts, or of those who wait longer, is not exact.
    """

    place: int | None
    start: float | None
    start_before: float | None
    finish: float | None
    delayed: tuple[Delay, ...]
    rough: bool = False


def starts(state: PoolState, now: float, measured: Mapping[str, float]) -> Starts:
    """Return when each job of a pool should start, exactly as far as the looks suffice."""
    return Starts(forecast(state, now, exact=len(state.order), measured=measured))


def effect(
    state: PoolState,
    change: Change,
    job: Job,
    now: float,
    *,
    before: Starts,
    measured: Mapping[str, float],
) -> Effect:
    """Return what `change` would do; `before` are the starts as things stand."""
    changed = state.first(len(state.order))
    change(changed)
    ahead = ahead_of(changed, job)
    told = forecast(changed, now, exact=len(changed.order), measured=measured)
    after = Starts(told)
    later = ((state.order.get(one), after.get(one, at) - at) for one, at in before.items())
    delayed = tuple(
        Delay(job=one, by_s=by_s)
        for one, by_s in later
        if one is not None and one.id != job.id and by_s >= SLACK_S
    )
    return Effect(
        place=ahead.place if ahead else None,
        start=after.get(job.id),
        start_before=before.get(job.id),
        finish=dict(zip(told.job_ids, told.finishes, strict=True)).get(job.id),
        delayed=delayed,
        rough=not (before.rough | after.rough).isdisjoint(
            [job.id, *(one.job.id for one in delayed)]
        ),
    )
