"""The checks between admission and capacity: retry, pause, and the place in the fair order."""

from scheduling.core.policy.explain import Check, Status, next_rung
from scheduling.core.states import JobState
from scheduling.core.types import Reason
from scheduling.models import JobEvent
from scheduling.selectors.explanation.room import made_room, made_room_words
from scheduling.selectors.explanation.scene import Finding, Scene, Told
from scheduling.selectors.explanation.words import counted
from scheduling.selectors.queue import moment
from scheduling.selectors.reasons import reason_sentence


def retry(scene: Scene) -> Finding:
    """Return whether the job waits between two attempts, and until when."""
    job = scene.job
    facts: Told = {"tries": job.tries, "most": job.max_attempts, "placements": job.fence}
    if job.state != JobState.WAITING:
        room = _made_room(scene)
        sentence = "It waits for no retry."
        if room:
            facts["made_room"] = room
            sentence = f"It made room for {made_room_words(room)}, and goes on when its turn comes."
        return Finding(check=Check.RETRY, status=Status.PASSED, sentence=sentence, facts=facts)
    if scene.attempt is not None:
        facts |= {
            "since": scene.attempt.ended_at,
            "error": scene.attempt.error_class,
            "executor": scene.attempt.executor.slug,
        }
    return Finding(
        check=Check.RETRY,
        status=Status.WAITS,
        sentence=reason_sentence(job.reason),
        facts=facts | {"until": job.wake_at},
        reason=job.reason,
    )


def _made_room(scene: Scene) -> Told:
    """Return for whom a job stopped that waits because of it."""
    if scene.job.reason != Reason.PREEMPTED or scene.attempt is None:
        return {}
    told = made_room(scene, scene.attempt)
    return told and told | {"goes_on": scene.job.checkpoint is not None}


def pause(scene: Scene) -> Finding:
    """Return whether the job is paused, since when and by whom, from its own story."""
    if not scene.job.paused:
        sentence = "It is not paused."
        return Finding(check=Check.PAUSE, status=Status.PASSED, sentence=sentence, facts={})
    told = JobEvent.objects.filter(job=scene.job, event="paused").order_by("-id").first()
    facts: Told = {"since": scene.job.submitted_at}
    if told is not None:
        facts = {"since": told.at, "by": told.data.get("by"), "why": told.data.get("why")}
    return Finding(
        check=Check.PAUSE,
        status=Status.WAITS,
        sentence=reason_sentence(Reason.JOB_PAUSED),
        facts=facts,
        reason=Reason.JOB_PAUSED,
    )


def order(scene: Scene) -> Finding:
    """Return the job's class, turn and place, and who goes first."""
    ahead, orders = scene.ahead, scene.state.order
    blocked = scene.core.id in orders and bool(orders.why_blocked(scene.core.id))
    facts: Told = {"class": scene.core.class_name, "at": scene.order_at, "place": None}
    if ahead is not None:
        facts |= {
            "place": ahead.place,
            "turn": ahead.turn,
            "stands_in": ahead.class_name,
            "ahead": {"own": ahead.own, "others": ahead.others, "tenants": ahead.tenants},
            "charge": scene.core.charge,
            "weight": orders.weight((ahead.class_name, scene.core.tenant, None)),
            "gains": _gains(scene),
        }
    waits = not scene.walked and not blocked
    return Finding(
        check=Check.ORDER,
        status=Status.WAITS if waits else Status.PASSED,
        sentence=_sentence(scene, blocked=blocked),
        facts=facts,
        reason=Reason.IN_ORDER if waits else None,
    )


def _gains(scene: Scene) -> Told | None:
    """Return the class that the job climbs to by waiting, and when."""
    if not scene.walked:
        return None
    rung = next_rung(scene.state, scene.core)
    return None if rung is None else {"class": rung[0], "at": moment(rung[1])}


def _sentence(scene: Scene, *, blocked: bool) -> str:
    ahead = scene.ahead
    if blocked:
        return "It stands in no line as long as a limit of its own is full."
    if ahead is None:
        return "It is in none of the orders published so far; look again in a moment."
    if ahead.place == 1:
        return f"It is the first of all in class {ahead.class_name}."
    return (
        f"It stands at place {ahead.place} in class {ahead.class_name}: "
        f"{counted(ahead.own, 'job')} of its own tenant and {ahead.others} of others go first."
    )
