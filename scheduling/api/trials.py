"""/policies/{n}/trial and /trials/{id}: a policy tried on the live backlog; operators' alone.

A trial is worked out by a process of its own, so it is asked for and then looked at. It changes
nothing: publishing what was tried is another call.
"""

import uuid
from typing import Any, ClassVar

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import IDEMPOTENCY, errors, parameter
from scheduling.api.endpoint import Endpoint, whole_number
from scheduling.api.policies import (
    LONGEST_NOTE,
    WRITE_ERRORS,
    answered,
    fields_given,
    note_given,
    operator_of,
    told,
    version_known,
)
from scheduling.api.serializers import Shown
from scheduling.api.waits import LONGEST_S, still_here, wait_until
from scheduling.controls.trials import policy_simulate
from scheduling.models import PolicyTrial
from scheduling.models.trial import TRIAL_STATES
from scheduling.services.idempotency import Answer
from tenants.rbac import Hidden

_NOTE = "tried on the live backlog"


class TryPolicySerializer(serializers.Serializer[Any]):
    """Why, for the audit."""

    note = serializers.CharField(max_length=LONGEST_NOTE, required=False)


class TrialSerializer(Shown):
    """A trial of a version against the one in force.

    `result` is null until it is done. It has `changes` (the settings that differ), and for `all` and
    each of `pools`: `moved` (jobs earlier, later, unmoved, with a start on one side only), `movers`,
    `deadlines_missed`, `fairness` (Jain's index over the `window_s`), and for all, each of `tenants`
    and `classes` waits from submission to start, shares of what is served in the window, the money
    that starts in the next hour, and the seconds until clear. What has two sides is a pair [in force, tried].
    """

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    against = serializers.IntegerField(allow_null=True)
    state = serializers.CharField(help_text=f"One of {', '.join(TRIAL_STATES)}.")
    sentence = serializers.CharField(help_text="Why it failed; else empty.")
    asked_by = serializers.CharField()
    asked_at = serializers.DateTimeField()
    began_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    result = serializers.DictField(allow_null=True)


class PolicyTry(Endpoint):
    """Tries a version."""

    @extend_schema(
        operation_id="policies_trial",
        summary="Try a version on the live backlog; nothing is changed",
        parameters=[IDEMPOTENCY],
        request=TryPolicySerializer,
        responses={202: TrialSerializer, **WRITE_ERRORS},
    )
    def post(self, request: Request, number: int) -> Response:
        """Ask for a trial; the answer's Location is where its result will be.

        While a trial of the version is open, that one is the answer; not begun, it takes on what the
        draft was rewritten to, and once it runs such a draft is refused.
        """
        who = operator_of(self.principal)
        given = fields_given(request, "note")
        note = note_given(given) if "note" in given else _NOTE
        known = version_known(number).number

        def act() -> Answer:
            trial = told(lambda: policy_simulate(number=known, acting_user=who, reason=note))
            return Answer(status=202, body=_shown(trial))

        response = answered(request, act)
        if response.status_code == 202:
            response["Location"] = reverse("api:trial", args=[response.data["id"]])
        return response


class Trial(Endpoint):
    """One trial."""

    filters: ClassVar[frozenset[str]] = frozenset({"wait"})

    @extend_schema(
        operation_id="trials_get",
        summary="Look at a trial of a policy, or wait for its result",
        parameters=[parameter("wait", f"Seconds to wait for its end, 0 to {LONGEST_S}.")],
        responses={200: TrialSerializer, **errors(400, 401, 404, 429)},
    )
    def get(self, request: Request, trial_id: uuid.UUID) -> Response:
        """Show a trial; with `wait`, once it has ended or the time is over."""
        operator_of(self.principal)
        seconds = whole_number(request, "wait", 0, (0, LONGEST_S))
        trial = _known(trial_id)
        if seconds and trial.is_open:
            wait_until(lambda: not _known(trial_id).is_open, seconds, self.principal.name)
            operator_of(still_here(request))
            trial = _known(trial_id)
        return Response(_shown(trial))


def _known(trial_id: uuid.UUID) -> PolicyTrial:
    row = PolicyTrial.objects.filter(id=trial_id).first()
    if row is None:
        raise Hidden("trial")
    return row


def _shown(trial: PolicyTrial) -> dict[str, Any]:
    return dict(TrialSerializer(trial).data)
