"""The escalations of limits that a job's checks rest on, as facts and in a sentence.

Who answers for one is told to those whose own limit it raises, and to operators.
"""

from collections.abc import Callable, Iterable, Iterator

from scheduling.core.policy.raises import Raise
from scheduling.core.types import LimitKey
from scheduling.models import Attempt, JobEvent, LimitRaise
from scheduling.selectors.explanation.scene import Scene, Told
from scheduling.selectors.queue import moment
from scheduling.selectors.raises import core_raise

_OWN = ("tenant", "workspace", "workflow", "user")
_AMOUNTS = ("running", "requests", "tokens")


def raises_of(scene: Scene, key: LimitKey, needs: Callable[[Raise], bool]) -> list[Told]:
    """Return the escalations in force of one key; `needs` says which the job could not do without."""
    return [_told(scene, one) | {"needed": needs(one)} for one in scene.raised if one.key == key]


def raises_placed_by(scene: Scene, attempt: Attempt) -> list[Told]:
    """Return the escalations without which a placement would not have come about."""
    events = JobEvent.objects.filter(job=scene.job, attempt_id=attempt.id, event="placed")
    data = events.values_list("data", flat=True).first() or {}
    rows = LimitRaise.objects.filter(id__in=data.get("escalations", ()))
    return [_told(scene, core_raise(row)) for row in rows]


def room_made(limits: Iterable[Told]) -> str:
    """Say of limits, or rate windows, which escalations make the room that the job finds."""
    return "".join(f" {said}" for one in limits for said in _said(one))


def _said(limit: Told) -> Iterator[str]:
    for one in limit.get("escalations", ()):
        if one["needed"]:
            amount = next(f"{one[name]} {name}" for name in _AMOUNTS if name in one)
            until = one["ends_at"].isoformat(timespec="minutes")
            yield f"The {limit['scope']}'s limit is raised by {amount} until {until}."


def _told(scene: Scene, one: Raise) -> Told:
    amounts = {name: getattr(one, name) for name in _AMOUNTS if getattr(one, name)}
    told: Told = {"id": one.id, "scope": one.key[0], **amounts, "ends_at": moment(one.ends_at)}
    if scene.within.everywhere or one.key[0] in _OWN:
        told["owner"] = one.owner
    return told
