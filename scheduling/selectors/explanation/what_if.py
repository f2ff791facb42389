"""What would become of one job: submitted now, or with the dial, its class or a weight changed.

The change is made on a copy of the pool and the forecast of it is set beside the forecast without
it (`core.eta.what_if`); nothing is moved. The state holds the front of a large pool: what lands in
front of its end is exact. For a job behind it only the dial is told, by proportion (twice the units
drain what stands ahead in half the time), and marked approximate. Units are those that the job's
part may ever have: the general part is the dial less the reserve.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from scheduling.core.capacity.room import ceiling, never_fits
from scheduling.core.eta.what_if import Change, Effect, effect, starts
from scheduling.core.policy.seam import standing
from scheduling.core.types import Pool
from scheduling.selectors.explanation.forward import others_told
from scheduling.selectors.explanation.scene import Scene, Told
from scheduling.selectors.queue import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """One change: the pool's budget in units, the job's class, or its tenant's weight (>= 1).

    With none of them the job is submitted as it is.
    """

    budget: int | None = None
    job_class: str | None = None
    weight: int | None = None


def what_if(scene: Scene, asked: WhatIf) -> Told:
    """Return where the job would stand, when it would start and finish, and who would wait longer.

    Times and the place are None where the job has no start in sight, or stands too deep to be told.
    """
    before = starts(scene.state, scene.now, scene.measured)
    if not scene.walked:
        before.pop(scene.core.id, None)  # those between the front and the job are not in the state
    change = _change(scene, asked)
    found = effect(
        scene.state, change, scene.core, scene.now, before=before, measured=scene.measured
    )
    start_before = found.start_before if scene.walked else scene.start
    if not _is_exact(scene, asked, found):
        found = _by_proportion(scene, asked)
    return {
        "place": found.place,
        "start": moment(found.start),
        **_finish(scene, found),
        "before": {
            "place": scene.ahead.place if scene.ahead else None,
            "start": moment(start_before),
        },
        "sooner_s": _sooner(start_before, found.start),
        "delayed": others_told(scene, found),
        "cost": scene.core.cost,
        "approximate": found.rough,
        "never_fits": _never_fits(scene, asked),
    }


def _change(scene: Scene, asked: WhatIf) -> Change:
    core, state = scene.core, scene.state
    if asked.budget is not None:
        pool = replace(state.pool, budget=asked.budget)
        return lambda copy: copy.set_pool(pool)
    if asked.weight is not None:
        weight = asked.weight
        return lambda copy: copy.set_weight(core.tenant, weight)
    if asked.job_class is not None:
        moved = standing(state.queue, state.policy, replace(core, class_name=asked.job_class))
        return lambda copy: copy.wait(moved)
    return lambda copy: copy.wait(core)


def _is_exact(scene: Scene, asked: WhatIf, found: Effect) -> bool:
    """Tell whether all that decides on the job is in the state."""
    if scene.walked:
        return True
    is_front = found.place is not None and found.place < len(scene.state.order)
    return asked.job_class is not None and is_front


def _by_proportion(scene: Scene, asked: WhatIf) -> Effect:
    """Return what can be told of a job behind the front."""
    start = None
    if asked.budget and scene.start is not None and not _never_fits(scene, asked):
        wait = max(0.0, scene.start - scene.now)
        start = scene.now + wait * _most(scene, scene.state.pool) / _most(
            scene, _dialled(scene, asked)
        )
    is_placed = asked.weight is None and asked.job_class is None and scene.ahead is not None
    return Effect(
        place=scene.ahead.place if is_placed and scene.ahead else None,
        start=start,
        start_before=scene.start,
        finish=None if start is None else start + scene.core.expected_s,
        delayed=(),
        rough=True,
    )


def _dialled(scene: Scene, asked: WhatIf) -> Pool:
    pool = scene.state.pool
    return pool if asked.budget is None else replace(pool, budget=asked.budget)


def _most(scene: Scene, pool: Pool) -> int:
    """Return the most units that the job's part of a pool can have, at least one."""
    uses_reserve = scene.state.uses_reserve(scene.core.class_name)
    return max(1, ceiling(pool, uses_reserve=uses_reserve))


def _finish(scene: Scene, found: Effect) -> Told:
    if found.finish is None:
        return {"finish": None, "finish_low": None, "finish_high": None}
    low, high = scene.range_of.around(found.finish, scene.now)
    return {
        "finish": moment(found.finish),
        "finish_low": moment(low),
        "finish_high": moment(high),
    }


def _sooner(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else round(before - after, 1)


def _never_fits(scene: Scene, asked: WhatIf) -> bool:
    uses_reserve = scene.state.uses_reserve(asked.job_class or scene.core.class_name)
    return never_fits(scene.core.cost, _dialled(scene, asked), uses_reserve=uses_reserve)
