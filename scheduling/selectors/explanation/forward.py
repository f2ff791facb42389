"""What would bring a job forward, and what that would cost others: levers, tried on a copy.

Each lever is pulled on a copy of the pool's state and the forecast of it is set beside the forecast
without it (`core.eta.what_if`). Where the state is only the front of a large pool, the delay of
all that stand ahead is told as that of those at the front.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType

from msgspec.structs import replace

from billing.services.verdicts import plain
from scheduling.core.eta.what_if import Change, Delay, Effect, Starts, effect, starts
from scheduling.core.policy.explain import Check, Misfit, Walked, misfits
from scheduling.core.policy.seam import standing
from scheduling.core.policy.state import PoolState
from scheduling.core.types import ClassRule, Executor, LimitKey
from scheduling.models import Executor as ExecutorRow
from scheduling.selectors.explanation.scene import Finding, Scene, Told
from scheduling.selectors.explanation.words import counted
from scheduling.selectors.queue import moment

NAMED_MOST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One lever: its name, what it would be set to, and the least role that pulls it."""

    name: str
    sets: Told
    by: str
    change: Change


def forward(scene: Scene, stopped: Finding, found: Walked | None) -> list[Told]:
    """Return the levers that would free the job from the check that stops it, with their effect."""
    if stopped.check is Check.BUDGET:
        return list(_raises(scene))
    placeless = stopped.check is Check.ORDER and scene.ahead is None
    make = None if placeless else _LEVERS.get(stopped.check)
    levers = list(make(scene, found)) if make is not None else []
    if not levers:
        return []
    before = starts(scene.state, scene.now, scene.measured)
    if not scene.walked:
        before.pop(scene.core.id, None)  # those between the front and the job are not in the state
    told = (_told(scene, one, before) for one in levers)
    return [one for one in told if one is not None]


def _told(scene: Scene, lever: Lever, before: Starts) -> Told | None:
    """Return a lever with its effect; None for one that brings the job no start in sight sooner."""
    found = effect(
        scene.state, lever.change, scene.core, scene.now, before=before, measured=scene.measured
    )
    if not _helps(found):
        return None
    others = others_told(scene, found)
    return {
        "lever": lever.name,
        "sets": lever.sets,
        "by": lever.by,
        "sentence": _sentence(scene, found, others),
        "place": found.place,
        "start": moment(found.start),
        "sooner_s": _sooner(found),
        "others": others,
        "approximate": found.rough or not scene.walked,
    }


def _raises(scene: Scene) -> Iterator[Told]:
    """Yield, for each budget that refuses, the limit that would let the job in."""
    for one in scene.rehearsed.facts.refusals:
        limit = one.spent + one.held + one.estimate
        yield {
            "lever": "budget",
            "sets": {"scope": one.scope, "dimension": one.dimension, "limit": plain(limit)},
            "by": "tenant_admin",
            "sentence": f"A {one.dimension} budget of {plain(limit)} for its {one.scope} would let "
            "it in.",
            "place": None,
            "start": None,
            "sooner_s": None,
            "others": None,
            "approximate": False,
        }


def _helps(found: Effect) -> bool:
    if found.start is None:
        return False
    return found.start_before is None or found.start < found.start_before


def _sooner(found: Effect) -> float | None:
    if found.start is None or found.start_before is None:
        return None
    return round(found.start_before - found.start, 1)


def others_told(scene: Scene, found: Effect) -> Told:
    """Return what it would cost: own jobs apart from others', who are named to operators alone."""
    own = [one for one in found.delayed if one.job.tenant == scene.core.tenant]
    others = [one for one in found.delayed if one.job.tenant != scene.core.tenant]
    told = {**_delay(others), "tenants": len({one.job.tenant for one in others})}
    mine = _delay(own)
    if found.delayed and scene.ahead is not None and not scene.walked:
        told |= {"jobs": scene.ahead.others, "tenants": scene.ahead.tenants}
        mine["jobs"] = scene.ahead.own
    if scene.within.everywhere:
        slugs = {scene.tenants.get(one.job.tenant, "") for one in others}
        told["named"] = sorted(slugs)[:NAMED_MOST]
    return told | {"own": mine}


def _delay(delayed: list[Delay]) -> Told:
    seconds = [one.by_s for one in delayed]
    return {
        "jobs": len(seconds),
        "mean_s": round(fmean(seconds), 1) if seconds else 0.0,
        "most_s": round(max(seconds, default=0.0), 1),
        "total_s": round(sum(seconds), 1),
    }


def _sentence(scene: Scene, found: Effect, others: Told) -> str:
    start = max(0.0, (found.start or scene.now) - scene.now)
    when = "at once" if start < 1 else f"in about {start:.0f} s"
    gained = f"{_moved(scene, found)} and start {when}"
    if not others["jobs"]:
        return f"{gained}; no job of others would wait longer."
    return (
        f"{gained}; {counted(others['jobs'], 'job')} of {counted(others['tenants'], 'other tenant')} "
        f"would start later, by {others['mean_s']:.0f} s on average."
    )


