"""/jobs/what-if and /jobs/{id}/what-if: where a job would stand, were something else than it is.

Both write nothing and pull no lever. Of other tenants' work counts and times are told; who they are
is for operators.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import JOB_EXAMPLES, SubmitSerializer, errors
from scheduling.api.dry_run import submission_asked
from scheduling.api.endpoint import Endpoint
from scheduling.api.explain import READ_TRIES, CostToOthersSerializer
from scheduling.api.places import Places
from scheduling.api.problems import Problem, invalid, unavailable
from scheduling.api.serializers import DecisionSerializer, Shown, money_text
from scheduling.api.writes import body_of
from scheduling.core.states import JobState
from scheduling.events import valkey_client
from scheduling.governor.glance import JobMoved, Viewer, scene_of
from scheduling.models import Job, PolicyVersion
from scheduling.selectors.explanation.scene import Rehearsed, Told
from scheduling.selectors.explanation.what_if import WhatIf, what_if
from scheduling.selectors.jobs import job_get
from scheduling.selectors.policy import active_policy
from scheduling.services.drafts import FieldError, Refused
from scheduling.services.rehearsal import job_rehearse_again, job_rehearse_whole
from scheduling.services.rights import rights_of
from tenants.controls import MAX_WEIGHT
from tenants.rbac import Permission, Principal, reach

FRONT = 1_000
"""The jobs at the front of a pool that are forecast exactly: at most half a second's work a side."""
PLACES = Places(most=2, of_one=1)
"""Each what-if keeps a processor busy; those who read and submit must not wait for them."""
BUSY = "Others are being told what would happen if; ask again in {seconds} seconds."
LARGEST_BUDGET = 1_000_000
NO_POLICY = "No scheduling policy is published, so nothing can be foretold"
ONE = "Name one change: budget, class or weight."


class BeforeSerializer(Shown):
    """The place and the start as things stand."""

    place = serializers.IntegerField(allow_null=True)
    start = serializers.DateTimeField(allow_null=True)


class WhatIfSerializer(Shown):
    """Where the job would stand; null where it has no start in sight or stands too deep to be told.

    `cost` is in units, `finish_low` and `finish_high` are the 80 % range. `delayed` are jobs that
    would start later. `approximate`: it, or one of those, stands behind the jobs that are forecast
    one by one.
    """

    place = serializers.IntegerField(allow_null=True)
    start = serializers.DateTimeField(allow_null=True)
    finish = serializers.DateTimeField(allow_null=True)
    finish_low = serializers.DateTimeField(allow_null=True)
    finish_high = serializers.DateTimeField(allow_null=True)
    before = BeforeSerializer()
    sooner_s = serializers.FloatField(allow_null=True)
    delayed = CostToOthersSerializer()
    cost = serializers.IntegerField()
    never_fits = serializers.BooleanField()
    approximate = serializers.BooleanField()


class WhatIfSubmittedSerializer(Shown):
    """The decision on a submission, the money that it would reserve (USD), and what would follow;
    null when it would not stand in line (denied, deferred, or waiting for another job)."""

    decision = DecisionSerializer()
    spend = serializers.CharField()
    what_if = WhatIfSerializer(allow_null=True)


class WhatIfChangeSerializer(serializers.Serializer[Any]):
    """One change; exactly one is named."""

    budget = serializers.IntegerField(required=False, min_value=1, help_text="The pool's units.")
    weight = serializers.IntegerField(required=False, min_value=1, max_value=MAX_WEIGHT)

    def get_fields(self) -> dict[str, Any]:
        """Return the fields; no attribute can be named `class`."""
        return {**super().get_fields(), "class": serializers.CharField(required=False)}


