"""/limits: limits of scopes that have no address of their own, and rates a minute.

Operators set and see all of them; who sees a tenant as a whole sees that tenant's rates. The
running caps of tenants, workspaces and workflows are told and set at .../limits of each.
"""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.budget_fields import text
from scheduling.api.documents import IDEMPOTENCY, errors, parameter
from scheduling.api.levers import (
    AuditSerializer,
    Lever,
    ReasonSerializer,
    Target,
    operator_only,
    whole_or_none,
)
from scheduling.api.limit_names import OF, id_of, names, told_of
from scheduling.api.serializers import Shown
from scheduling.controls.limits import limit_set
from scheduling.models import Limit
from scheduling.models.limit import EVERYTHING, MEASURES, SCOPES
from scheduling.selectors.limits import LimitInUse, limits_in_use
from tenants.rbac import Permission, Principal, reach

EXACT = ("scope", "measure")


class LimitSetSerializer(ReasonSerializer):
    """A limit to set; value null lifts it."""

    scope = serializers.ChoiceField(SCOPES)
    of = serializers.CharField(max_length=200, required=False, default=EVERYTHING, help_text=OF)
    measure = serializers.ChoiceField(MEASURES)
    value = serializers.IntegerField(min_value=1, allow_null=True)


class LimitEscalationSerializer(Shown):
    """A raise in force."""

    id = serializers.UUIDField()
    extra = serializers.IntegerField()
    owner = serializers.CharField()
    reason = serializers.CharField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class LimitInUseSerializer(Shown):
    """A limit; `in_force` has the escalations in force in it, `in_use` counts live jobs, or the
    requests or tokens of the last 60 seconds."""

    scope = serializers.ChoiceField(SCOPES, source="limit.scope")
    of = serializers.SerializerMethodField(help_text=OF)
    measure = serializers.ChoiceField(MEASURES, source="limit.measure")
    value = serializers.IntegerField(source="limit.value")
    in_force = serializers.IntegerField()
    in_use = serializers.IntegerField()
    escalations = LimitEscalationSerializer(many=True)

    def get_of(self, row: LimitInUse) -> str:
        """Return whose limit it is, by the names that the context has looked up."""
        known: Mapping[str, str] = self.context["names"]
        return known.get(row.limit.scope_id, row.limit.scope_id)


class Limits(Lever):
    """The limits."""

    http_method_names = ("get", "put", "head", "options")
    filters: ClassVar[frozenset[str]] = frozenset(EXACT)
    takes = ("scope", "of", "measure", "value")

    @extend_schema(
        operation_id="limits_list",
        summary="Limits and rates with what is in use of each",
        parameters=[
            parameter("scope", "A scope.", enum=SCOPES),
            parameter("measure", "A measure.", enum=MEASURES),
        ],
        responses={200: LimitInUseSerializer(many=True), **errors(400, 401)},
    )
    def get(self, request: Request) -> Response:
        """List the limits that the caller may see."""
        query = request.query_params
        rows = _visible(self.principal, {name: query[name] for name in EXACT if name in query})
        context = {"names": names()}
        return Response(LimitInUseSerializer(limits_in_use(rows), many=True, context=context).data)

    @extend_schema(
        operation_id="limits_set",
        summary="Set a limit or lift it; it acts on what waits, and nothing that runs stops",
        parameters=[IDEMPOTENCY],
        request=LimitSetSerializer,
        responses={200: AuditSerializer, **errors(400, 401, 403, 409, 415, 503)},
    )
    def put(self, request: Request) -> Response:
        """Set a limit, or lift it."""
        return self.post(request)

    def find(self, **names: str) -> Target:
        """Return nobody's target: the limit is named in the body. Operators only."""
        operator_only(self.principal, "sets limits")
        return Target(id=uuid.UUID(int=0))

    def change(self, target: uuid.UUID, body: Mapping[str, Any]) -> Callable[..., int]:
        """Return the setting of the limit."""
        scope = text(body, "scope")
        return partial(
            told_of,
            limit_set,
            scope=scope,
            scope_id=id_of(scope, text(body, "of", EVERYTHING)),
            measure=text(body, "measure"),
            value=whole_or_none(body, "value"),
        )


def _visible(principal: Principal, asked: Mapping[str, str]) -> list[Limit]:
    rows = Limit.objects.filter(**asked)
    within = reach(principal, Permission.VIEW)
    if not within.everywhere:
        rows = rows.filter(scope="tenant", scope_id__in=[str(one) for one in within.tenants])
    return list(rows)
