"""Levers on jobs: prioritise, pause, resume, cancel, requeue; each on one job or many together.

Order of locks, the same as everywhere: workspaces (where a quota is counted), jobs by arrival,
budgets, and the control clock last. So all jobs are changed before the first change is numbered.
A job that cannot take the lever as it stands (it runs, it has ended) is left alone and says why;
the others are changed all the same. Whether somebody may pull the lever is asked before.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count

from scheduling.controls.requeue import REQUEUE_COLUMNS, requeue
from scheduling.controls.steps import JobRefused, Step, must_wait
from scheduling.core.states import ENDED_JOBS, JobState
from scheduling.core.types import ClassRule, Reason
from scheduling.events import nudge_on_commit
from scheduling.models import Job
from scheduling.models.job import LIVE
from scheduling.models.xact import CurrentXact
from scheduling.selectors.policy import active_policy
from scheduling.services.cancel import below_lock, jobs_stop
from scheduling.services.stories import Told, events_write
from tenants.controls import ControlRefused, record_change
from tenants.models import Workspace

EVENTS = {
    "job_prioritise": "prioritised",
    "job_pause": "paused",
    "job_resume": "resumed",
    "job_requeue": "requeued",
}
"""Per lever, the event that the job's story tells of it; canceling tells its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """What a lever did to one job; `number` None: nothing, it was so already or was refused."""

    job_id: uuid.UUID
    step: Step
    number: int | None = None
    refused: JobRefused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pull:
    """One use of a lever: which, by whom, why."""

    action: str
    acting_user: str
    reason: str


@transaction.atomic
def jobs_prioritise(
    *,
    job_ids: Collection[uuid.UUID],
    job_class: str,
    acting_user: str,
    reason: str,
    above_quota: bool = False,
) -> list[JobChange]:
    """Move waiting jobs to another class; they keep `submitted_at`, and so their age.

    A class with a quota takes no more of a workspace's jobs than that, unless `above_quota`. Raises
    `ControlRefused` for an unknown class and `Job.DoesNotExist`.
    """
    rule = _rule(job_class)
    room = None if above_quota or rule.quota is None else _room(job_ids, rule)

    def move(job: Job) -> Step:
        must_wait(job)
        before = job.job_class
        if before != rule.name and room is not None:
            _take(room, job, rule)
        job.job_class = rule.name
        return Step(before={"class": before}, after={"class": rule.name})

    pull = _Pull(action="job_prioritise", acting_user=acting_user, reason=reason)
    return _change(_locked(job_ids), move, ["job_class"], pull)


@transaction.atomic
def jobs_pause(*, job_ids: Collection[uuid.UUID], acting_user: str, reason: str) -> list[JobChange]:
    """Take waiting jobs out of their lines until they are resumed. Raises `Job.DoesNotExist`."""
    pull = _Pull(action="job_pause", acting_user=acting_user, reason=reason)
    return _change(_locked(job_ids), _marking(paused=True), ["paused"], pull)


@transaction.atomic
def jobs_resume(
    *, job_ids: Collection[uuid.UUID], acting_user: str, reason: str
) -> list[JobChange]:
    """Let paused jobs stand in their lines again, by their age. Raises `Job.DoesNotExist`."""
    pull = _Pull(action="job_resume", acting_user=acting_user, reason=reason)
    return _change(_locked(job_ids), _marking(paused=False), ["paused"], pull)


@transaction.atomic
def jobs_requeue(
    *, job_ids: Collection[uuid.UUID], acting_user: str, reason: str, now: datetime
) -> list[JobChange]:
    """Send failed, canceled and expired jobs back to admission, where they wait anew from `now`.

    Each step names what the job loses by it. Raises `Job.DoesNotExist`.
    """
    pull = _Pull(action="job_requeue", acting_user=acting_user, reason=reason)
    return _change(_locked(job_ids), lambda job: requeue(job, now), REQUEUE_COLUMNS, pull)


@transaction.atomic
def jobs_cancel(
    *, job_ids: Collection[uuid.UUID], acting_user: str, reason: str, now: datetime
) -> list[JobChange]:
    """Cancel jobs as `job_cancel` does: at once what waits, at its next boundary what runs.

    Raises `Job.DoesNotExist`.
    """
    below, jobs = below_lock(job_ids, lambda: _locked(job_ids))
    before = {job.id: _end(job) for job in jobs}
    ended = {job.id for job in jobs if job.state in ENDED_JOBS - {JobState.CANCELED}}
    going = [job for job in jobs if job.state not in ENDED_JOBS]
    jobs_stop(jobs=[*below, *going], acting_user=acting_user, reason=reason, now=now)

    def told(job: Job) -> Step:
        if job.id in ended:
            raise JobRefused("job_ended", f"The job is {job.state} already; nothing was changed.")
        return Step(before=before[job.id], after=_end(job))

    pull = _Pull(action="job_cancel", acting_user=acting_user, reason=reason)
    return _numbered(jobs, [_step(job, told) for job in jobs], pull)


