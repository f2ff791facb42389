"""Submitting from the API: who may ask for which class, and one answer a job."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone
from rest_framework.request import Request

from scheduling.api.problems import Problem, unavailable
from scheduling.api.serializers import DecisionSerializer, JobSerializer
from scheduling.api.writes import problem_answer
from scheduling.core.states import JobState
from scheduling.core.types import Reason
from scheduling.models import Decision, Job, PolicyVersion
from scheduling.services.drafts import Refused, Submission
from scheduling.services.idempotency import Answer
from scheduling.services.rights import rights_of
from scheduling.services.submission import Accepted, jobs_submit
from tenants.models import Workspace
from tenants.rbac import Principal

SHORTEST_RETRY_S = 1
FULL = (Reason.BACKLOG_FULL, Reason.SHED)


def submit(
    principal: Principal, workspace: Workspace, submissions: Sequence[Submission]
) -> list[Accepted | Refused]:
    """Submit jobs as a principal; raise a 503 `Problem` while no policy is published."""
    try:
        return jobs_submit(
            workspace=workspace,
            submitted_by=principal.name,
            submissions=submissions,
            rights=rights_of(principal, workspace),
            now=timezone.now(),
        )
    except PolicyVersion.DoesNotExist:
        raise unavailable(
            "No scheduling policy is published, so nothing can be submitted"
        ) from None


def answer_of(accepted: Accepted, request: Request) -> Answer:
    """Return the answer to one stored job: 201, or the problem of a denied one."""
    job, decision = accepted.job, accepted.decision
    if job.state == JobState.DENIED:
        return _denied(job, decision, request)
    body = {**JobSerializer(job).data, "decision": dict(DecisionSerializer(decision).data)}
    return Answer(status=201, body=body, headers={"Location": f"{request.path}/{job.id}"})


def retry_after_s(decision: Decision, now: datetime) -> int:
    """Return the whole seconds after which a full backlog should be tried again."""
    wait_s = (decision.retry_at - now).total_seconds() if decision.retry_at else 0.0
    return max(SHORTEST_RETRY_S, math.ceil(wait_s))


def _denied(job: Job, decision: Decision, request: Request) -> Answer:
    full = decision.reason in FULL
    headers = {"Retry-After": str(retry_after_s(decision, timezone.now()))} if full else {}
    told: dict[str, Any] = {
        "job": str(job.id),
        "decision": dict(DecisionSerializer(decision).data),
        "alternatives": decision.alternatives,
    }
    problem = Problem(
        429 if full else 422, decision.reason, decision.sentence, headers=headers, extra=told
    )
    return problem_answer(problem, request, keep=not full)
