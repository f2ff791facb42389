"""Canceling jobs: at once where nothing runs, at the next boundary where something does.

What a job has submitted itself is canceled with it, and after it where it ends in another way. Who
ends a job has its row and then locks who waits for it, so the jobs are locked before the ones that
submitted them, the deepest first. Who submits has the row of the parent, so what is below a job is
known for certain once all of these rows are locked; if more has come meanwhile, they are let go and
locked anew, in the right order.
"""

import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from django.db import connection, transaction
from django.db.models import F, QuerySet

from billing.services.reservations import release
from billing.services.sets import array
from scheduling.core.states import ENDED_JOBS, AttemptState, JobEvent, JobState, Phase, job_move
from scheduling.core.types import Reason
from scheduling.events import nudge_on_commit
from scheduling.models import Attempt, Job
from scheduling.models.job import LIVE
from scheduling.models.xact import CurrentXact
from scheduling.services.dependencies import CANCELED, dependants_lock, dependants_settle
from scheduling.services.settlement_rows import deferred_wake
from scheduling.services.stories import Told, events_write

T = TypeVar("T")

SCHEDULER = "scheduler"
"""Who cancels in a job's story where no person asked for it."""
ORPHANS_AT_ONCE = 200
LEFT_BEHIND = "the job that submitted it has ended"
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


class _Grown(Exception):
    """More was submitted while the rows were being locked."""


@transaction.atomic
def job_cancel(*, job_id: uuid.UUID, acting_user: str, reason: str, now: datetime) -> Job:
    """Cancel a job; a running one is asked to stop and ends when its worker says so.

    A second cancel of a running job changes nothing. Raises `Job.DoesNotExist` and `JobEnded`.
    """
    below, job = below_lock([job_id], lambda: Job.objects.select_for_update().get(id=job_id))
    if job.state in ENDED_JOBS:
        raise JobEnded(job)
    jobs_stop(jobs=[*below, job], acting_user=acting_user, reason=reason, now=now)
    return job


@transaction.atomic
def below_stop(*, job_ids: Collection[uuid.UUID], now: datetime) -> None:
    """Cancel what jobs that have ended leave behind: nobody waits for its answers any more."""
    below, _ = below_lock(job_ids, lambda: None)
    jobs_stop(jobs=below, acting_user=SCHEDULER, reason=LEFT_BEHIND, now=now)


@transaction.atomic
def orphans_stop(*, now: datetime) -> None:
    """Cancel what was left behind all the same: its process died just after it had ended the job.

    A job that was requeued after that is newer than its parent's end, and meant to run.
    """
    left = Job.objects.filter(
        state__in=LIVE,
        cancel_requested=False,
        parent__state__in=ENDED_JOBS,
        submitted_at__lt=F("parent__finished_at"),
    )
    ids = list(left.order_by("seq").values_list("id", flat=True)[:ORPHANS_AT_ONCE])
    if ids:
        rows = Job.objects.filter(id__in=ids, state__in=LIVE).order_by("seq")
        below, own = below_lock(ids, lambda: list(rows.select_for_update()))
        jobs_stop(jobs=[*below, *own], acting_user=SCHEDULER, reason=LEFT_BEHIND, now=now)


def below_lock(job_ids: Collection[uuid.UUID], own: Callable[[], T]) -> tuple[list[Job], T]:
    """Lock what these jobs, and theirs in turn, have submitted and has not ended, then the jobs.

    `own` locks the jobs themselves and what comes after them in the order of locks; its answer is
    the second one returned. It is called again, with nothing locked, when more was submitted before
    it had the rows. The jobs of `job_ids` are not among those below. Needs a transaction.
    """
    while True:
        with suppress(_Grown), transaction.atomic():
            rows = _open_below(job_ids).order_by("-depth", "seq").select_for_update(of=("self",))
            below = [job for job in rows if job.state not in ENDED_JOBS]
            found = own()
            if set(_open_below(job_ids).values_list("id", flat=True)) - {job.id for job in below}:
                raise _Grown
            return below, found


def _open_below(job_ids: Collection[uuid.UUID]) -> QuerySet[Job]:
    with connection.cursor() as cursor:
        cursor.execute(_BELOW, [array(job_ids)])
        ids = {row[0] for row in cursor.fetchall()}
    return Job.objects.filter(id__in=ids - set(job_ids)).exclude(state__in=ENDED_JOBS)


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
