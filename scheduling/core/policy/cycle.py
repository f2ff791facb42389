"""The cycle: place from the front of the order all that may start now (DESIGN 4.2).

The classes are walked in their strict order and each job is put to the walk's tests
(`core.capacity`). A job that fits takes its capacity and is charged at once, so the next one is
measured against what is left. The walk starts again from the front whenever the lines changed under
it: an own limit became full or an own rate window has no room, so that its jobs left their lines,
or aged jobs fell back. Within one cycle nothing is ever freed, so what was refused once stays
refused.

The outcome is that of rebuilding the order, placing its first startable job, and so on until there
is none; a property test holds this. (Where a skipped job stands in front, in its tenant's line, of
jobs of a second workspace, or deadlines reorder a line, a rebuilt order may show two jobs of
different tenants the other way round. Both orders are lawful and nothing startable is left.)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType

from scheduling.core.capacity.walk import Answer, Fit, Skip, Walk
from scheduling.core.order.order import Order
from scheduling.core.policy.limits import LIMIT, RATE
from scheduling.core.policy.seam import chosen
from scheduling.core.policy.state import HOLD, Choice, PoolState
from scheduling.core.types import REVIEWS, Placement, Reason, Spot

WHY: Mapping[str, Reason] = MappingProxyType(
    {HOLD: Reason.TENANT_HELD, LIMIT: Reason.OWN_LIMIT, RATE: Reason.RATE_WINDOW}
)
"""What a job is told that its order keeps out of the lines; the first that applies, else paused."""


@dataclass(slots=True)
class Cycle:
    """What one cycle did; `drained` when a further job at the order's end could have started.

    `looked` counts the spots that were put to the tests: what the cycle cost.
    """

    placements: list[Placement] = field(default_factory=list)
    drained: bool = False
    looked: int = 0


def cycle(state: PoolState, now: float) -> list[Placement]:
    """Place all that may start at `now`, applied to `state`, in the order of placement."""
    return run(state, now).placements


def run(state: PoolState, now: float) -> Cycle:
    """Do one cycle, and tell also whether capacity was left for more than the order holds."""
    state.order.advance(now)
    state.limits.advance(now)
    done = Cycle()
    while not _walked(state, done, now):
        pass
    return done


def waits(state: PoolState, now: float, first: int) -> dict[str, Reason]:
    """Tell why each of the first waiting jobs does not start now, changing nothing.

    Also told are as many of the jobs that a block keeps out of the lines, and all that never fit.
    A job that could start, since no cycle has run yet, is told so.
    """
    walk = Walk(state.room(now))
    told: dict[str, Reason] = {}
    for spot in islice(state.order.walk_all(), first):
        answer = tested(state, walk, spot)
        told[spot.job.id] = Reason.STARTS_NOW if isinstance(answer, Fit) else answer.reason
    for job in state.order.blocked_jobs()[:first]:
        told[job.id] = _kept_out(state, job.id)
    return told | dict.fromkeys(state.never_fits, Reason.NEVER_FITS)


def _kept_out(state: PoolState, job_id: str) -> Reason:
    whys = {why for _, why in state.order.why_blocked(job_id)}
    return next((reason for why, reason in WHY.items() if why in whys), Reason.JOB_PAUSED)


def _walked(state: PoolState, done: Cycle, now: float) -> bool:
    """Walk the order once; False when the lines changed under the walk, so it must begin anew."""
    revision, walk = state.order.revision, Walk(state.room(now))
    full, closed = not state.has_free_slot(), 0
    for spot in _open_spots(state, walk):
        if full:
            break
        done.looked += 1
        answer = tested(state, walk, spot)
        if isinstance(answer, Fit):
            done.placements.append(_placed(state, spot, answer, now))
        elif _shuts(state, spot, answer, now):
            return False
        elif len(walk.closed_providers) == closed:
            continue
        if state.order.revision != revision:
            return False
        closed = len(walk.closed_providers)
        full = bool(state.order.jobs) and not state.has_free_slot(walk.closed_providers)
    else:
        done.drained = not walk.stopped(uses_reserve=False)
    state.opens_at = min(walk.opens_at, state.limits.opens_at())
    return True


def _shuts(state: PoolState, spot: Spot, answer: Answer, now: float) -> bool:
    """Let the jobs of an own rate window that has no room for the job leave their lines."""
    if not isinstance(answer, Skip) or answer.window is None:
        return False
    state.limits.shut(answer.window, spot.job.tokens, now)
    return True


def _open_spots(state: PoolState, walk: Walk) -> Iterator[Spot]:
    """Yield the order's spots, leaving out the parts that the walk has stopped."""
    order = state.order
    names = order.open_classes()  # a walk opens none
    for rule in state.policy.classes:
        if rule.name not in names:
            continue
        if walk.ended(uses_reserve=rule.uses_reserve):
            continue
        if rule is REVIEWS and not state.has_reviewer():
            continue
        for spot in _spots(order, rule.name):
            yield spot
            if walk.ended(uses_reserve=rule.uses_reserve):
                break


def _spots(order: Order, name: str) -> Iterator[Spot]:
    """Yield a class in order while shown spots are placed: heads, and a walk behind a refused one.

    A head is found at once, while a walk must begin by copying the heads of all tenants.
    """
    while (head := order.head(name)) is not None:
        yield head
        if head.job.id in order.jobs:
            yield from islice(order.walk(name), 1, None)
            return


def tested(state: PoolState, walk: Walk, spot: Spot) -> Answer:
    """Put the next spot of the order to the walk's tests."""
    answer = walk.test(
        spot.job,
        uses_reserve=state.uses_reserve(spot.class_name),
        candidates=state.candidates(spot.job),
    )
    if isinstance(answer, Skip) and answer.reason is Reason.NO_EXECUTOR:
        return Skip(state.without_candidate(spot.job))
    return answer


def _placed(state: PoolState, spot: Spot, fit: Fit, now: float) -> Placement:
    job = spot.job
    eligible = state.free_of(job, fit.executors)
    in_use = state.manned if job.by_worker else state.busy
    executor = chosen(state.queue, job, eligible, in_use)
    reason = Reason.BACKFILLED if fit.backfilled else Reason.PLACED
    return state.place(Choice(spot=spot, executor=executor.id, reason=reason), now)
