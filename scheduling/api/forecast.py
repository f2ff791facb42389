"""/forecast: what a pool's next day holds; /forecast/honesty: how good its ETAs were.

The hours and the advice are of the pool as a whole, as times and counts; workflows and capabilities
are told of the tenants that the caller sees, budgets as in /budgets.
"""

import uuid
from collections.abc import Collection
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.budget_scopes import budgets_visible, names_of
from scheduling.api.documents import POOL, errors, parameter
from scheduling.api.endpoint import Endpoint, whole_number
from scheduling.api.forecast_documents import ForecastSerializer, HonestySerializer
from scheduling.api.pools import pool_asked
from scheduling.api.problems import invalid, unavailable
from scheduling.api.what_if import NO_POLICY
from scheduling.events import valkey_client
from scheduling.models import PolicyVersion
from scheduling.selectors.foresight.budgets import budgets_ahead
from scheduling.selectors.foresight.history import GROUPINGS
from scheduling.selectors.foresight.honesty import SPANS, eta_honesty
from scheduling.selectors.foresight.outlook import (
    Asked,
    PoolAhead,
    pool_ahead,
)
from scheduling.selectors.queue import pool_header
from scheduling.services.drafts import FieldError
from tenants.models import Tenant
from tenants.rbac import Permission, reach

LONGEST_S = 30 * 86_400
_TARGETS = ("target_wait_s", "outage_s", "recover_s")


class Forecast(Endpoint):
    """The hours ahead."""

    filters: ClassVar[frozenset[str]] = frozenset({"pool", "by", "workflow", *_TARGETS})

    @extend_schema(
        operation_id="forecast",
        summary="Arrivals, backlog and waits of the next 24 hours, and the capacity they ask for",
        parameters=[
            POOL,
            parameter("by", "What to tell apart, else workflow.", enum=list(GROUPINGS)),
            parameter("workflow", "Tell of this group alone: a slug (or what `by` groups by)."),
            parameter("target_wait_s", "Capacity for this mean wait, else 60.", OpenApiTypes.INT),
            parameter("outage_s", "An outage to recover from, else 3600.", OpenApiTypes.INT),
            parameter("recover_s", "In this time, else 3600.", OpenApiTypes.INT),
        ],
        responses={200: ForecastSerializer, **errors(400, 401, 404, 503)},
    )
    def get(self, request: Request) -> Response:
        """Forecast a pool from its last eight weeks; `said` tells what that rests on.

        Measured run times go into the estimates; they change nobody's class, place or risk.
        """
        seen = _tenants_seen(self)
        asked = _asked(request, seen)
        pool = pool_asked(request)
        header = pool_header(valkey_client(), pool)
        now = timezone.now()
        try:
            found = pool_ahead(pool, asked, header, now.timestamp())
        except PolicyVersion.DoesNotExist:
            raise unavailable(NO_POLICY) from None
        budgets, left_out = budgets_ahead(budgets_visible(self.principal), now)
        context = {"tenants": seen, "names": names_of([one.row for one in budgets])}
        told = _told(found, asked) | {"budgets": budgets, "budgets_left_out": left_out}
        return Response(ForecastSerializer(told, context=context).data)


class EtaHonesty(Endpoint):
    """The score of the ETAs."""

    filters: ClassVar[frozenset[str]] = frozenset({"pool", "span"})

    @extend_schema(
        operation_id="forecast_honesty",
        summary="How far off the ETAs were that came due, beside pending x average / capacity",
        parameters=[POOL, parameter("span", "How far back, else day.", enum=list(SPANS))],
        responses={200: HonestySerializer, **errors(400, 401, 404)},
    )
    def get(self, request: Request) -> Response:
        """Score the ETAs of the jobs of the caller's tenants, in all and by workflow."""
        span = _one_of(request, "span", SPANS, "day")
        pool = pool_asked(request)
        within = reach(self.principal, Permission.VIEW)
        bound: Collection[uuid.UUID] | None = None if within.everywhere else within.tenants
        rows = eta_honesty(pool, span, timezone.now(), bound)
        told = {"pool": pool.slug, "span": span, "rows": rows}
        return Response(HonestySerializer(told, context={"tenants": _tenants_seen(self)}).data)


def _asked(request: Request, seen: Collection[str]) -> Asked:
    targets = {
        name: float(whole_number(request, name, int(getattr(Asked(), name)), (1, LONGEST_S)))
        for name in _TARGETS
    }
    by = _one_of(request, "by", GROUPINGS, "workflow")
    return Asked(by=by, key=request.query_params.get("workflow"), tenants=seen, **targets)


def _one_of(request: Request, name: str, known: Collection[str], default: str) -> str:
    given = request.query_params.get(name, default)
    if given not in known:
        sentence = f"Must be one of {', '.join(known)}."
        raise invalid(FieldError(field=name, sentence=sentence))
    return given


def _tenants_seen(endpoint: Endpoint) -> dict[str, str]:
    """Return the slugs, by id, of the tenants that the caller sees as a whole."""
    within = reach(endpoint.principal, Permission.VIEW)
    rows = (
        Tenant.objects.all() if within.everywhere else Tenant.objects.filter(id__in=within.tenants)
    )
    return {str(key): slug for key, slug in rows.values_list("id", "slug")}


def _told(found: PoolAhead, asked: Asked) -> dict[str, Any]:
    few, mean, many = found.clear_s
    names = (
        "at",
        "history_at",
        "history_hours",
        "jobs",
        "basis",
        "said",
        "backlog",
        "run_s",
        "hours",
        "groups",
        "groups_left_out",
    )
    targets = {name: getattr(asked, name) for name in _TARGETS}
    units = ("units_now", "units", "units_high", "units_recover", "reserve")
    return {name: getattr(found, name) for name in names} | {
        "pool": found.pool.slug,
        "clear_s": mean,
        "clear_s_low": few,
        "clear_s_high": many,
        "by": asked.by,
        "advice": targets | {name: getattr(found.advice, name) for name in units},
    }
