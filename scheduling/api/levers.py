"""What every lever's address shares: the body with its reason, the answer, the one repeat of it.

The answer of a lever is its entry of the audit: the number, from what to what, by whom and why. A
setting is given as it shall be, not by how much it changes, so a repeat does no harm.
"""

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import IDEMPOTENCY, errors
from scheduling.api.endpoint import Endpoint
from scheduling.api.problems import Problem, invalid
from scheduling.api.serializers import Shown
from scheduling.api.writes import body_of, write
from scheduling.events import nudge_on_commit
from scheduling.services.drafts import FieldError
from scheduling.services.idempotency import Answer
from tenants.models import AuditEntry, Workspace
from tenants.rbac import Principal

LONGEST_REASON = 500
WHY = f"Say why: a text of 1 to {LONGEST_REASON} characters."


class ReasonSerializer(serializers.Serializer[Any]):
    """Why the lever is pulled; kept in the audit."""

    reason = serializers.CharField(max_length=LONGEST_REASON)


class AuditSerializer(Shown):
    """A change: its number, who made it and why, from what to what."""

    control = serializers.IntegerField(source="number")
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    action = serializers.CharField()
    tenant = serializers.CharField(source="tenant.slug", allow_null=True, default=None)
    target_type = serializers.CharField()
    target_id = serializers.CharField()
    before = serializers.JSONField()
    after = serializers.JSONField()
    reason = serializers.CharField()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a lever acts on, once the caller is known to be allowed to; `tenant` None: all share it.

    A repeat with the same key is told by workspace: by the oldest, of the tenant where it has one.
    """

    id: uuid.UUID
    tenant: uuid.UUID | None = None

    def place(self) -> uuid.UUID | None:
        """Return the workspace under which the answer is remembered; None before there is any."""
        rows = Workspace.objects.order_by("id")
        mine = rows if self.tenant is None else rows.filter(tenant=self.tenant)
        return mine.values_list("id", flat=True).first()


class Lever(Endpoint):
    """The address of a lever on a setting: `takes` are the fields of its body beside the reason.

    `answers` says how its entry of the audit goes out.
    """

    takes: ClassVar[tuple[str, ...]] = ()
    answers: ClassVar[type[AuditSerializer]] = AuditSerializer

    def find(self, **names: str) -> Target:
        """Return what the address names; raise `Hidden`, or a 403 for who may only see it."""
        raise NotImplementedError

    def change(self, target: uuid.UUID, body: Mapping[str, Any]) -> Callable[..., int]:
        """Return the lever, given all but `acting_user` and `reason`."""
        raise NotImplementedError

    def post(self, request: Request, **names: str) -> Response:
        """Pull the lever; the answer is the entry of the audit."""
        target = self.find(**names)
        body, reason = asked(request, self.takes)
        change = self.change(target.id, body)
        who = self.principal.name

        def act() -> Answer:
            number = change(acting_user=who, reason=reason)
            nudge_on_commit()
            entry = AuditEntry.objects.select_related("tenant").get(number=number)
            return Answer(status=200, body=dict(self.answers(entry).data))

        place = target.place()
        if place is None:
            return Response(act().body)
        return write(request, place, act)


def described(
    operation: str,
    summary: str,
    request: type[serializers.Serializer[Any]] | None,
    response: type[serializers.Serializer[Any]] = AuditSerializer,
) -> Any:  # noqa: ANN401 - the framework's decorator
    """Describe the POST of a class that does something."""
    return extend_schema_view(
        post=extend_schema(
            operation_id=operation,
            summary=summary,
            parameters=[IDEMPOTENCY],
            request=request,
            responses={200: response, **errors(400, 401, 403, 404, 409, 415, 503)},
        )
    )


def asked(request: Request, known: Collection[str]) -> tuple[Mapping[str, Any], str]:
    """Return the body and its reason; raise a 400 `Problem` for other fields or no reason."""
    body = body_of(request)
    names = {*known, "reason"}
    unknown = sorted(set(body) - names)
    if unknown:
        sentence = f"Is no field here; known are {', '.join(sorted(names))}."
        raise invalid(*(FieldError(field=name, sentence=sentence) for name in unknown))
    return body, _reason(body.get("reason"))


def whole(body: Mapping[str, Any], name: str) -> int:
    """Return a whole number of the body; its bounds are the lever's to check."""
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(FieldError(field=name, sentence="Must be given, as a whole number."))
    return value


def whole_or_none(body: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number or null; it must be given, so that no cap goes by a slip."""
    if name not in body:
        sentence = "Must be given: a whole number, or null for no limit."
        raise invalid(FieldError(field=name, sentence=sentence))
    return None if body[name] is None else whole(body, name)


def operator_only(principal: Principal, what: str) -> None:
    """Raise a 403 `Problem` unless an operator calls; `what` completes "Only an operator ..."."""
    if not principal.is_operator:
        raise Problem(403, "forbidden", f"Only an operator {what}; ask one to do it.")


def _reason(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= LONGEST_REASON:
        raise invalid(FieldError(field="reason", sentence=WHY))
    return value.strip()
