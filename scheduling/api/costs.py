"""/costs: what was spent, by tenant or another grouping, as JSON or CSV."""

import uuid
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import ClassVar

from django.db.models import Model, QuerySet
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.exports import costs_csv
from billing.reports import GROUPINGS, CostRow, costs_total, tenant_costs
from scheduling.api.documents import TENANT, errors, parameter
from scheduling.api.endpoint import Endpoint
from scheduling.api.problems import invalid
from scheduling.api.scope import tenant_visible
from scheduling.api.serializers import MoneyField, Shown
from scheduling.api.submissions import CHECKS, WrongValue
from scheduling.models import Executor, Mission, Workflow
from scheduling.services.drafts import FieldError
from tenants.rbac import Forbidden, Hidden, Permission, Principal, reach, visible_tenants

FORMATS = ("json", "csv")
DEFAULT_DAYS = 30
BY = list(GROUPINGS)


class CostRowSerializer(Shown):
    """One group; money in US dollars as text. `total` = incurred + wasted + unallocated."""

    key = serializers.CharField(allow_blank=True)
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment]
    jobs = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    reserved = MoneyField()
    incurred = MoneyField()
    wasted = MoneyField()
    avoided = MoneyField()
    unallocated = MoneyField()
    total = MoneyField()


class CostsSerializer(Shown):
    """A report over the attempts dispatched in [since, until)."""

    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    by = serializers.ChoiceField(BY)
    rows = CostRowSerializer(many=True)
    total = CostRowSerializer()


class Costs(Endpoint):
    """The cost report."""

    filters: ClassVar[frozenset[str]] = frozenset({"tenant", "since", "until", "by", "format"})

    @extend_schema(
        operation_id="costs_report",
        summary="What was spent",
        parameters=[
            TENANT,
            parameter("since", f"ISO time, else {DEFAULT_DAYS} days before until."),
            parameter("until", "ISO time, else now."),
            parameter("by", "The grouping, else tenant (workspace for a key).", enum=BY),
            parameter("format", "json or csv.", enum=list(FORMATS)),
        ],
        responses={200: CostsSerializer, **errors(400, 401, 403, 404)},
    )
    def get(self, request: Request) -> Response | HttpResponse:
        """Report what the caller's tenants spent, one row a group, with the totals."""
        since, until = _period(request)
        shape = _choice(request, "format", FORMATS, "json")
        by = _choice(request, "by", BY, _grouping(self.principal))
        rows = self._rows(request, since, until, by)
        if shape == "csv":
            text = "".join(costs_csv(rows))
            return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=_FILE)
        told = {"since": since, "until": until, "by": by, "rows": rows, "total": costs_total(rows)}
        return Response(CostsSerializer(told).data)

    def _rows(self, request: Request, since: datetime, until: datetime, by: str) -> list[CostRow]:
        principal = self.principal
        within = reach(principal, Permission.COSTS)
        named = request.query_params.get("tenant")
        tenant = tenant_visible(principal, named, Permission.COSTS) if named else None
        if not within.everywhere and not within.tenants:
            return _own_workspaces(principal, since, until, by)
        tenants: Collection[uuid.UUID] | None = None if within.everywhere else within.tenants
        if tenant is not None:
            if tenants is not None and tenant not in tenants:
                raise Hidden("tenant")
            tenants = [tenant]
        return _labelled(tenant_costs(tenants=tenants, since=since, until=until, by=by), by)


_FILE = {"Content-Disposition": 'attachment; filename="costs.csv"'}


def _grouping(principal: Principal) -> str:
    within = reach(principal, Permission.COSTS)
    return "tenant" if within.everywhere or within.tenants else "workspace"


def _own_workspaces(
    principal: Principal, since: datetime, until: datetime, by: str
) -> list[CostRow]:
    """One who has a role on workspaces alone sees them row by row, and no other grouping."""
    own = {str(one) for one in reach(principal, Permission.COSTS).workspaces}
    if not own:
        raise Forbidden(Permission.COSTS)
    if by != "workspace":
        sentence = "Must be workspace: your role is on workspaces, not on a whole tenant."
        raise invalid(FieldError(field="by", sentence=sentence))
    tenants = visible_tenants(principal, Permission.COSTS)
    rows = tenant_costs(tenants=tenants, since=since, until=until, by=by)
    return [row for row in rows if row.key in own]


def _labelled(rows: list[CostRow], by: str) -> list[CostRow]:
    """Add the slugs that billing does not know."""
    model = _NAMED.get(by)
    if model is None:
        return rows
    found: QuerySet[Model] = model._default_manager.filter(
        id__in=[row.key for row in rows if row.key]
    )
    names = {str(row.pk): str(row) for row in found}
    return [replace(row, label=names.get(row.key, row.label)) for row in rows]


_NAMED: dict[str, type[Model]] = {"workflow": Workflow, "mission": Mission, "executor": Executor}


def _period(request: Request) -> tuple[datetime, datetime]:
    until = _moment(request, "until") or timezone.now()
    since = _moment(request, "since") or until - timedelta(days=DEFAULT_DAYS)
    if since >= until:
        raise invalid(FieldError(field="since", sentence="Must be before until."))
    return since, until


def _moment(request: Request, name: str) -> datetime | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        found: datetime = CHECKS["deadline"](name, text)
    except WrongValue as wrong:
        raise invalid(FieldError(field=name, sentence=str(wrong))) from None
    return found


def _choice(request: Request, name: str, known: Collection[str], default: str) -> str:
    given = request.query_params.get(name, default)
    if given not in known:
        sentence = f"Must be one of {', '.join(known)}."
        raise invalid(FieldError(field=name, sentence=sentence))
    return given
