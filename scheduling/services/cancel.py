"""Canceling jobs: at once where nothing runs, at the next boundary where something does.

What a job has submitted itself is canceled with it. Who ends a job has its row and then locks who
waits for it, so the jobs are locked before the ones that submitted them, the deepest first.
"""

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime

from django.db import connection, transaction

from billing.services.reservations import release
from billing.services.sets import array
from scheduling.core.states import ENDED_JOBS, AttemptState, JobEvent, JobState, Phase, job_move
from scheduling.core.types import Reason
from scheduling.events import nudge_on_commit
from scheduling.models import Attempt, Job
from scheduling.models.xact import CurrentXact
from scheduling.services.dependencies import CANCELED, dependants_lock, dependants_settle
from scheduling.services.settlement_rows import deferred_wake
from scheduling.services.stories import Told, events_write

_BELOW = """
WITH RECURSIVE below AS (
    SELECT id FROM scheduling_job WHERE parent_id = ANY(%s::uuid[])
    UNION SELECT j.id FROM below JOIN scheduling_job j ON j.parent_id = below.id
)
SELECT id FROM below
"""


class JobEnded(Exception):
    """The job has ended already; nothing was changed."""

    def __init__(self, job: Job) -> None:
        """Keep the job."""
        super().__init__(f"The job is {job.state} already; nothing was changed.")
        self.job = job


@transaction.atomic
def job_cancel(*, job_id: uuid.UUID, acting_user: str, reason: str, now: datetime) -> Job:
    """Cancel a job; a running one is asked to stop and ends when its worker says so.

    A second cancel of a running job changes nothing. Raises `Job.DoesNotExist` and `JobEnded`.
    """
    below = below_lock([job_id])
    job = Job.objects.select_for_update().get(id=job_id)
    if job.state in ENDED_JOBS:
        raise JobEnded(job)
    jobs_stop(jobs=[*below, job], acting_user=acting_user, reason=reason, now=now)
    return job


def below_lock(job_ids: Collection[uuid.UUID]) -> list[Job]:
    """Lock what these jobs, and theirs in turn, have submitted and has not ended.

    Call it before the jobs themselves are locked. Those among `job_ids` are not returned.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BELOW, [array(job_ids)])
        ids = [row[0] for row in cursor.fetchall()]
    if not ids:
        return []
    rows = Job.objects.filter(id__in=set(ids) - set(job_ids)).exclude(state__in=ENDED_JOBS)
    locked = rows.order_by("-depth", "seq").select_for_update(of=("self",))
    return [job for job in locked if job.state not in ENDED_JOBS]


def jobs_stop(*, jobs: Sequence[Job], acting_user: str, reason: str, now: datetime) -> None:
    """Cancel jobs that have not ended and whose rows the caller's transaction has locked.

    What they held of their budgets is given back at once for all of them, and their tenants' jobs
    that wait for budget are admitted anew; what waits for them to be done ends with them.
    """
    ending: list[Job] = []
    for job in jobs:
        if job.state != JobState.RUNNING or _unclaimed_stop(job, now):
            _end(job, now)
            _tell(job, "canceled", acting_user, reason)
            ending.append(job)
        elif not job.cancel_requested:
            _ask_to_stop(job, now)
            _tell(job, "cancel_requested", acting_user, reason)
    if not ending:
        return
    fallout = dependants_lock({job.id: CANCELED for job in ending})
    release(job_ids=[*(job.id for job in ending), *fallout.lost], now=now)
    deferred_wake({job.tenant_id for job in ending}, now)
    dependants_settle(fallout, now)
    nudge_on_commit()


def _end(job: Job, now: datetime) -> None:
    job.state = job_move(JobState(job.state), JobEvent.CANCEL)
    job.reason, job.finished_at, job.wake_at = Reason.CANCELED, now, None
    job.changed, job.cancel_requested = CurrentXact(), True
    job.save(
        update_fields=["state", "reason", "finished_at", "wake_at", "changed", "cancel_requested"]
    )


def _unclaimed_stop(job: Job, now: datetime) -> bool:
    """Take back an attempt that no worker has claimed; its message will find nothing to do."""
    taken = Attempt.objects.filter(job=job, state=AttemptState.DISPATCHED).update(
        state=AttemptState.CANCELED, ended_at=now, charge_due=0, message="Canceled before it began."
    )
    return bool(taken)


def _ask_to_stop(job: Job, now: datetime) -> None:
    """Have the worker told; a reviewer is not asked, so his hold on the job ends now.

    It is a change for the governor, too: it counts on what is stopping to come free.
    """
    job.cancel_requested, job.changed = True, CurrentXact()
    job.save(update_fields=["cancel_requested", "changed"])
    lease = {"lease_until": now} if job.phase == Phase.REVIEW else {}
    live = Attempt.objects.filter(job=job, state__in=(AttemptState.RUNNING, AttemptState.STOPPING))
    live.update(state=AttemptState.STOPPING, stop_for="cancel", **lease)


def _tell(job: Job, event: str, acting_user: str, reason: str) -> None:
    told = Told(
        job_id=job.id,
        tenant_id=job.tenant_id,
        event=event,
        reason=Reason.CANCELED,
        data={"by": acting_user, "why": reason},
    )
    events_write([told])
