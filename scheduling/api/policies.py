"""/policies: the versions of the policy, and the levers on them; operators' alone.

To everybody else there is no policy at all: its fallback lists, caps and class table concern
all tenants. What a job met of it stands in that job's decisions.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import CURSOR, IDEMPOTENCY, PAGE_SIZE, errors, paged
from scheduling.api.endpoint import Endpoint
from scheduling.api.pagination import PAGE_FILTERS, page
from scheduling.api.problems import Problem, invalid
from scheduling.api.serializers import Shown
from scheduling.api.writes import body_of, write
from scheduling.controls.policies import (
    policy_draft,
    policy_publish,
    policy_roll_back,
    policy_validate,
)
from scheduling.core.policy.document import InvalidPolicy
from scheduling.models import PolicyVersion
from scheduling.models.policy import POLICY_STATES
from scheduling.services.drafts import FieldError
from scheduling.services.idempotency import Answer
from tenants.controls import ControlRefused
from tenants.models import Workspace
from tenants.rbac import Hidden, Principal

LONGEST_NOTE = 500
LARGEST_NUMBER = 2**31 - 1
WRITE_ERRORS = errors(400, 401, 403, 404, 409, 415, 503)


class PolicySerializer(Shown):
    """A version of the policy."""

    number = serializers.IntegerField()
    state = serializers.CharField(help_text=f"One of {', '.join(POLICY_STATES)}.")
    note = serializers.CharField()
    author = serializers.CharField()
    created_at = serializers.DateTimeField()
    published_at = serializers.DateTimeField(allow_null=True)


class PolicyDetailSerializer(PolicySerializer):
    """A version with all of its settings."""

    body = serializers.DictField()


class NoteSerializer(serializers.Serializer[Any]):
    """Why; it stays with the version and in the audit."""

    note = serializers.CharField(max_length=LONGEST_NOTE)


class SettingsSerializer(serializers.Serializer[Any]):
    """Settings; each that is left out takes its default."""

    body = serializers.DictField()


class PolicyDraftSerializer(SettingsSerializer, NoteSerializer):
    """Settings to be kept as a draft, and why."""


class Policies(Endpoint):
    """The versions."""

    filters: ClassVar[frozenset[str]] = PAGE_FILTERS

    @extend_schema(
        operation_id="policies_list",
        summary="List the versions of the policy, newest first",
        parameters=[CURSOR, PAGE_SIZE],
        responses={200: paged("Policies", PolicySerializer), **errors(400, 401, 404)},
    )
    def get(self, request: Request) -> Response:
        """List drafts and published versions, without their settings."""
        operator_of(self.principal)
        rows = PolicyVersion.objects.defer("body")
        found = page(rows, request, key="number", newest_first=True)
        found["results"] = PolicySerializer(found["results"], many=True).data
        return Response(found)

    @extend_schema(
        operation_id="policies_draft",
        summary="Keep settings as a draft",
        parameters=[IDEMPOTENCY],
        request=PolicyDraftSerializer,
        responses={201: PolicyDetailSerializer, **WRITE_ERRORS},
    )
    def post(self, request: Request) -> Response:
        """Keep a draft; it is not in force until it is published."""
        who = operator_of(self.principal)
        given = fields_given(request, "body", "note")
        note, settings = note_given(given), _settings(given)

        def act() -> int:
            return policy_draft(body=settings, note=note, acting_user=who, reason=note)

        return _pulled(request, act, status=201)


class PolicyValidate(Endpoint):
    """A look at settings, without a write."""

    @extend_schema(
        operation_id="policies_validate",
        summary="Check settings and write out their defaults; nothing is stored",
        request=SettingsSerializer,
        responses={200: SettingsSerializer, **errors(400, 401, 403, 404, 415)},
    )
    def post(self, request: Request) -> Response:
        """Name every wrong field, or return the settings as they would be stored."""
        operator_of(self.principal)
        settings = _settings(fields_given(request, "body"))
        return Response({"body": told(lambda: policy_validate(settings))})


class PolicyDetail(Endpoint):
    """One version."""

    @extend_schema(
        operation_id="policies_get",
        summary="Look at one version of the policy",
        responses={200: PolicyDetailSerializer, **errors(401, 404)},
    )
    def get(self, request: Request, number: int) -> Response:
        """Show a version with all of its settings."""
        operator_of(self.principal)
        return Response(_shown(version_known(number)))


class PolicyPublish(Endpoint):
    """Puts a draft in force."""

    @extend_schema(
        operation_id="policies_publish",
        summary="Publish a draft; it acts on the backlog that is there",
        parameters=[IDEMPOTENCY],
        request=NoteSerializer,
        responses={200: PolicyDetailSerializer, **WRITE_ERRORS},
    )
    def post(self, request: Request, number: int) -> Response:
        """Publish a draft, unless a later version was published since it was made."""
        return _versioned(request, self.principal, number, policy_publish)


class PolicyRollBack(Endpoint):
    """Puts old settings in force again."""

    @extend_schema(
        operation_id="policies_roll_back",
        summary="Publish the settings of an earlier version anew",
        parameters=[IDEMPOTENCY],
        request=NoteSerializer,
        responses={200: PolicyDetailSerializer, **WRITE_ERRORS},
    )
    def post(self, request: Request, number: int) -> Response:
        """Publish a new version with the settings of one that was in force before."""
        return _versioned(request, self.principal, number, policy_roll_back)


def _versioned(
    request: Request, principal: Principal, number: int, lever: Callable[..., int]
) -> Response:
    """Pull a lever on one version, with the note that the request gives."""
    who = operator_of(principal)
    note = note_given(fields_given(request, "note"))
    version_known(number)
    return _pulled(request, partial(lever, number=number, note=note, acting_user=who))


def operator_of(principal: Principal) -> str:
    """Return the name of an operator; to others there is no policy."""
    if not principal.is_operator:
        raise Hidden("policy")
    return principal.name


def version_known(number: int) -> PolicyVersion:
    row = PolicyVersion.objects.filter(number=min(number, LARGEST_NUMBER)).first()
    if row is None:
        raise Hidden("policy")
    return row


def _shown(row: PolicyVersion) -> dict[str, Any]:
    return dict(PolicyDetailSerializer(row).data)


def _pulled(request: Request, lever: Callable[[], int], *, status: int = 200) -> Response:
    """Pull the lever once for the request's key; answer with the version that it made."""
    return answered(request, lambda: Answer(status=status, body=_shown(version_known(told(lever)))))


