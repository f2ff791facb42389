"""The checks of capacity, in the order of the walk: limits, executors, rates, units, slots.

The walk itself speaks (`core.policy.explain.walked`); here are the facts beside each check.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from math import isinf
from types import MappingProxyType

from scheduling.core.capacity.room import planned_end, shadow_of
from scheduling.core.policy.explain import CAPACITY, Check, Misfit, Status, Walked, misfits
from scheduling.core.policy.raises import cap_needs, rate_needs
from scheduling.core.policy.windows import Rate, Window
from scheduling.core.retry import SPAN_S, RetryBudget
from scheduling.core.types import Executor, LimitKey, Reason
from scheduling.models import Executor as ExecutorRow
from scheduling.selectors.circuits import CLOSED, circuit_word
from scheduling.selectors.explanation.holders import holders, waiting
from scheduling.selectors.explanation.raises import raises_of, room_made
from scheduling.selectors.explanation.room import stopping_for, stopping_words
from scheduling.selectors.explanation.scene import Finding, Scene, Told
from scheduling.selectors.explanation.words import counted
from scheduling.selectors.queue import moment
from scheduling.selectors.reasons import reason_sentence

CHECKS = (
    Check.OWN_LIMITS, Check.SHARED_LIMITS, Check.EXECUTORS, Check.RATES, Check.RETRIES, Check.UNITS,
    Check.SLOTS, Check.RUN,
)  # fmt: skip
_PASSES: Mapping[Check, str] = MappingProxyType(
    {
        Check.OWN_LIMITS: "No running limit of its own is full.",
        Check.SHARED_LIMITS: "No limit that it shares with others is full.",
        Check.EXECUTORS: "There are executors that may run it now.",
        Check.RATES: "The last minute's requests and tokens leave room for it.",
        Check.RETRIES: "It is a first try, or its providers may be tried again.",
        Check.UNITS: "Its units are free.",
        Check.SLOTS: "An executor that may run it has a free slot.",
    }
)

_PREEMPTS = (Reason.HEAD_WAITS_FOR_UNITS, Reason.EXECUTOR_BUSY)


def capacity(scene: Scene, check: Check, found: Walked) -> Finding:
    """Return what a check of capacity says, given what the walk said of the job."""
    facts = _FACTS[check](scene, found)
    if CAPACITY.get(found.reason, Check.RUN) is not check:
        limits = (*facts.get("limits", ()), *facts.get("windows", ()))
        said = _PASSES[check] + room_made(limits)
        return Finding(check=check, status=Status.PASSED, sentence=said, facts=facts)
    reason = _between_steps(scene, found.reason)
    stopping = stopping_for(scene) if reason in _PREEMPTS else {}
    return Finding(
        check=check,
        status=Status.WAITS,
        sentence=_sentence(reason, facts) + stopping_words(stopping),
        facts=facts | stopping,
        reason=reason,
    )


def _between_steps(scene: Scene, reason: Reason) -> Reason:
    """Return what is told of a job that nothing holds up: between two steps, that it is there."""
    stepped = reason is Reason.STARTS_NOW and scene.job.reason == Reason.STEP_DONE
    return Reason.STEP_DONE if stepped else reason


def _sentence(reason: Reason, facts: Told) -> str:
    said = reason_sentence(reason)
    if reason is Reason.HEAD_WAITS_FOR_UNITS:
        return f"{said} It needs {facts['asked']} and {max(0, facts['free'])} are free."
    if reason is Reason.BEHIND_HEAD:
        return f"{said} Served before it: {counted(facts['first']['jobs'], 'job')}."
    if reason is Reason.EXECUTOR_BUSY:
        return f"{said} {counted(len(facts['executors']), 'executor')} may run it."
    return said


def _own_limits(scene: Scene, _found: Walked) -> Told:
    return {"limits": _limits(scene, scene.core.limits)}


def _shared_limits(scene: Scene, _found: Walked) -> Told:
    return {"limits": _limits(scene, (*scene.core.shared, *_providers(scene)))}


def _providers(scene: Scene) -> list[LimitKey]:
    """Return the keys of the providers that may run the job."""
    fitting = scene.state.candidates(scene.core)
    return list(dict.fromkeys(("provider", one.provider) for one in fitting))


def _rates(scene: Scene, _found: Walked) -> Told:
    """Return the rate windows that the job would count in."""
    windows = scene.state.limits.windows
    keys = (("tenant", scene.core.tenant), *_providers(scene))
    return {
        "tokens": scene.core.tokens,
        "windows": [_window(scene, key, windows[key]) for key in keys if key in windows],
    }


def _window(scene: Scene, key: LimitKey, window: Window) -> Told:
    requests, tokens = window.used(scene.now)
    told: Told = {"scope": key[0]}
    if key[0] == "provider":
        told["provider"] = key[1]
    told |= {
        "requests": requests,
        "requests_a_minute": window.rate.requests,
        "tokens": tokens,
        "tokens_a_minute": window.rate.tokens,
        "opens_at": moment(window.opens_at(scene.core.tokens, scene.now)),
    }
    return told | _rate_raised(scene, key, (requests, tokens))


def _retries(scene: Scene, _found: Walked) -> Told:
    """Return the retry budgets of the providers that may run the job."""
    providers = [provider for _, provider in _providers(scene)]
    budgets = scene.state.limits.retries
    found = [_budget(scene, one, budgets[one]) for one in providers if one in budgets]
    return {"retry": scene.core.retry, "providers": found}


def _budget(scene: Scene, provider: str, budget: RetryBudget) -> Told:
    retries, successes = budget.used(scene.now)
    opens_at = budget.opens_at(scene.now)
    return {
        "provider": provider,
        "retries": retries,
        "successes": successes,
        "most": budget.most(scene.now),
        "span_s": SPAN_S,
        "opens_at": None if isinf(opens_at) else moment(opens_at),
    }


def _rate_raised(scene: Scene, key: LimitKey, used: tuple[int, int]) -> Told:
    """Return a rate as it is set, and what is on top of it; nothing where nothing is."""
    tokens = scene.core.tokens
    raises = raises_of(scene, key, lambda one: rate_needs(one, scene.rates, used, tokens))
    rate = scene.rates.get(key, Rate())
    limited = {"requests": rate.requests, "tokens": rate.tokens}
    raises = [one for one in raises if any(limited[name] for name in limited if name in one)]
    if not raises:
        return {}
    base = {"requests_a_minute": rate.requests, "tokens_a_minute": rate.tokens}
    return {"base": base, "escalations": raises}


def _limits(scene: Scene, keys: Iterable[LimitKey]) -> list[Told]:
    """Return the limits that there are; of full ones also who holds them."""
    caps, counts = scene.state.limits.caps, scene.state.limits.counts
    return [_limit(scene, key, caps[key], counts.get(key, 0)) for key in keys if key in caps]


def _limit(scene: Scene, key: LimitKey, cap: int, running: int) -> Told:
    told: Told = {"scope": key[0], "running": running, "most": cap, "full": running >= cap}
    if key[0] == "key":
        told["key"] = key[1]
    told |= _cap_raised(scene, key, running)
    if running < cap:
        return told
    held = (one for one in scene.live.values() if key in (*one.limits, *one.shared))
    return told | {"held_by": holders(scene, held)}


def _cap_raised(scene: Scene, key: LimitKey, running: int) -> Told:
    """Return a running limit as it is set, and what is on top of it; nothing where nothing is."""
    raises = raises_of(scene, key, lambda one: cap_needs(one, scene.caps, running))
    raises = [one for one in raises if "running" in one and key in scene.caps]
    return {"base": scene.caps[key], "escalations": raises} if raises else {}


def _executors(scene: Scene, _found: Walked) -> Told:
    """Return the pool's executors one by one: may they run it, and if not, why not."""
    of_pool = ExecutorRow.objects.filter(pool=scene.job.pool_id).prefetch_related("circuits")
    rows = {str(row.id): row for row in of_pool}
    found = [
        _executor(scene, rows[one.id], one)
        for one in sorted(scene.state.executors.values(), key=lambda one: one.id)
        if one.id in rows and _seen(scene, one)
    ]
    return {"executors": found}


