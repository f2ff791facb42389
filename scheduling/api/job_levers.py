"""Levers on jobs: one job's, and many together.

Who may not pull the lever for one of the jobs pulls it for none. A job that cannot take it as it
stands refuses alone: as a 409 where one was asked for, in its row where many were.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.endpoint import Endpoint
from scheduling.api.levers import ReasonSerializer, asked, described
from scheduling.api.problems import Problem, invalid, unavailable
from scheduling.api.serializers import Shown
from scheduling.api.writes import write
from scheduling.controls.jobs import (
    JobChange,
    jobs_cancel,
    jobs_pause,
    jobs_prioritise,
    jobs_requeue,
    jobs_resume,
)
from scheduling.core.policy.settings import Policy
from scheduling.models import Job, PolicyVersion
from scheduling.selectors.jobs import job_get, jobs_get
from scheduling.selectors.policy import active_policy
from scheduling.services.drafts import FieldError
from scheduling.services.idempotency import Answer
from tenants.ids import uuid_or_none
from tenants.rbac import Permission, Principal, asking_levels, require

MOST_JOBS = 1000

Change: TypeAlias = Callable[..., list[JobChange]]


class RefusalSerializer(serializers.Serializer[Any]):
    """Why a job cannot take the lever as it stands."""

    code = serializers.CharField()
    sentence = serializers.CharField()


class JobChangeSerializer(Shown):
    """What a lever did to a job; `control` null: nothing, it was so already or was refused."""

    job = serializers.UUIDField(source="job_id")
    control = serializers.IntegerField(source="number", allow_null=True)
    before = serializers.DictField(source="step.before")
    after = serializers.DictField(source="step.after")
    lost = serializers.ListField(child=serializers.CharField(), source="step.lost")
    refused = RefusalSerializer(allow_null=True)


class PrioritiseSerializer(ReasonSerializer):
    """The class to move to."""

    def get_fields(self) -> dict[str, Any]:
        """Return the fields; no attribute can be named `class`."""
        return {**super().get_fields(), "class": serializers.CharField(max_length=30)}


class ManySerializer(ReasonSerializer):
    """Jobs to act on together."""

    action = serializers.ChoiceField(["prioritise", "pause", "resume", "cancel", "requeue"])
    ids = serializers.ListField(child=serializers.UUIDField(), max_length=MOST_JOBS)

    def get_fields(self) -> dict[str, Any]:
        """Return the fields with `class`, which is for prioritise alone."""
        named = serializers.CharField(max_length=30, required=False)
        return {**super().get_fields(), "class": named}


class ManyChangesSerializer(Shown):
    """What became of each job, in order of arrival; `control` is the last change's number."""

    action = serializers.CharField()
    changed = serializers.IntegerField()
    control = serializers.IntegerField(allow_null=True)
    results = JobChangeSerializer(many=True)


class JobLever(Endpoint):
    """The address of one job's lever."""

    action: ClassVar[str]

    def post(self, request: Request, job_id: uuid.UUID) -> Response:
        """Pull the lever for one job."""
        principal = self.principal
        job = job_get(principal, job_id)
        lever = LEVERS[self.action]
        lever.permit(principal, [job])
        body, reason = asked(request, lever.takes)
        change = lever.change(principal, [job], body)

        def act() -> Answer:
            (done,) = change(job_ids=[job_id], acting_user=principal.name, reason=reason)
            if done.refused is not None:
                state = {"state": Job.objects.values_list("state", flat=True).get(id=job_id)}
                raise Problem(409, done.refused.code, done.refused.sentence, extra=state)
            return Answer(status=200, body=dict(JobChangeSerializer(done).data))

        return write(request, job.workspace_id, act)


@described(
    "jobs_prioritise",
    "Move a waiting job to another class, for example expedite; it keeps its age",
    PrioritiseSerializer,
    JobChangeSerializer,
)
class PrioritiseJob(JobLever):
    """Moves a job to another class."""

    action = "prioritise"


@described("jobs_pause", "Keep a waiting job from starting", ReasonSerializer, JobChangeSerializer)
class PauseJob(JobLever):
    """Pauses a job."""

    action = "pause"


@described("jobs_resume", "Let a paused job start again", ReasonSerializer, JobChangeSerializer)
class ResumeJob(JobLever):
    """Resumes a job."""

    action = "resume"


@described(
    "jobs_requeue",
    "Put a failed, canceled or expired job back; it is admitted and waits anew",
    ReasonSerializer,
    JobChangeSerializer,
)
class RequeueJob(JobLever):
    """Puts a job back."""

    action = "requeue"


