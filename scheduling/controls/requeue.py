"""What a job goes through that is put back: all of its run is forgotten but what it cost.

Theory. A requeued job is new to the order: were it to keep its old time it would climb over work
that has waited all the while. Its fence goes on counting, so that a late report of an earlier
attempt stays stale, and its ledger entries stand.
"""

from collections.abc import Iterator
from datetime import datetime

from scheduling.controls.steps import JobRefused, Step
from scheduling.core.states import ENDED_JOBS, JobEvent, JobState, Phase, job_move, job_sources
from scheduling.core.types import Reason
from scheduling.kinds.contract import RunsBy
from scheduling.kinds.registry import runs_by
from scheduling.models import Job

REQUEUE_COLUMNS = (
    "state", "phase", "reason", "outcome", "cancel_requested", "step", "step_fence", "checkpoint", "tries",
    "result", "error", "runs_model",
    "submitted_at", "deadline", "expires_at", "wake_at", "started_at", "finished_at",
)  # fmt: skip

_REFUSALS = {
    JobState.RUNNING: ("job_running", "The job runs; cancel it first, or let it end."),
    JobState.DONE: ("job_ended", "The job is done; submit it again if it is to be done twice."),
    JobState.DENIED: ("job_ended", "It was denied; mend what the decision names and submit anew."),
}
_OF_CALLER = ("caller_runs_it", "Its caller made this call; a new one asks for a slot of its own.")
_WAITS = ("job_waits", "The job waits already; there is nothing to put back.")


def requeue(job: Job, now: datetime) -> Step:
    """Send an ended job back to admission, due at once; the row is changed, not stored.

    Raises `JobRefused` for a job that waits, runs, is done or was denied, and for a caller's own.
    """
    state = JobState(job.state)
    if state not in job_sources(JobEvent.REQUEUE) & ENDED_JOBS:
        raise JobRefused(*_REFUSALS.get(state, _WAITS))
    if runs_by(job.kind) is RunsBy.CALLER:
        raise JobRefused(*_OF_CALLER)
    lost = tuple(_lost(job, now))
    before = {"state": str(state), "tries": job.tries, "submitted_at": job.submitted_at.isoformat()}
    job.state = job_move(job_move(state, JobEvent.REQUEUE), JobEvent.DEFER)
    job.reason, job.outcome = Reason.REQUEUED, "unreviewed"
    job.cancel_requested, job.step, job.tries = False, 0, 0
    job.step_fence, job.checkpoint, job.phase = job.fence, None, Phase.WORK
    job.runs_model = ""
    job.result = job.error = job.started_at = job.finished_at = None
    job.submitted_at = job.wake_at = now
    if _has_passed(job.deadline, now):
        job.deadline = None
    if _has_passed(job.expires_at, now):
        job.expires_at = None
    after = {"state": str(job.state), "tries": 0, "submitted_at": now.isoformat()}
    return Step(before=before, after=after, lost=lost)


def _lost(job: Job, now: datetime) -> Iterator[str]:
    yield "Its place: it waits anew from now on."
    if job.tries:
        yield f"The count of its {job.tries} failed attempts."
    if job.error is not None:
        yield "Its last error; the attempts keep theirs."
    if job.step:
        yield f"The {job.step} steps that it had done; they are done anew."
    if job.result is not None:
        yield "The part of a result that it left."
    yield from _ends_lost(job, now)
    if job.fence:
        yield "Nothing of what its earlier attempts cost: that stays booked."
    if job.fence and not job.idempotent:
        yield "It is not idempotent: what earlier attempts did outside may be done twice."


def _ends_lost(job: Job, now: datetime) -> Iterator[str]:
    if _has_passed(job.deadline, now):
        yield "Its deadline, which has passed."
    if _has_passed(job.expires_at, now):
        yield "Its time to live, which is over."


def _has_passed(end: datetime | None, now: datetime) -> bool:
    return end is not None and end <= now