def _moved(scene: Scene, found: Effect) -> str:
    if scene.ahead is None:
        return f"It would stand at place {found.place}"
    if scene.ahead.place == found.place:
        return f"It would stay at place {found.place}"
    return f"It would move from place {scene.ahead.place} to place {found.place}"


def _unhold(scene: Scene, _found: Walked | None) -> Iterator[Lever]:
    tenant = scene.core.tenant
    yield Lever(
        name="tenant_weight",
        sets={"weight": scene.state.order.weight((scene.core.class_name, tenant, None))},
        by="operator",
        change=lambda state: state.unhold(tenant),
    )


def _resume(scene: Scene, _found: Walked | None) -> Iterator[Lever]:
    core = scene.core
    yield Lever(name="resume", sets={}, by="submitter", change=lambda state: state.wait(core))


def _larger(scene: Scene, _found: Walked | None) -> Iterator[Lever]:
    pool, core = scene.state.pool, scene.core
    least = core.cost if scene.state.uses_reserve(core.class_name) else core.cost + pool.reserve

    def change(state: PoolState) -> None:
        state.set_pool(replace(pool, budget=least))
        state.wait(core)

    yield Lever(name="pool_dial", sets={"budget": least}, by="operator", change=change)


def _own_cap(scene: Scene, _found: Walked | None) -> Iterator[Lever]:
    room = scene.state.room(scene.now)
    full = {key: room.counts[key] + 1 for key in room.full(scene.core.limits)}
    if full:
        scopes = {key[0]: most for key, most in full.items()}
        by = "operator" if {"tenant", "user"} & scopes.keys() else "tenant_admin"
        yield Lever(name="limits", sets=scopes, by=by, change=_capped(full))


def _capped(full: Mapping[LimitKey, int]) -> Change:
    return lambda state: state.limits.set_caps({**state.limits.caps, **full})


def _available(scene: Scene, _found: Walked | None) -> Iterator[Lever]:
    """Executors that are only switched off or drained; health and circuits mend by themselves."""
    rows = {str(row.id): row for row in ExecutorRow.objects.filter(pool=scene.job.pool_id)}
    for one in scene.state.executors.values():
        row = rows.get(one.id)
        if row is None or misfits(scene.core, one) != (Misfit.UNAVAILABLE,):
            continue
        wakes = {**scene.state.executors, one.id: replace(one, available=True)}
        sets = {"executor": row.slug}
        if not row.enabled:
            yield Lever(name="executor_enable", sets=sets, by="operator", change=_with(wakes))
        elif row.draining:
            yield Lever(name="executor_undrain", sets=sets, by="operator", change=_with(wakes))


def _with(executors: Mapping[str, Executor]) -> Change:
    return lambda state: state.set_executors(executors)


def _slot(scene: Scene, found: Walked | None) -> Iterator[Lever]:
    yield from _faster(scene, found)
    fitting = {one.id: one for one in scene.state.candidates(scene.core)}
    for row in ExecutorRow.objects.filter(id__in=fitting).order_by("slug"):
        one = fitting[str(row.id)]
        if row.slots <= one.slots:  # else it lacks worker threads, which no lever makes
            base = scene.state.executors[one.id]
            wider = replace(base, slots=base.slots + 1, seats=base.most + 1)
            more = {**scene.state.executors, one.id: wider}
            sets = {"executor": row.slug, "slots": row.slots + 1}
            yield Lever(name="executor_capacity", sets=sets, by="operator", change=_with(more))
            return


def _more_units(scene: Scene, found: Walked | None) -> Iterator[Lever]:
    yield from _faster(scene, found)
    pool, stands = scene.state.pool, scene.core.class_name
    before = sum(job.cost for job in found.first) if found else 0
    lacking = before + scene.core.cost - scene.state.free(stands)
    if lacking > 0:
        budget = pool.budget + lacking
        yield Lever(
            name="pool_dial",
            sets={"budget": budget},
            by="operator",
            change=lambda state: state.set_pool(replace(pool, budget=budget)),
        )


def _faster(scene: Scene, _found: Walked | None) -> Iterator[Lever]:
    """The highest class that does not draw on the reserve, if the job stands below it."""
    rules = scene.state.policy.classes
    stands = scene.ahead.class_name if scene.ahead else scene.core.class_name
    target = next((rule for rule in rules if not rule.uses_reserve), None)
    if target is not None and _rank(rules, target.name) < _rank(rules, stands):
        core = replace(scene.core, class_name=target.name)
        core = standing(scene.state.queue, scene.state.policy, core)
        yield Lever(
            name="prioritise",
            sets={"class": target.name},
            by=target.asked_by,
            change=lambda state: state.wait(core),
        )


def _rank(rules: tuple[ClassRule, ...], name: str) -> int:
    return next((at for at, rule in enumerate(rules) if rule.name == name), len(rules))


_LEVERS: Mapping[Check, Callable[[Scene, Walked | None], Iterator[Lever]]] = MappingProxyType(
    {
        Check.SIZE: _larger,
        Check.HOLD: _unhold,
        Check.PAUSE: _resume,
        Check.ORDER: _faster,
        Check.OWN_LIMITS: _own_cap,
        Check.EXECUTORS: _available,
        Check.UNITS: _more_units,
        Check.SLOTS: _slot,
    }
)