@described(
    "jobs_manage",
    "Prioritise, pause, resume, cancel or requeue up to 1,000 jobs: all, or none when any is not "
    "there or not permitted",
    ManySerializer,
    ManyChangesSerializer,
)
class ManageJobs(Endpoint):
    """Many jobs' levers."""

    def post(self, request: Request) -> Response:
        """Pull one lever for all of the jobs, in one transaction."""
        principal = self.principal
        body, reason = asked(request, {"action", "ids", "class"})
        lever = _lever(body)
        jobs = jobs_get(principal, ids_read(body))
        lever.permit(principal, jobs)
        change = lever.change(principal, jobs, body)

        def act() -> Answer:
            ids = [job.id for job in jobs]
            done = change(job_ids=ids, acting_user=principal.name, reason=reason)
            return Answer(status=200, body=_told(str(body["action"]), done))

        return write(request, jobs[0].workspace_id, act)


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobLever:
    """A lever on jobs: the permission that it needs on each, its fields, and what it does."""

    permission: Permission
    change: Callable[[Principal, Sequence[Job], Mapping[str, Any]], Change]
    takes: tuple[str, ...] = ()

    def permit(self, principal: Principal, jobs: Sequence[Job]) -> None:
        """Pass if the principal may pull it for all of the jobs; raise `Forbidden`."""
        for tenant, workspace in {(job.tenant_id, job.workspace_id) for job in jobs}:
            require(principal, self.permission, tenant=tenant, workspace=workspace)


def ids_read(body: Mapping[str, Any]) -> list[uuid.UUID]:
    """Return the job ids of a body; raise a 400 `Problem` when they are none."""
    given = body.get("ids")
    if isinstance(given, list) and 1 <= len(given) <= MOST_JOBS:
        found = [uuid_or_none(one) if isinstance(one, str) else None for one in given]
        if None not in found:
            return [one for one in found if one is not None]
    sentence = f"Must be a list of 1 to {MOST_JOBS} job ids."
    raise invalid(FieldError(field="ids", sentence=sentence))


def _prioritise(principal: Principal, jobs: Sequence[Job], body: Mapping[str, Any]) -> Change:
    name = body.get("class")
    if not isinstance(name, str):
        raise invalid(FieldError(field="class", sentence="Must be given: the class to move to."))
    try:
        _permit_class(principal, jobs, name, active_policy())
    except PolicyVersion.DoesNotExist:
        raise unavailable("No scheduling policy is published, so there are no classes") from None
    return partial(jobs_prioritise, job_class=name, above_quota=principal.is_operator)


def _permit_class(principal: Principal, jobs: Sequence[Job], name: str, policy: Policy) -> None:
    """Raise a 403 `Problem` for a class that the caller may not ask for in all the workspaces."""
    rule = policy.class_named(name)
    for tenant, workspace in {(job.tenant_id, job.workspace_id) for job in jobs}:
        levels = asking_levels(principal, tenant=tenant, workspace=workspace)
        if rule is not None and rule.asked_by not in levels:
            allowed = ", ".join(one.name for one in policy.classes if one.asked_by in levels)
            detail = f"You may not ask for class {name!r}; you may ask for: {allowed or 'none'}."
            raise Problem(
                403, "forbidden", detail, errors=[FieldError(field="class", sentence=detail)]
            )


def _plain(change: Change) -> Callable[[Principal, Sequence[Job], Mapping[str, Any]], Change]:
    return lambda _principal, _jobs, _body: change


def _timed(change: Change) -> Callable[[Principal, Sequence[Job], Mapping[str, Any]], Change]:
    return lambda _principal, _jobs, _body: partial(change, now=timezone.now())


LEVERS: Mapping[str, _JobLever] = {
    "prioritise": _JobLever(permission=Permission.SUBMIT, change=_prioritise, takes=("class",)),
    "pause": _JobLever(permission=Permission.CANCEL, change=_plain(jobs_pause)),
    "resume": _JobLever(permission=Permission.CANCEL, change=_plain(jobs_resume)),
    "cancel": _JobLever(permission=Permission.CANCEL, change=_timed(jobs_cancel)),
    "requeue": _JobLever(permission=Permission.SUBMIT, change=_timed(jobs_requeue)),
}


def _lever(body: Mapping[str, Any]) -> _JobLever:
    action = body.get("action")
    lever = LEVERS.get(action) if isinstance(action, str) else None
    if lever is None:
        raise invalid(FieldError(field="action", sentence=f"Must be one of {', '.join(LEVERS)}."))
    if "class" in body and not lever.takes:
        raise invalid(FieldError(field="class", sentence="Is for prioritise alone; leave it out."))
    return lever


def _told(action: str, done: Sequence[JobChange]) -> dict[str, Any]:
    numbers = [one.number for one in done if one.number is not None]
    told = {
        "action": action,
        "changed": len(numbers),
        "control": numbers[-1] if numbers else None,
        "results": done,
    }
    return dict(ManyChangesSerializer(told).data)