def answered(request: Request, act: Callable[[], Answer]) -> Response:
    """Act once for the request's key.

    Answers are remembered by workspace, and a policy has none: they stand under the oldest one.
    Before there is any, a repeat just acts again.
    """
    place = Workspace.objects.order_by("id").values_list("id", flat=True).first()
    if place:
        return write(request, place, act)
    answer = act()
    return Response(answer.body, status=answer.status, headers=dict(answer.headers))


def told(call: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is called
    """Call, and tell wrong settings by their place in the body, and conflicts as such."""
    try:
        return call()
    except InvalidPolicy as wrong:
        found = [FieldError(field=f"body.{e.field}", sentence=e.sentence) for e in wrong.errors]
        raise invalid(*found) from None
    except ControlRefused as conflict:
        raise Problem(409, "policy_conflict", conflict.sentence) from None


def fields_given(request: Request, *known: str) -> Mapping[str, Any]:
    body = body_of(request)
    unknown = sorted(set(body) - set(known))
    if unknown:
        sentence = f"Is no field here; known are {', '.join(known)}."
        raise invalid(*(FieldError(field=name, sentence=sentence) for name in unknown))
    return body


def _settings(body: Mapping[str, Any]) -> Mapping[str, Any]:
    settings = body.get("body")
    if not isinstance(settings, Mapping):
        raise invalid(FieldError(field="body", sentence="Must be an object of settings."))
    return settings


def note_given(body: Mapping[str, Any]) -> str:
    note = body.get("note")
    if not isinstance(note, str) or not 1 <= len(note.strip()) <= LONGEST_NOTE:
        sentence = f"Say why: a text of 1 to {LONGEST_NOTE} characters."
        raise invalid(FieldError(field="note", sentence=sentence))
    return note.strip()