def _slots(scene: Scene, _found: Walked) -> Told:
    fitting = {one.id for one in scene.state.candidates(scene.core)}
    rows = {str(row.id): row for row in ExecutorRow.objects.filter(id__in=fitting)}
    found = (one for one in scene.state.candidates(scene.core) if one.id in rows)
    return {"executors": [_taken(scene, rows[one.id], one) for one in found]}


def _seen(scene: Scene, executor: Executor) -> bool:
    """Others' executors are no business of who may not see them."""
    if scene.within.everywhere or Misfit.NOT_OPEN not in misfits(scene.core, executor):
        return True
    owners = {uuid.UUID(one) for one in (executor.tenant, executor.workspace) if one}
    return not owners.isdisjoint(scene.within.tenants | scene.within.workspaces)


def _executor(scene: Scene, row: ExecutorRow, executor: Executor) -> Told:
    whys = misfits(scene.core, executor)
    told = _taken(scene, row, executor)
    if {Misfit.UNAVAILABLE, Misfit.CIRCUIT} & set(whys):
        word = circuit_word(row, [one for one in row.circuits.all() if one.state != CLOSED])
        told |= {
            "enabled": row.enabled,
            "draining": row.draining,
            "health": row.health,
            "circuit": word.state,
            "circuit_until": word.until,
        }
    return told | {"fits": not whys, "why_not": [why.value for why in whys]}


def _taken(scene: Scene, row: ExecutorRow, executor: Executor) -> Told:
    on_it = [live for live in scene.state.live.values() if live.executor == executor.id]
    ends = [planned_end(live, scene.now) for live in on_it]
    return {
        "executor": row.slug,
        "slots": executor.slots,
        "running": len(on_it),
        "next_end": moment(min(ends, default=None)),
        **_cap_raised(scene, ("executor", executor.id), len(on_it)),
    }


def _units(scene: Scene, found: Walked) -> Told:
    state, cost = scene.state, scene.core.cost
    stands = scene.ahead.class_name if scene.ahead else scene.core.class_name
    uses_reserve = state.uses_reserve(stands)
    told: Told = {
        "asked": cost,
        "free": state.free(stands),
        "budget": state.pool.budget,
        "reserve": state.pool.reserve,
        "in_use": state.use.total,
        "uses_reserve": uses_reserve,
        "first": waiting(scene, found.first),
    }
    if found.reason is Reason.HEAD_WAITS_FOR_UNITS:
        enough = shadow_of(cost, state.room(scene.now), uses_reserve=uses_reserve)
        told["enough_at"] = moment(enough.at)
    if CAPACITY.get(found.reason) is Check.UNITS:
        told["held_by"] = holders(scene, state.live.values())
    return told


def _run(scene: Scene, _found: Walked) -> Told:
    return {"class": scene.core.class_name, "expected_s": scene.core.expected_s}


_FACTS: Mapping[Check, Callable[[Scene, Walked], Told]] = MappingProxyType(
    {
        Check.OWN_LIMITS: _own_limits,
        Check.SHARED_LIMITS: _shared_limits,
        Check.EXECUTORS: _executors,
        Check.RATES: _rates,
        Check.RETRIES: _retries,
        Check.UNITS: _units,
        Check.SLOTS: _slots,
        Check.RUN: _run,
    }
)
