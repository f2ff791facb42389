"""/alerts: the marks that budgets have reached, for those who may see what is spent."""

from typing import Any, ClassVar

from django.db.models import Q
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.core.terms import DIMENSIONS, SCOPES, WINDOWS
from billing.services.alerts import alert_told, alerts_seen, alerts_standing
from scheduling.api.budget_scopes import tenant_seen
from scheduling.api.documents import CURSOR, PAGE_SIZE, TENANT, errors, paged
from scheduling.api.endpoint import Endpoint
from scheduling.api.pagination import PAGE_FILTERS, page
from scheduling.api.serializers import Shown
from tenants.rbac import Permission, Principal, reach

MOST_STANDING = 20


class AlertSerializer(Shown):
    """A budget's spending reached `percent` of its limit; `at` is when."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    tenant = serializers.CharField()
    budget = serializers.UUIDField()
    scope = serializers.CharField(help_text=f"One of {', '.join(SCOPES)}.")
    scope_id = serializers.CharField()
    dimension = serializers.ChoiceField(DIMENSIONS)
    window = serializers.ChoiceField(WINDOWS)
    window_start = serializers.DateTimeField()
    percent = serializers.IntegerField()
    limit = serializers.CharField()
    spent = serializers.CharField()


class StandingSerializer(Shown):
    """The highest mark of each budget in its present window, the fullest first, and how many."""

    total = serializers.IntegerField()
    alerts = AlertSerializer(many=True)


class Alerts(Endpoint):
    """All of them."""

    filters: ClassVar[frozenset[str]] = PAGE_FILTERS | {"tenant"}

    @extend_schema(
        operation_id="alerts_list",
        summary="The marks (50, 80, 100 %) that budgets have reached, newest first",
        parameters=[TENANT, CURSOR, PAGE_SIZE],
        responses={200: paged("Alerts", AlertSerializer), **errors(400, 401, 404)},
    )
    def get(self, request: Request) -> Response:
        """List the alerts of the tenants whose costs the caller may see as a whole."""
        visible = alerts_visible(self.principal)
        if "tenant" in request.query_params:
            visible &= Q(tenant=tenant_seen(self.principal, request.query_params["tenant"]))
        found = page(alerts_seen(visible), request, key="id", newest_first=True)
        found["results"] = [alert_told(alert) for alert in found["results"]]
        return Response(found)


class StandingAlerts(Endpoint):
    """Those that matter now."""

    @extend_schema(
        operation_id="alerts_standing",
        summary="The budgets that have reached a mark in their present window",
        responses={200: StandingSerializer, **errors(401)},
    )
    def get(self, request: Request) -> Response:
        """List up to 20 budgets, the fullest first."""
        standing = alerts_standing(alerts_visible(self.principal), timezone.now())
        told: list[dict[str, Any]] = [alert_told(alert) for alert in standing[:MOST_STANDING]]
        return Response({"total": len(standing), "alerts": told})


def alerts_visible(principal: Principal) -> Q:
    """Return the filter of the alerts that the caller may see."""
    within = reach(principal, Permission.COSTS)
    return Q() if within.everywhere else Q(tenant__in=within.tenants)
