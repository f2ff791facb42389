"""The last two checks: where a job runs, and how one that has ended did."""

from datetime import timedelta

from scheduling.core.policy.explain import Check, Status
from scheduling.core.states import JobState
from scheduling.core.types import Reason
from scheduling.models.attempt import MAKE_ROOM
from scheduling.selectors.explanation.raises import raises_placed_by
from scheduling.selectors.explanation.room import made_room, made_room_words
from scheduling.selectors.explanation.scene import Finding, Scene, Told
from scheduling.selectors.reasons import reason_sentence


def run(scene: Scene) -> Finding:
    """Return where a job runs or ran last, since when, and when it should end."""
    attempt = scene.attempt
    if attempt is None:
        sentence = "It was never placed."
        return Finding(check=Check.RUN, status=Status.NOT_REACHED, sentence=sentence, facts={})
    runs = scene.job.state == JobState.RUNNING
    facts: Told = {
        "executor": attempt.executor.slug,
        "placed_at": attempt.dispatched_at,
        "since": attempt.started_at,
        "placement": attempt.fence,
        "state": attempt.state,
        "units": attempt.cost,
        "turn": attempt.turn,
    }
    raises = raises_placed_by(scene, attempt)
    if raises:
        facts["escalations"] = raises
    if not runs:
        sentence = f"It ran on {attempt.executor.slug}."
        facts |= {"ended_at": attempt.ended_at, "error": attempt.error_class}
        return Finding(check=Check.RUN, status=Status.PASSED, sentence=sentence, facts=facts)
    ends = attempt.dispatched_at + timedelta(seconds=attempt.expected_s)
    facts |= {
        "lease_until": attempt.lease_until,
        "expected_end": ends,
        "overdue": ends < scene.at,
        "cancel_requested": scene.job.cancel_requested,
    }
    said, reason = f"{reason_sentence(scene.job.reason)} It is on", scene.job.reason
    if attempt.stop_for in MAKE_ROOM:
        room = made_room(scene, attempt)
        facts["makes_room"], reason = room, Reason.PREEMPTED
        said = f"It is asked to make room for {made_room_words(room)}, and goes on later. It is still on"
    return Finding(
        check=Check.RUN,
        status=Status.PASSED,
        sentence=f"{said} {attempt.executor.slug}.",
        facts=facts,
        reason=reason,
    )


def end(scene: Scene) -> Finding:
    """Return how a job ended; one that has not yet says so."""
    job = scene.job
    if job.finished_at is None:
        sentence = "It has not ended."
        return Finding(check=Check.END, status=Status.NOT_REACHED, sentence=sentence, facts={})
    return Finding(
        check=Check.END,
        status=Status.PASSED if job.state == JobState.DONE else Status.FAILS,
        sentence=reason_sentence(job.reason),
        facts={
            "state": job.state,
            "outcome": job.outcome,
            "at": job.finished_at,
            "tries": job.tries,
            "most": job.max_attempts,
            "placements": job.fence,
            "deadline": job.deadline,
            "expires_at": job.expires_at,
            "error": (job.error or {}).get("class"),
        },
        reason=job.reason,
    )
