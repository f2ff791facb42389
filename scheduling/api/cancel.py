"""/jobs/{id}/cancel and /jobs/cancel: stop one job, or several together."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
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
from scheduling.api.problems import Problem, invalid
from scheduling.api.serializers import JobSerializer
from scheduling.api.submissions import uuid_or_none
from scheduling.api.writes import body_of, write
from scheduling.core.states import JobState
from scheduling.models import Job
from scheduling.selectors.jobs import job_get, jobs_get
from scheduling.services.cancel import JobEnded, job_cancel
from scheduling.services.drafts import FieldError
from scheduling.services.idempotency import Answer
from tenants.rbac import Permission, Principal, require

MOST_JOBS = 1000
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
            ended = _cancel(job, principal, reason)
            if ended is not None and ended.state != JobState.CANCELED:
                detail = f"The job is {ended.state} already; nothing was changed."
                raise Problem(409, "job_ended", detail, extra={"state": ended.state})
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
        jobs = jobs_get(principal, _ids(body))
        for job in jobs:
            require(principal, Permission.CANCEL, tenant=job.tenant_id, workspace=job.workspace_id)

        @transaction.atomic
        def act() -> Answer:
            canceled: list[str] = []
            before: list[str] = []
            # All jobs first, in the order of arrival, as a settling set takes them: then neither
            # can hold budgets that the other waits for.
            list(
                Job.objects.filter(id__in=[job.id for job in jobs])
                .order_by("seq")
                .select_for_update()
            )
            for job in jobs:
                ended = _cancel(job, principal, reason)
                (canceled if ended is None else before).append(str(job.id))
            return Answer(status=200, body={"canceled": canceled, "ended_before": before})

        return write(request, jobs[0].workspace_id, act)


def _cancel(job: Job, principal: Principal, reason: str) -> Job | None:
    """Cancel a job; return it as it stands when it had ended before."""
    try:
        job_cancel(job_id=job.id, acting_user=principal.name, reason=reason, now=timezone.now())
    except JobEnded as ended:
        return ended.job
    return None


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


def _ids(body: Mapping[str, Any]) -> Sequence[uuid.UUID]:
    given = body.get("ids")
    if isinstance(given, list) and 1 <= len(given) <= MOST_JOBS:
        found = [uuid_or_none(one) if isinstance(one, str) else None for one in given]
        if None not in found:
            return [one for one in found if one is not None]
    sentence = f"Must be a list of 1 to {MOST_JOBS} job ids."
    raise invalid(FieldError(field="ids", sentence=sentence))
