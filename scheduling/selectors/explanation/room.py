"""Making room: what stops for a job that waits, and for whom a job had to stop.

The story of each attempt that was asked names the class that it makes room for, which all may read,
and the job, which is for operators.
"""

from scheduling.models import Attempt, JobEvent
from scheduling.selectors.explanation.holders import NAMED_MOST
from scheduling.selectors.explanation.scene import Scene, Told
from scheduling.selectors.explanation.words import counted


def made_room(scene: Scene, attempt: Attempt) -> Told:
    """Return what an attempt was asked to stop for, and since when; nothing: it was not asked."""
    events = JobEvent.objects.filter(
        job=scene.job, attempt_id=attempt.id, event__in=("preempting", "preempted")
    )
    asked = events.order_by("id").first()
    if asked is None:
        return {}
    told = {"for": asked.data.get("stop_for"), "for_class": asked.data.get("for_class")}
    if scene.within.everywhere:
        told["for_job"] = asked.data.get("for_job")
    return told | {"since": asked.at, "times": scene.job.preemptions}


def made_room_words(told: Told) -> str:
    """Say for whom room is made."""
    if told.get("for") == "drain":
        return "its executor, which is being drained"
    return f"a job of class {told['for_class']}" if told.get("for_class") else "other work"


def stopping_for(scene: Scene) -> Told:
    """Return the work that is stopping to make room for the scene's job; nothing where there is none."""
    asked = Attempt.objects.filter(
        state="stopping", stop_for="preempt", job__pool=scene.job.pool_id
    ).select_related("job__tenant")
    live = {attempt.id: attempt for attempt in asked}
    if not live:
        return {}
    told = JobEvent.objects.filter(
        job__in=[one.job_id for one in live.values()],
        attempt_id__in=list(live),
        event="preempting",
        data__for_job=str(scene.job.id),
    )
    mine = [live[one.attempt_id] for one in told.order_by("id") if one.attempt_id in live]
    if not mine:
        return {}
    seen = [one for one in mine if scene.within.covers(one.job.tenant_id, one.job.workspace_id)]
    named = [
        {"job": str(one.job_id), "tenant": one.job.tenant.slug, "units": one.cost} for one in seen
    ]
    units = sum(one.cost for one in mine)
    return {"preempts": {"jobs": len(mine), "units": units, "named": named[:NAMED_MOST]}}


def stopping_words(told: Told) -> str:
    """Say what stops for a waiting job, as a sentence to go behind another; empty for nothing."""
    if not told:
        return ""
    jobs = told["preempts"]["jobs"]
    are = "is" if jobs == 1 else "are"
    return f" {counted(jobs, 'job')} of lower classes {are} stopping to make room for it."
