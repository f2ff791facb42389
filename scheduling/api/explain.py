"""/jobs/{id}/explain: why a job stands where it stands, check by check, and what would help."""

import uuid
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import errors
from scheduling.api.endpoint import Endpoint
from scheduling.api.problems import unavailable
from scheduling.api.serializers import DecisionSerializer, Shown
from scheduling.core.policy.explain import Check, Status
from scheduling.core.states import JobState
from scheduling.events import valkey_client
from scheduling.governor.glance import JobMoved, Viewer, scene_of
from scheduling.models import Job, PolicyVersion
from scheduling.selectors.explanation.explain import explain
from scheduling.selectors.explanation.scene import Scene
from scheduling.selectors.jobs import job_get
from scheduling.services.rehearsal import job_rehearse_again
from tenants.rbac import Permission, Principal, reach

READ_TRIES = 3
"""So often a job is read anew that moves meanwhile."""


class CheckSerializer(Shown):
    """One check; `reason` is set on the one that speaks. Of others, facts tell counts and times."""

    check = serializers.ChoiceField([check.value for check in Check])
    status = serializers.ChoiceField([status.value for status in Status])
    reason = serializers.CharField(allow_null=True)
    sentence = serializers.CharField()
    facts = serializers.DictField()


class CostToOthersSerializer(Shown):
    """Jobs of other tenants that would start later, and by how much; `own`: its own tenant's."""

    jobs = serializers.IntegerField()
    tenants = serializers.IntegerField()
    mean_s = serializers.FloatField()
    most_s = serializers.FloatField()
    total_s = serializers.FloatField()
    named = serializers.ListField(child=serializers.CharField(), required=False)
    own = serializers.DictField()


class LeverSerializer(Shown):
    """A lever that would bring the job forward, who may pull it, and what would come of it."""

    lever = serializers.CharField()
    sets = serializers.DictField()
    by = serializers.CharField()
    sentence = serializers.CharField()
    place = serializers.IntegerField(allow_null=True)
    start = serializers.DateTimeField(allow_null=True)
    sooner_s = serializers.FloatField(allow_null=True)
    others = CostToOthersSerializer(allow_null=True)
    approximate = serializers.BooleanField()


class ExplanationSerializer(Shown):
    """Why a job stands where it stands, now. `order_at`: when the order that was used was made."""

    job = serializers.UUIDField()
    state = serializers.CharField(help_text=f"One of {', '.join(JobState)}.")
    reason = serializers.CharField()
    sentence = serializers.CharField()
    at = serializers.DateTimeField()
    policy = serializers.IntegerField()
    order_at = serializers.DateTimeField(allow_null=True)
    decision = DecisionSerializer(allow_null=True)
    checks = CheckSerializer(many=True)
    forward = LeverSerializer(many=True)


class ExplainJob(Endpoint):
    """Why a job stands where it stands."""

    @extend_schema(
        operation_id="jobs_explain",
        summary="Why a job waits, runs or ended: every check with its facts, and what would help",
        responses={200: ExplanationSerializer, **errors(401, 404, 503)},
    )
    def get(self, request: Request, job_id: uuid.UUID) -> Response:
        """Explain a job by the rules that decide on it, asked at this moment.

        Checks stand in the order in which they are made; behind the first that speaks against the
        job none is reached. Of other tenants' work counts and times are told, no ids or names.
        """
        for _ in range(READ_TRIES):
            try:
                scene = _scene(self.principal, job_get(self.principal, job_id))
            except JobMoved:
                continue
            return Response(ExplanationSerializer(_told(scene)).data)
        raise unavailable("The job moves faster than it can be explained")


def _scene(principal: Principal, job: Job) -> Scene:
    costs = reach(principal, Permission.COSTS)
    viewer = Viewer(
        within=reach(principal, Permission.VIEW),
        amounts=costs.covers(job.tenant_id, job.workspace_id),
    )
    at = timezone.now()
    try:
        rehearsed = job_rehearse_again(job, at)
        return scene_of(job, rehearsed, viewer, client=valkey_client(), at=at)
    except PolicyVersion.DoesNotExist:
        raise unavailable(
            "No scheduling policy is published, so nothing can be explained"
        ) from None


def _told(scene: Scene) -> dict[str, Any]:
    found = explain(scene)
    return {
        "job": scene.job.id,
        "state": scene.job.state,
        "reason": found.reason,
        "sentence": found.sentence,
        "at": scene.at,
        "policy": scene.state.policy.number,
        "order_at": scene.order_at,
        "decision": scene.decision,
        "checks": found.checks,
        "forward": found.forward,
    }
