"""Reviews: a person takes the work that lies before the reviewers, judges it, or gives it back.

A review is a placement like any other, on an executor of kind human, whose slots are the reviewers:
so many reviews lie before them at once. It lies there as long as it takes. Who takes it has it for
`REVIEW_LEASE_S`, after which it goes back in the order; so it does when it is given back.

Nobody judges what he has submitted himself.

Theory. Job and attempt are locked, in this order, before anything is looked at: of two who act at
once the second sees what the first did and is refused. The verdict is settled as the outcome of the
attempt, in the same transaction, and so exactly once, with its minutes, its story and all that
waits for the job.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db import transaction

from scheduling.core.states import AttemptState, JobState, Phase, WorkOutcome
from scheduling.core.types import Reason
from scheduling.executors.contract import ErrorClass, Outcome, Status, Usage
from scheduling.models import Attempt, Job
from scheduling.services.settlement import BOOKING_FAULTS, Report, attempts_settle
from scheduling.services.stories import Told, events_write

VERDICTS = (WorkOutcome.ACCEPTED, WorkOutcome.REJECTED)
LONGEST_NOTE = 500
_MINUTE = Decimal(60)


class ReviewRefused(Exception):
    """The review cannot be taken, judged or given back as it stands; nothing was changed."""

    def __init__(self, code: str, sentence: str) -> None:
        """Keep the code, for programs, and the sentence, which says what to do instead."""
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a reviewer says of a job's work; a rejection says why."""

    verdict: WorkOutcome
    note: str = ""


@transaction.atomic
def review_claim(*, job_id: uuid.UUID, reviewer: str, now: datetime) -> Attempt:
    """Take a review, or take it for longer; returns its attempt.

    Raises `Job.DoesNotExist` and `ReviewRefused`.
    """
    job, attempt = _opened(job_id)
    _take(job, attempt, reviewer, now)
    return attempt


@transaction.atomic
def review_judge(*, job_id: uuid.UUID, reviewer: str, judgement: Judgement, now: datetime) -> Job:
    """End a job in review as judged; one that nobody has taken is taken by it. Returns the job.

    Raises `Job.DoesNotExist` and `ReviewRefused`.
    """
    if judgement.verdict is WorkOutcome.REJECTED and not judgement.note.strip():
        raise ReviewRefused("note_required", "Say in the note why the work is rejected.")
    job, attempt = _opened(job_id)
    _take(job, attempt, reviewer, now)
    outcome = Outcome(
        status=Status.COMPLETE,
        usage=Usage(other={"review_minutes": _minutes(attempt, now)}),
        verdict=judgement.verdict,
        message=judgement.note.strip()[:LONGEST_NOTE],
    )
    return _settled(job, attempt, outcome, now)


@transaction.atomic
def review_release(*, job_id: uuid.UUID, reviewer: str, now: datetime) -> Job:
    """Give back a review that one has taken; it goes back in the order. Returns the job.

    Raises `Job.DoesNotExist` and `ReviewRefused`.
    """
    job, attempt = _opened(job_id)
    if attempt.reviewer != reviewer:
        raise ReviewRefused("not_taken", "You have not taken this review, so you keep nothing.")
    outcome = Outcome(
        status=Status.CANCELED,
        usage=Usage(),
        error_class=ErrorClass.CANCELED,
        message="Its reviewer gave it back.",
    )
    return _settled(job, attempt, outcome, now)


def _opened(job_id: uuid.UUID) -> tuple[Job, Attempt]:
    """Lock a job that lies before the reviewers, and its attempt."""
    job = Job.objects.select_for_update().get(id=job_id)
    if job.phase != Phase.REVIEW or job.state not in (JobState.QUEUED, JobState.RUNNING):
        sentence = f"The job is not in review: it is {job.state}."
        raise ReviewRefused("not_in_review", sentence)
    if job.state == JobState.QUEUED:
        sentence = "No reviewer's slot is free for it yet; it is the next one's turn in the order."
        raise ReviewRefused("review_waits", sentence)
    attempt = Attempt.objects.select_for_update().get(job=job, fence=job.fence)
    if attempt.state == AttemptState.STOPPING:
        raise ReviewRefused("job_canceled", "The job is being canceled; there is nothing to judge.")
    return job, attempt


def _take(job: Job, attempt: Attempt, reviewer: str, now: datetime) -> None:
    if job.submitted_by == reviewer:
        sentence = "You have submitted this job yourself; somebody else has to judge it."
        raise ReviewRefused("own_work", sentence)
    if attempt.reviewer not in ("", reviewer):
        sentence = f"{attempt.reviewer} has taken this review."
        raise ReviewRefused("taken", sentence)
    if not attempt.reviewer:
        attempt.state, attempt.started_at, attempt.reviewer = AttemptState.RUNNING, now, reviewer
        events_write([_claimed(job, attempt)])
    attempt.lease_until = now + timedelta(seconds=settings.REVIEW_LEASE_S)
    attempt.save(update_fields=["state", "started_at", "reviewer", "lease_until"])


def _claimed(job: Job, attempt: Attempt) -> Told:
    return Told(
        job_id=job.id,
        tenant_id=job.tenant_id,
        attempt_id=attempt.id,
        event="review_claimed",
        reason=Reason.REVIEW,
        data={"by": attempt.reviewer, "fence": attempt.fence},
    )


def _minutes(attempt: Attempt, now: datetime) -> Decimal:
    since = attempt.started_at or now
    return Decimal(str(max(0.0, (now - since).total_seconds()))) / _MINUTE


def _settled(job: Job, attempt: Attempt, outcome: Outcome, now: datetime) -> Job:
    report = Report(attempt_id=attempt.id, fence=attempt.fence, outcome=outcome)
    try:
        attempts_settle(reports=[report], now=now)
    except BOOKING_FAULTS as fault:
        raise ReviewRefused("unpriced", f"{fault} Nothing was changed.") from fault
    job.refresh_from_db()
    return job
