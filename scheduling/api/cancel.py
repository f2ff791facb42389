"""/jobs/{id}/cancel and /jobs/cancel: stop one job, or several together."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import (
    IDEMPOTENCY,
    CancelManySerializer,
    CancelSerializer,
    errors,
)
from scheduling.api.endpoint import Endpoint
from scheduling.api.job_levers import ids_read
from scheduling.api.problems import Problem, invalid
from scheduling.api.serializers import JobSerializer
from scheduling.api.writes import body_of, write
from scheduling.controls.jobs import JobChange, jobs_cancel
from scheduling.core.states import JobState
from scheduling.models import Job
from scheduling.selectors.jobs import job_get, jobs_get
from scheduling.services.drafts import FieldError
from scheduling.services.idempotency import Answer
from tenants.rbac import Permission, Principal, require

LONGEST_REASON = 500
DEFAULT_REASON = "Canceled over the API."


class CancelJob(Endpoint):
    """Cancels one job."""

    @extend_schema(
        operation_id="jobs_cancel",
        summary="Cancel a job",
        parameters=[IDEMPOTENCY],
        request=CancelSerializer,
        responses={200: JobSerializer, **errors(400, 401, 403, 404, 409, 415, 503)},
    )
    def post(self, request: Request, job_id: uuid.UUID) -> Response:
        """Cancel a job; a running one is asked to stop. Canceling it again changes nothing."""
        principal = self.principal
        job = job_get(principal, job_id)
        require(principal, Permission.CANCEL, tenant=job.tenant_id, workspace=job.workspace_id)
        reason = _reason(body_of(request), {"reason"})

        def act() -> Answer:
            (done,) = _cancel([job], principal, reason)
            if done.refused is not None:
                state = {"state": job_get(principal, job_id).state}
                raise Problem(409, done.refused.code, done.refused.sentence, extra=state)
            return Answer(status=200, body=dict(JobSerializer(job_get(principal, job_id)).data))

        return write(request, job.workspace_id, act)


class CancelJobs(Endpoint):
    """Cancels several jobs together."""

    @extend_schema(
        operation_id="jobs_cancel_many",
        summary="Cancel several jobs: all, or none when any is not there or not permitted",
        parameters=[IDEMPOTENCY],
        request=CancelManySerializer,
        responses={
            200: inline_serializer(
                "Canceled",
                {
                    "canceled": serializers.ListField(child=serializers.UUIDField()),
                    "ended_before": serializers.ListField(child=serializers.UUIDField()),
                },
            ),
            **errors(400, 401, 403, 404, 409, 415, 503),
        },
    )
    def post(self, request: Request) -> Response:
        """Cancel all of the jobs in one transaction; those that ended before are only named."""
        principal = self.principal
        body = body_of(request)
        reason = _reason(body, {"reason", "ids"})
        jobs = jobs_get(principal, ids_read(body))
        for job in jobs:
            require(principal, Permission.CANCEL, tenant=job.tenant_id, workspace=job.workspace_id)

        def act() -> Answer:
            done = _cancel(jobs, principal, reason)
            before = [str(one.job_id) for one in done if _had_ended(one)]
            canceled = [str(one.job_id) for one in done if not _had_ended(one)]
            return Answer(status=200, body={"canceled": canceled, "ended_before": before})

        return write(request, jobs[0].workspace_id, act)


def _cancel(jobs: Sequence[Job], principal: Principal, reason: str) -> list[JobChange]:
    ids = [job.id for job in jobs]
    return jobs_cancel(job_ids=ids, acting_user=principal.name, reason=reason, now=timezone.now())


def _had_ended(change: JobChange) -> bool:
    return change.refused is not None or change.step.before["state"] == JobState.CANCELED


def _reason(body: Mapping[str, Any], known: set[str]) -> str:
    unknown = sorted(set(body) - known)
    if unknown:
        sentence = f"Is no field here; known are {', '.join(sorted(known))}."
        raise invalid(*(FieldError(field=name, sentence=sentence) for name in unknown))
    reason = body.get("reason")
    if reason is None:
        return DEFAULT_REASON
    if not isinstance(reason, str) or not 1 <= len(reason.strip()) <= LONGEST_REASON:
        sentence = f"Must be a text of 1 to {LONGEST_REASON} characters, or left out."
        raise invalid(FieldError(field="reason", sentence=sentence))
    return reason
