"""Admission anew: deferred jobs that are due, and jobs whose reservation has run out.

A job keeps its arrival number and `submitted_at`, so waiting for admission costs it no place.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from django.db import transaction

from billing.services.reservations import renew, sweep_expired
from scheduling.core.states import JobEvent, JobState, job_sources
from scheduling.core.types import ClassRule, Reason
from scheduling.events import nudge_on_commit
from scheduling.models import Decision, Job
from scheduling.services.admission import Judged, decision_of, expiry, judge
from scheduling.services.catalogue import Catalogue, catalogue_load
from scheduling.services.drafts import Draft
from scheduling.services.stories import Told, events_write

SET_ROWS = 200


@transaction.atomic
def jobs_readmit(*, now: datetime, limit: int = SET_ROWS) -> int:
    """Decide anew on the deferred jobs that are due, oldest first; returns how many."""
    due = (
        Job.objects.filter(state=JobState.DEFERRED, wake_at__lte=now)
        .order_by("workspace", "seq")
        .select_related("workspace__tenant", "workflow__pool")
        .select_for_update(of=("self",), skip_locked=True)[:limit]
    )
    decided = 0
    for _, rows in groupby(due, key=lambda job: job.workspace_id):
        jobs = list(rows)
        catalogue = catalogue_load(jobs[0].workspace, now)
        _store(judge([_draft(job, catalogue) for job in jobs], catalogue, now), catalogue, now)
        decided += len(jobs)
    return decided


@transaction.atomic
def reservations_sweep(*, now: datetime) -> int:
    """Close reservations that have run out; their waiting jobs go back to admission.

    What runs is funded until it ends, so its reservations are renewed first.
    """
    running = Job.objects.filter(state=JobState.RUNNING).values_list("id", flat=True)
    renew(job_ids=list(running), expires_at=expiry(now))
    expired = sweep_expired(now=now)
    jobs = Job.objects.filter(id__in=expired, state__in=job_sources(JobEvent.DEFER))
    rows = list(jobs.select_for_update().order_by("seq"))
    for job in rows:
        job.state, job.reason = JobState.DEFERRED, Reason.BUDGET
        job.wake_at, job.changed = now, True
    Job.objects.bulk_update(rows, ["state", "reason", "wake_at", "changed"])
    events_write(
        Told(job_id=job.id, tenant_id=job.tenant_id, event="deferred", reason=Reason.BUDGET)
        for job in rows
    )
    return len(rows)


def _draft(job: Job, catalogue: Catalogue) -> Draft:
    policy = catalogue.policy
    rule = policy.class_named(job.job_class) or policy.class_named(policy.default_class)
    return Draft(
        job=job,
        workflow=job.workflow,
        rule=rule or ClassRule(name=job.job_class),
        cost=job.cost or job.workflow.cost,
        not_before=None,
    )


def _store(judged: Sequence[Judged], catalogue: Catalogue, now: datetime) -> None:
    jobs = [one.draft.job for one in judged]
    for job in jobs:
        job.changed = True
    Job.objects.bulk_update(jobs, ["state", "reason", "wake_at", "finished_at", "changed"])
    Decision.objects.bulk_create([decision_of(one, catalogue, now) for one in judged])
    events_write(
        Told(
            job_id=one.draft.job.id,
            tenant_id=one.draft.job.tenant_id,
            event=one.answer.verdict,
            reason=one.answer.reason,
            data={"sentence": one.answer.sentence},
        )
        for one in judged
    )
    nudge_on_commit()
