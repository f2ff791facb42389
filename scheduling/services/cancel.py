"""Canceling jobs: at once where nothing runs, at the next boundary where something does."""

import uuid
from datetime import datetime

from django.db import transaction

from billing.services.reservations import release
from scheduling.core.states import ENDED_JOBS, AttemptState, JobEvent, JobState, job_move
from scheduling.core.types import Reason
from scheduling.events import nudge_on_commit
from scheduling.models import Attempt, Job
from scheduling.services.dependencies import dependants_lock, dependants_settle
from scheduling.services.settlement_rows import deferred_wake
from scheduling.services.stories import Told, events_write


class JobEnded(Exception):
    """The job has ended already; nothing was changed."""

    def __init__(self, job: Job) -> None:
        """Keep the job."""
        super().__init__(f"The job is {job.state} already; nothing was changed.")
        self.job = job


@transaction.atomic
def job_cancel(*, job_id: uuid.UUID, acting_user: str, reason: str, now: datetime) -> Job:
    """Cancel a job; a running one is asked to stop and ends when its worker says so.

    What it held of its budgets is given back, and its tenant's jobs that wait for budget are
    admitted anew; what waits for it to be done ends with it.

    A second cancel of a running job changes nothing. Raises `Job.DoesNotExist` and `JobEnded`.
    """
    job = Job.objects.select_for_update().get(id=job_id)
    if job.state in ENDED_JOBS:
        raise JobEnded(job)
    if job.state == JobState.RUNNING and not _unclaimed_stop(job, now):
        if not job.cancel_requested:
            _ask_to_stop(job)
            _tell(job, "cancel_requested", acting_user, reason)
        return job
    job.state = job_move(JobState(job.state), JobEvent.CANCEL)
    job.reason, job.finished_at, job.wake_at, job.changed = Reason.CANCELED, now, None, True
    job.cancel_requested = True
    job.save(
        update_fields=["state", "reason", "finished_at", "wake_at", "changed", "cancel_requested"]
    )
    fallout = dependants_lock({job.id: False})
    release(job_ids=[job.id], now=now)
    deferred_wake([job.tenant_id], now)
    _tell(job, "canceled", acting_user, reason)
    dependants_settle(fallout, now)
    nudge_on_commit()
    return job


def _unclaimed_stop(job: Job, now: datetime) -> bool:
    """Take back an attempt that no worker has claimed; its message will find nothing to do."""
    taken = Attempt.objects.filter(job=job, state=AttemptState.DISPATCHED).update(
        state=AttemptState.CANCELED, ended_at=now, charge_due=0, message="Canceled before it began."
    )
    return bool(taken)


def _ask_to_stop(job: Job) -> None:
    job.cancel_requested = True
    job.save(update_fields=["cancel_requested"])
    Attempt.objects.filter(job=job, state=AttemptState.RUNNING).update(state=AttemptState.STOPPING)


def _tell(job: Job, event: str, acting_user: str, reason: str) -> None:
    told = Told(
        job_id=job.id,
        tenant_id=job.tenant_id,
        event=event,
        reason=Reason.CANCELED,
        data={"by": acting_user, "why": reason},
    )
    events_write([told])