class WhatIfSubmitted(Endpoint):
    """A job that is not submitted."""

    @extend_schema(
        operation_id="jobs_what_if",
        summary="What if I submitted this now: the verdict, place, times, cost, and whom it delays",
        request=SubmitSerializer,
        examples=JOB_EXAMPLES,
        responses={
            200: WhatIfSubmittedSerializer,
            **errors(400, 401, 403, 404, 413, 415, 429, 503),
        },
    )
    def post(self, request: Request) -> Response:
        """Answer as a dry run does, with what would become of the job and of those who wait."""
        workspace, asked = submission_asked(self.principal, request)
        at = timezone.now()
        try:
            found = job_rehearse_whole(
                workspace=workspace,
                submitted_by=self.principal.name,
                submission=asked,
                rights=rights_of(self.principal, workspace),
                now=at,
            )
        except PolicyVersion.DoesNotExist:
            raise unavailable(NO_POLICY) from None
        if isinstance(found, Refused):
            raise invalid(*found.errors)
        is_in = found.job.state == JobState.QUEUED
        told = _told(self.principal, found.job, WhatIf(), found.rehearsed) if is_in else None
        if told is not None and told["place"] is None:
            told |= {"place": found.decision.place, "finish": found.decision.eta}
        answer = {
            "decision": found.decision,
            "spend": money_text(found.spend),
            "what_if": told,
        }
        return Response(WhatIfSubmittedSerializer(answer).data)


class WhatIfJob(Endpoint):
    """A job that waits."""

    @extend_schema(
        operation_id="jobs_what_if_changed",
        summary="What if the pool's budget, the job's class or its tenant's weight were another",
        request=WhatIfChangeSerializer,
        responses={200: WhatIfSerializer, **errors(400, 401, 404, 409, 415, 429, 503)},
    )
    def post(self, request: Request, job_id: uuid.UUID) -> Response:
        """Try one change on a copy of the pool."""
        job = job_get(self.principal, job_id)
        asked = _asked(body_of(request))
        for _ in range(READ_TRIES):
            if job.state != JobState.QUEUED or job.paused:
                detail = f"The job is {'paused' if job.paused else job.state}; only one that stands in line can be tried."
                raise Problem(409, "not_waiting", detail)
            try:
                told = _told(self.principal, job, asked)
            except JobMoved:
                job = job_get(self.principal, job_id)
                continue
            return Response(WhatIfSerializer(told).data)
        raise unavailable("The job moves faster than it can be foretold")


def _told(
    principal: Principal, job: Job, asked: WhatIf, rehearsed: Rehearsed | None = None
) -> Told:
    viewer = Viewer(within=reach(principal, Permission.VIEW), amounts=False)
    at = timezone.now()
    with PLACES.held(principal.name, full=BUSY):
        try:
            known = job_rehearse_again(job, at) if rehearsed is None else rehearsed
            scene = scene_of(job, known, viewer, client=valkey_client(), at=at, most=FRONT)
        except PolicyVersion.DoesNotExist:
            raise unavailable(NO_POLICY) from None
        return what_if(scene, asked)


def _asked(body: Mapping[str, Any]) -> WhatIf:
    """Return the one change that is named; raise a 400 `Problem`."""
    unknown = sorted(set(body) - {"budget", "class", "weight"})
    if unknown or len(body) != 1:
        raise invalid(*(FieldError(field=name, sentence=ONE) for name in unknown or ["body"]))
    if "class" in body:
        return WhatIf(job_class=_class(body["class"]))
    name, most = ("budget", LARGEST_BUDGET) if "budget" in body else ("weight", MAX_WEIGHT)
    value = body[name]
    if type(value) is not int or not 1 <= value <= most:
        sentence = f"Must be a whole number from 1 to {most}."
        raise invalid(FieldError(field=name, sentence=sentence))
    return WhatIf(budget=value) if name == "budget" else WhatIf(weight=value)


def _class(value: object) -> str:
    try:
        names = [rule.name for rule in active_policy().classes]
    except PolicyVersion.DoesNotExist:
        raise unavailable(NO_POLICY) from None
    if value not in names:
        sentence = f"Must be one of {', '.join(names)}."
        raise invalid(FieldError(field="class", sentence=sentence))
    return str(value)
