"""/limits/raises: escalations of limits, of those that have no address of their own and of the
running caps of tenants, workspaces and workflows alike.

Operators raise. Who sees a tenant or a workspace as a whole sees what is raised of it.
"""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.budget_fields import term_read, text
from scheduling.api.documents import errors, parameter
from scheduling.api.endpoint import Endpoint
from scheduling.api.levers import (
    AuditSerializer,
    Lever,
    ReasonSerializer,
    Target,
    described,
    operator_only,
    whole,
)
from scheduling.api.limit_names import OF_RAISED, paths, raised_id_of, told_of
from scheduling.api.serializers import Shown
from scheduling.controls.raises import LimitIncrease, limit_raise, limit_raise_end
from scheduling.models import LimitRaise
from scheduling.models.limit import EVERYTHING, MEASURES
from scheduling.models.limit_raise import RAISE_SCOPES
from scheduling.selectors.raises import RaiseInForce, raises_seen
from tenants.rbac import Hidden, Permission, reach

EXACT = ("scope", "measure")
SCOPE = f"One of {', '.join(RAISE_SCOPES)}."


class LimitRaiseSerializer(ReasonSerializer):
    """A raise: of what, by how much, until when, from when (now), who answers for it (who asks)."""

    scope = serializers.CharField(help_text=SCOPE)
    of = serializers.CharField(required=False, default=EVERYTHING, help_text=OF_RAISED)
    measure = serializers.ChoiceField(MEASURES)
    extra = serializers.IntegerField(min_value=1)
    ends_at = serializers.DateTimeField()
    starts_at = serializers.DateTimeField(required=False)
    owner = serializers.CharField(required=False)


class RaisedSerializer(AuditSerializer):
    """The change, and the escalation that it made."""

    escalation = serializers.UUIDField(source="after.escalation")


class RaiseInForceSerializer(Shown):
    """An escalation, in force or to come, with the limit that it raises: as set, and as it holds
    now with all that is on top of it; both null where there is none any more."""

    id = serializers.UUIDField(source="row.id")
    scope = serializers.CharField(source="row.scope", help_text=SCOPE)
    of = serializers.SerializerMethodField(help_text=OF_RAISED)
    measure = serializers.ChoiceField(MEASURES, source="row.measure")
    extra = serializers.IntegerField(source="row.extra")
    owner = serializers.CharField(source="row.owner")
    reason = serializers.CharField(source="row.reason")
    starts_at = serializers.DateTimeField(source="row.starts_at")
    ends_at = serializers.DateTimeField(source="row.ends_at")
    value = serializers.IntegerField(allow_null=True)
    in_force = serializers.IntegerField(allow_null=True)

    def get_of(self, row: RaiseInForce) -> str:
        """Return whose limit it is, by the names that the context has looked up."""
        known: Mapping[str, str] = self.context["names"]
        return known.get(row.row.scope_id, row.row.scope_id)


class LimitRaises(Endpoint):
    """The escalations of limits."""

    filters: ClassVar[frozenset[str]] = frozenset(EXACT)

    @extend_schema(
        operation_id="limits_raises_list",
        summary="Escalations of limits in force and to come",
        parameters=[
            parameter("scope", "A scope.", enum=RAISE_SCOPES),
            parameter("measure", "A measure.", enum=MEASURES),
        ],
        responses={200: RaiseInForceSerializer(many=True), **errors(400, 401)},
    )
    def get(self, request: Request) -> Response:
        """List the escalations of limits that the caller may see, the oldest first."""
        query = request.query_params
        asked = {name: query[name] for name in EXACT if name in query}
        rows = raises_seen(reach(self.principal, Permission.VIEW), asked, timezone.now())
        context = {"names": paths()}
        return Response(RaiseInForceSerializer(rows, many=True, context=context).data)


@described(
    "limits_raise",
    "Raise a limit for a time; it ends by itself",
    LimitRaiseSerializer,
    RaisedSerializer,
)
class RaiseLimit(Lever):
    """A raise; it acts on what waits when it begins and when it ends, and nothing that runs stops."""

    takes = ("scope", "of", "measure", "extra", "ends_at", "starts_at", "owner")
    answers = RaisedSerializer

    def find(self, **names: str) -> Target:
        """Return nobody's target: the limit is named in the body. Operators only."""
        operator_only(self.principal, "raises limits")
        return Target(id=uuid.UUID(int=0))

    def change(self, target: uuid.UUID, body: Mapping[str, Any]) -> Callable[..., int]:
        """Return the escalation."""
        scope, measure = text(body, "scope"), text(body, "measure")
        subject = (scope, raised_id_of(scope, text(body, "of", EVERYTHING)), measure)
        increase = LimitIncrease(extra=whole(body, "extra"), **term_read(body))
        return partial(told_of, _raised, subject=subject, increase=increase, now=timezone.now())


@described("limits_raises_end", "End a limit's escalation before its time", ReasonSerializer)
class EndLimitRaise(Lever):
    """The end of a raise; what runs above the limit that is left runs on."""

    def find(self, **names: str) -> Target:
        """Return the escalation. Operators only."""
        operator_only(self.principal, "raises limits")
        raised = uuid.UUID(str(names["raise_id"]))
        if not LimitRaise.objects.filter(id=raised).exists():
            raise Hidden("escalation")
        return Target(id=raised)

    def change(self, target: uuid.UUID, body: Mapping[str, Any]) -> Callable[..., int]:
        """Return the end."""
        return partial(limit_raise_end, raise_id=target, now=timezone.now())


def _raised(**asked: Any) -> int:  # noqa: ANN401 - the lever's own arguments
    return limit_raise(**asked).number