def _locked(job_ids: Collection[uuid.UUID]) -> list[Job]:
    jobs = Job.objects.filter(id__in=job_ids).order_by("seq").select_related("tenant")
    found = list(jobs.select_for_update(of=("self",)))
    if len(found) != len(set(job_ids)):
        message = "at least one of the jobs does not exist"
        raise Job.DoesNotExist(message)
    return found


def _change(
    jobs: Sequence[Job], rule: Callable[[Job], Step], columns: Sequence[str], pull: _Pull
) -> list[JobChange]:
    """Apply a rule to locked jobs, then store, audit and tell of those that it changed."""
    changes = _numbered(jobs, [_step(job, rule) for job in jobs], pull)
    moved = [(job, one) for job, one in zip(jobs, changes, strict=True) if one.number is not None]
    for job, _ in moved:
        job.changed = CurrentXact()
    Job.objects.bulk_update([job for job, _ in moved], [*columns, "changed"])
    events_write(_told(job, one, pull) for job, one in moved)
    nudge_on_commit()
    return changes


def _step(job: Job, rule: Callable[[Job], Step]) -> JobChange:
    try:
        return JobChange(job_id=job.id, step=rule(job))
    except JobRefused as refused:
        return JobChange(job_id=job.id, step=Step(before={}, after={}), refused=refused)


def _numbered(jobs: Sequence[Job], changes: Sequence[JobChange], pull: _Pull) -> list[JobChange]:
    """Audit each change that changes something, in the order given, and number it."""
    return [
        one if one.step.before == one.step.after else replace(one, number=_record(job, one, pull))
        for job, one in zip(jobs, changes, strict=True)
    ]


def _record(job: Job, change: JobChange, pull: _Pull) -> int:
    return record_change(
        actor=pull.acting_user,
        action=pull.action,
        tenant=job.tenant,
        target=("job", job.id),
        change=(change.step.before, change.step.after),
        reason=pull.reason,
    )


def _told(job: Job, change: JobChange, pull: _Pull) -> Told:
    return Told(
        job_id=job.id,
        tenant_id=job.tenant_id,
        event=EVENTS[pull.action],
        reason=Reason.JOB_PAUSED if job.paused else "",
        data={
            "by": pull.acting_user,
            "why": pull.reason,
            "control": change.number,
            "before": dict(change.step.before),
            "after": dict(change.step.after),
        },
    )


def _marking(*, paused: bool) -> Callable[[Job], Step]:
    def mark(job: Job) -> Step:
        must_wait(job)
        before, job.paused = job.paused, paused
        return Step(before={"paused": before}, after={"paused": paused})

    return mark


def _end(job: Job) -> dict[str, Any]:
    return {"state": str(job.state), "cancel_requested": job.cancel_requested}


def _rule(name: str) -> ClassRule:
    policy = active_policy()
    rule = policy.class_named(name)
    if rule is None:
        known = ", ".join(entry.name for entry in policy.classes)
        sentence = f"There is no class {name!r}; the policy has: {known}."
        raise ControlRefused("class", sentence)
    return rule


def _room(job_ids: Collection[uuid.UUID], rule: ClassRule) -> Counter[uuid.UUID]:
    """Return how many more jobs of a class with a quota each workspace may have.

    The workspaces are locked, so that two moves at once cannot both take the last one.
    """
    mine = Workspace.objects.filter(jobs__in=job_ids).values("id")
    locked = Workspace.objects.filter(id__in=mine).order_by("id").select_for_update(no_key=True)
    ids = [workspace.id for workspace in locked]
    used = dict(
        Job.objects.filter(workspace__in=ids, job_class=rule.name, state__in=LIVE)
        .values_list("workspace")
        .annotate(Count("id"))
    )
    return Counter({one: (rule.quota or 0) - used.get(one, 0) for one in ids})


def _take(room: Counter[uuid.UUID], job: Job, rule: ClassRule) -> None:
    if room[job.workspace_id] <= 0:
        sentence = (
            f"Its workspace has {rule.quota} jobs of class {rule.name} already, which is the most "
            "it may; wait until one ends, or ask an operator."
        )
        raise JobRefused("class_quota_full", sentence)
    room[job.workspace_id] -= 1
