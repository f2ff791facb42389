"""/forecast: what a pool's next day holds; /forecast/honesty: how good its ETAs were.

The hours and the advice are of the pool as a whole, as times and counts; workflows and capabilities
are told of the tenants that the caller sees, budgets as in /budgets.
"""

from collections.abc import Collection
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import POOL, errors, parameter
from scheduling.api.endpoint import Endpoint, whole_number
from scheduling.api.forecast_documents import ForecastSerializer, HonestySerializer
from scheduling.api.pools import pool_asked
from scheduling.api.problems import invalid, unavailable
from scheduling.api.what_if import NO_POLICY
from scheduling.models import PolicyVersion
from scheduling.selectors.foresight.history import GROUPINGS
from scheduling.selectors.foresight.honesty import SPANS
from scheduling.selectors.foresight.outlook import Asked
from scheduling.selectors.foresight.told import (
    LONGEST_S,
    TARGETS,
    Foretold,
    foretold,
    scores_told,
    tenants_seen,
)
from scheduling.services.drafts import FieldError


class Forecast(Endpoint):
    """The hours ahead."""

    filters: ClassVar[frozenset[str]] = frozenset({"pool", "by", "workflow", *TARGETS})

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
        asked = _asked(request)
        pool = pool_asked(request)
        try:
            found = foretold(self.principal, pool, asked, timezone.now())
        except PolicyVersion.DoesNotExist:
            raise unavailable(NO_POLICY) from None
        context = {"tenants": found.tenants, "names": found.name_of}
        return Response(ForecastSerializer(_told(found), context=context).data)


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
        rows = scores_told(self.principal, pool, span, timezone.now())
        told = {"pool": pool.slug, "span": span, "rows": rows}
        seen = tenants_seen(self.principal)
        return Response(HonestySerializer(told, context={"tenants": seen}).data)


def _asked(request: Request) -> Asked:
    target, outage, recover = (
        float(whole_number(request, name, int(getattr(Asked(), name)), (1, LONGEST_S)))
        for name in TARGETS
    )
    return Asked(
        by=_one_of(request, "by", GROUPINGS, "workflow"),
        key=request.query_params.get("workflow"),
        target_wait_s=target,
        outage_s=outage,
        recover_s=recover,
    )


def _one_of(request: Request, name: str, known: Collection[str], default: str) -> str:
    given = request.query_params.get(name, default)
    if given not in known:
        sentence = f"Must be one of {', '.join(known)}."
        raise invalid(FieldError(field=name, sentence=sentence))
    return given


def _told(found: Foretold) -> dict[str, Any]:
    ahead, asked = found.ahead, found.asked
    few, mean, many = ahead.clear_s
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
    targets = {name: getattr(asked, name) for name in TARGETS}
    units = ("units_now", "units", "units_high", "units_recover", "reserve")
    return {name: getattr(ahead, name) for name in names} | {
        "pool": ahead.pool.slug,
        "clear_s": mean,
        "clear_s_low": few,
        "clear_s_high": many,
        "by": asked.by,
        "budgets": found.budgets,
        "budgets_left_out": found.budgets_left_out,
        "advice": targets | {name: getattr(ahead.advice, name) for name in units},
    }
