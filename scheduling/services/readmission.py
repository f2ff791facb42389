"""Admission anew: deferred jobs that are due, and jobs whose reservation has run out.

A job keeps its arrival number and `submitted_at`, so waiting for admission costs it no place.
"""

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from billing.services.reservations import release, renew, sweep_expired
from scheduling.core.states import JobEvent, JobState, Phase, WorkOutcome, job_sources
from scheduling.core.types import ClassRule, Reason
from scheduling.events import nudge_on_commit
from scheduling.models import Decision, Job
from scheduling.models.xact import CurrentXact
from scheduling.services.admission import Judged, decision_of, expiry, judge
from scheduling.services.catalogue import Catalogue, catalogue_load
from scheduling.services.dependencies import (
    dependants_lock,
    dependants_settle,
    open_dependencies,
)
from scheduling.services.drafts import Draft
from scheduling.services.fallback import fall_back, falling_back
from scheduling.services.settlement_rows import deferred_wake
from scheduling.services.stories import Told, events_write

SET_ROWS = 200


def jobs_readmit(*, now: datetime, limit: int = SET_ROWS) -> int:
    """Decide anew on the deferred jobs that are due, oldest first; returns how many.

    Each workspace has a transaction of its own: one call locks its budgets in one fixed order,
    two in one transaction could wait in a circle with another's.
    """
    due = Job.objects.filter(state=JobState.DEFERRED, wake_at__lte=now).order_by("seq")
    sets: dict[uuid.UUID, list[uuid.UUID]] = {}
    for workspace, job in due.values_list("workspace_id", "id")[:limit]:
        sets.setdefault(workspace, []).append(job)
    return sum(way(ids, now) for ids in sets.values() for way in (_fall_back, _readmit))


@transaction.atomic
def _fall_back(ids: Collection[uuid.UUID], now: datetime) -> int:
    """Decide on those of one workspace's jobs whose model fails and may have a stand-in."""
    jobs, catalogue = _due(ids, now)
    if catalogue is None:
        return 0
    looking = falling_back(jobs, catalogue)
    return fall_back([job for job in jobs if job.id in looking], catalogue, now)


def _due(ids: Collection[uuid.UUID], now: datetime) -> tuple[list[Job], Catalogue | None]:
    """Lock those of one workspace's jobs that are still due and that nobody works on."""
    jobs = list(
        Job.objects.filter(id__in=ids, state=JobState.DEFERRED, wake_at__lte=now)
        .order_by("seq")
        .select_related("workspace__tenant", "workflow__pool")
        .select_for_update(of=("self",), skip_locked=True)
    )
    return jobs, catalogue_load(jobs[0].workspace, now) if jobs else None


@transaction.atomic
def _readmit(ids: Collection[uuid.UUID], now: datetime) -> int:
    """Decide anew on those of one workspace's jobs that are still due and that nobody works on."""
    jobs, catalogue = _due(ids, now)
    if catalogue is None:
        return 0
    waits = open_dependencies(ids)
    drafts = [_draft(job, catalogue, waits[job.id]) for job in jobs]
    _store(judge(drafts, catalogue, now), catalogue, now)
    end = (JobState.DENIED, WorkOutcome.UNREVIEWED)
    denied = {job.id: end for job in jobs if job.state == JobState.DENIED}
    fallout = dependants_lock(denied)
    release(job_ids=fallout.lost, now=now)
    dependants_settle(fallout, now)
    return len(jobs)


@transaction.atomic
def reservations_sweep(*, now: datetime) -> int:
    """Close reservations that have run out; their queued jobs go back to admission.

    What runs, waits to be tried again or for its review is funded until it ends: its reservation is
    renewed. The
    queued jobs at stake are locked first, so that none of them is placed while its money goes.
    """
    queued = Job.objects.filter(
        state__in=job_sources(JobEvent.DEFER), phase=Phase.WORK, decisions__expires_at__lte=now
    )
    at_stake = {job.id: job for job in queued.order_by("seq").select_for_update(of=("self",))}
    going_on = Q(state__in=(JobState.RUNNING, JobState.WAITING))
    funded = Job.objects.filter(going_on | Q(phase=Phase.REVIEW, finished_at=None))
    renew(job_ids=list(funded.values_list("id", flat=True)), expires_at=expiry(now))
    expired = set(sweep_expired(now=now))
    rows = [job for job in at_stake.values() if job.id in expired]
    for job in rows:
        job.state, job.reason = JobState.DEFERRED, Reason.BUDGET
        job.wake_at, job.changed = now, CurrentXact()
    Job.objects.bulk_update(rows, ["state", "reason", "wake_at", "changed"])
    events_write(
        Told(job_id=job.id, tenant_id=job.tenant_id, event="deferred", reason=Reason.BUDGET)
        for job in rows
    )
    deferred_wake({job.tenant_id for job in rows}, now)
    return len(rows)


def _draft(job: Job, catalogue: Catalogue, waits: int) -> Draft:
    policy = catalogue.policy
    rule = policy.class_named(job.job_class) or policy.class_named(policy.default_class)
    return Draft(
        job=job,
        workflow=job.workflow,
        rule=rule or ClassRule(name=job.job_class),
        cost=job.cost or job.workflow.cost,
        not_before=None,
        open_dependencies=waits,
    )


def _store(judged: Sequence[Judged], catalogue: Catalogue, now: datetime) -> None:
    jobs = [one.draft.job for one in judged]
    for job in jobs:
        job.changed = CurrentXact()
    Job.objects.bulk_update(
        jobs, ["state", "reason", "places", "wake_at", "finished_at", "changed"]
    )
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
