"""An event of a run as a plain sentence: what happened, why, and the facts that the reason names.

A sentence has three parts. The lead says what happened to whom; the middle is the sentence that
the reason has on all surfaces (`core.reasons`); the end spells out the event's facts, each by its
own phrase. A fact without a phrase is still told, by its name, so nothing is left out.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from scheduling.core.reasons import REASON_SENTENCES
from scheduling.core.types import Reason

Event: TypeAlias = Mapping[str, Any]

LEADS: dict[str, Callable[[Event], str]] = {
    "admitted": lambda e: f"{_job(e)} is admitted",
    "queued": lambda e: f"{_job(e)} waits{_place(e)}",
    "deferred": lambda e: f"{_job(e)} is put off",
    "denied": lambda e: f"{_job(e)} is refused",
    "placed": lambda e: f"{_job(e)} takes a place{_on(e)}{_turn(e)}",
    "step_done": lambda e: f"{_job(e)} has done a step",
    "started": lambda e: f"{_job(e)} starts{_on(e)}",
    "finished": lambda e: f"{_job(e)} has finished{_spans(e)}",
    "failed": lambda e: f"{_job(e)} has failed",
    "retried": lambda e: f"{_job(e)} is to be tried again",
    "fallback": lambda e: f"{_job(e)} changes to a model that stands in",
    "preempted": lambda e: f"{_job(e)} gives way",
    "requeued": lambda e: f"{_job(e)} stands in line again{_place(e)}",
    "lost": lambda e: f"{_job(e)} has lost its worker",
    "canceled": lambda e: f"{_job(e)} is canceled",
    "expired": lambda e: f"{_job(e)} has expired",
    "held": lambda e: f"{_whom(e)} is held",
    "resumed": lambda e: f"{_whom(e)} goes on",
    "reviewed": lambda e: f"{_job(e)} has been reviewed",
    "shed": lambda e: f"{_job(e)} is turned away under overload",
    "circuit_opened": lambda e: (
        f"The circuit{_circuit(e)} opens: nothing is sent there for a while"
    ),
    "circuit_closed": lambda e: f"The circuit{_circuit(e)} closes: work is sent there again",
    "budget_crossed": lambda e: f"A budget of {e.get('tenant', 'a tenant')} has passed a mark",
    "policy": lambda e: f"Lever {e.get('do', 'policy')}{_target(e)}",
}

FACTS: dict[str, str] = {
    "need": "units needed: {}",
    "free": "units free: {}",
    "head": "first in line is {}",
    "until": "until {}",
    "not_before": "not before {}",
    "retry_at": "again at {}",
    "deadline": "its deadline is {}",
    "budget": "the budget is {}",
    "limit": "the limit is {}",
    "spent": "spent: {}",
    "held": "held for other jobs: {}",
    "mark": "the mark is {} %",
    "units": "units freed: {}",
    "scope": "counted over {}",
    "tries": "tries so far: {}",
    "passed": "passed over: {}",
    "most": "the most that its class may have: {}",
    "victim_of": "room is made for {}",
    "executor": "the executor is {}",
    "executors": "the executors are {}",
    "model": "the model is {}",
    "model_from": "the model that fails is {}",
    "model_to": "the model that stands in is {}",
    "attempt": "tries so far: {}",
    "attempts": "tries so far: {}",
    "waiting": "jobs waiting: {}",
    "delay_s": "the wait is {}",
    "wait_s": "the wait is {}",
    "lost_s": "work lost: {}",
    "ran_s": "it ran for {}",
    "class": "its class is {}",
    "tenant": "the tenant is {}",
    "dimension": "counted in {}",
    "window": "the window is {}",
    "estimate": "the estimate is {}",
    "weight": "the weight is {}",
}

_BESIDE_A_JOB = frozenset({"circuit_opened", "circuit_closed", "budget_crossed"})
"""Events whose lead says it all: the sentences of reasons speak of a job."""
_MOMENTS = frozenset({"until", "not_before", "retry_at", "deadline"})


def sentence(event: Event) -> str:
    """Return the event in words: what happened, the reason, and every fact of it."""
    name = str(event["event"])
    lead = LEADS[name](event) if name in LEADS else f"{_whom(event)}: {name}"
    parts = [f"{lead}."]
    reason, told = event.get("reason"), dict(event.get("facts") or {})
    if reason and name not in _BESIDE_A_JOB:
        parts.append(_reason(str(reason)))
    if "sentence" in told:
        parts.append(str(told.pop("sentence")))
    facts = facts_in_words({key: one for key, one in told.items() if event.get(key) != one})
    if facts:
        parts.append(f"{facts[0].upper()}{facts[1:]}.")
    return " ".join(parts)


def facts_in_words(facts: Mapping[str, Any]) -> str:
    """Return the facts as one clause after the other; "" where there are none."""
    names = {"need": "estimate"} if "dimension" in facts else {}
    told = ((names.get(key, key), value) for key, value in facts.items())
    return "; ".join(_fact(key, value) for key, value in told if value not in (None, "", [], ()))


def clock(seconds: float) -> str:
    """Return a time of the run as h:mm:ss, with a fraction only where there is one."""
    whole, fraction = divmod(round(seconds, 3), 1)
    minutes, second = divmod(int(whole), 60)
    hours, minute = divmod(minutes, 60)
    tail = f"{fraction:.3f}".rstrip("0")[1:].rstrip(".") if fraction else ""
    return f"{hours}:{minute:02}:{second:02}{tail}"


def span(seconds: float) -> str:
    """Return a duration in the largest unit that suits it: 4.5 s, 3 m 20 s, 2 h 5 m, 1 d 3 h."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for size, unit, less, small in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m")):
        if whole >= size:
            return _two(whole // size, unit, whole % size // less, small)
    return _two(whole // 60, "m", whole % 60, "s")


def _two(many: int, unit: str, few: int, small: str) -> str:
    return f"{many} {unit} {few} {small}" if few else f"{many} {unit}"


def _reason(code: str) -> str:
    try:
        return REASON_SENTENCES[Reason(code)]
    except ValueError:
        return f"Reason: {code}."


def _fact(key: str, value: object) -> str:
    said = _value(key, value)
    return FACTS[key].format(said) if key in FACTS else f"{key.replace('_', ' ')}: {said}"


def _value(key: str, value: object) -> str:
    """A value as it is read: moments and durations in their units, lists with commas."""
    if isinstance(value, list | tuple):
        return ", ".join(_value("", one) for one in value)
    if isinstance(value, dict):
        return " ".join(f"{name} {one}" for name, one in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and key in _MOMENTS:
        return clock(value)
    if isinstance(value, int | float) and key.endswith("_s"):
        return span(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _job(event: Event) -> str:
    job, tenant = event.get("job", "A job"), event.get("tenant")
    return f"{job} of {tenant}" if tenant else str(job)


def _whom(event: Event) -> str:
    return _job(event) if event.get("job") else str(event.get("tenant") or "")


def _place(event: Event) -> str:
    place, eta = event.get("place"), event.get("eta_s")
    parts = [] if place is None else [f" at place {place}"]
    if eta is not None:
        parts.append(f", to end in some {span(eta)}")
    return "".join(parts)


def _on(event: Event) -> str:
    return f" on {event['executor']}" if event.get("executor") else ""


def _turn(event: Event) -> str:
    turn, name = event.get("turn"), event.get("class")
    told = f", class {name}" if name else ""
    if turn is not None:
        told += f", turn {turn}"
    if event.get("free_before") is not None:
        cost, before = event.get("cost"), event["free_before"]
        told += f": {cost} of {before} free units, which leaves {event.get('free_after')}"
    return told


def _spans(event: Event) -> str:
    if event.get("waited_s") is None:
        return ""
    return f" after {span(event['waited_s'])} of waiting and {span(event.get('ran_s', 0))} of work"


def _target(event: Event) -> str:
    names = ("job", "tenant", "workflow", "pool", "executor")
    told = [f"{name} {event[name]}" for name in names if event.get(name)]
    return f" on {', '.join(told)}" if told else ""


def _circuit(event: Event) -> str:
    facts = event.get("facts") or {}
    executor = event.get("executor") or facts.get("executor")
    return f" of {executor}" if executor else ""
