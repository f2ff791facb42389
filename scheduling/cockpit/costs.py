"""The costs page and its CSV: the ledger's amounts, of the tenants whose costs the viewer may see."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from billing.exports import costs_csv
from billing.reports import CostRow, costs_total, tenant_costs
from scheduling.cockpit.navigation import navigation
from scheduling.models import Executor, Mission, Workflow
from tenants.rbac import Permission, principal_of_user, reach

GROUPINGS: Mapping[str, str] = {
    "tenant": "Tenant",
    "workspace": "Workspace",
    "workflow": "Workflow",
    "mission": "Mission",
    "executor": "Executor",
    "model": "Model",
    "failure_class": "Failure class",
}
DAYS_SHOWN = 30


class BadPeriod(Exception):
    """The question cannot be read; the message says what to write instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A grouping and a span of UTC days, the last one included."""

    by: str
    since: date
    last: date


@require_safe
@never_cache
@login_required
def costs(request: HttpRequest) -> HttpResponse:
    """Show the report that the address asks for."""
    tenants = _tenants(request)
    today = datetime.now(UTC).date()
    fault = ""
    try:
        question = _question(request, today)
    except BadPeriod as error:
        question, fault = Question(by="tenant", since=today, last=today), str(error)
    rows = _named(_rows(question, tenants), question.by)
    context = {
        "by": question.by,
        "by_words": GROUPINGS[question.by],
        "groupings": GROUPINGS.items(),
        "since": question.since,
        "last": question.last,
        "rows": rows,
        "total": costs_total(rows),
        "fault": fault,
        **navigation(principal_of_user(request.user)),
    }
    return render(request, "costs.html", context, status=400 if fault else 200)


@require_safe
@never_cache
@login_required
def costs_export(request: HttpRequest) -> HttpResponseBase:
    """Stream the same report as CSV."""
    tenants = _tenants(request)
    try:
        question = _question(request, datetime.now(UTC).date())
    except BadPeriod as error:
        return HttpResponseBadRequest(str(error), content_type="text/plain; charset=utf-8")
    rows = _named(_rows(question, tenants), question.by)
    name = f"costs-by-{question.by}-{question.since}-to-{question.last}.csv"
    return StreamingHttpResponse(
        list(costs_csv(rows)),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _tenants(request: HttpRequest) -> frozenset[uuid.UUID] | None:
    """Return the tenants whose whole costs the person may see; a person of none is refused."""
    seen = reach(principal_of_user(request.user), Permission.COSTS)
    if seen.everywhere:
        return None
    if not seen.tenants:
        raise PermissionDenied
    return seen.tenants


def _question(request: HttpRequest, today: date) -> Question:
    by = request.GET.get("by", "tenant")
    if by not in GROUPINGS:
        message = f"Group by one of: {', '.join(GROUPINGS)}."
        raise BadPeriod(message)
    last = _day(request.GET.get("until", ""), today)
    since = _day(request.GET.get("since", ""), last - timedelta(days=DAYS_SHOWN - 1))
    if since > last:
        message = "The first day is after the last one."
        raise BadPeriod(message)
    return Question(by=by, since=since, last=last)


def _day(text: str, default: date) -> date:
    try:
        day = date.fromisoformat(text) if text else default
    except ValueError as error:
        message = "Write days as YYYY-MM-DD, for example 2026-11-29."
        raise BadPeriod(message) from error
    if not date(2000, 1, 1) <= day <= date(9998, 12, 31):
        message = "Days lie between 2000-01-01 and 9998-12-31."
        raise BadPeriod(message)
    return day


def _rows(question: Question, tenants: frozenset[uuid.UUID] | None) -> list[CostRow]:
    return tenant_costs(
        tenants=tenants,
        since=datetime.combine(question.since, time.min, UTC),
        until=datetime.combine(question.last + timedelta(days=1), time.min, UTC),
        by=question.by,
    )


def _named(rows: list[CostRow], by: str) -> list[CostRow]:
    """Give each row its slug where the key is an id of scheduling's things."""
    names = _names([row.key for row in rows if row.key], by)
    return [replace(row, label=row.label or names.get(row.key, row.key)) for row in rows]


def _names(keys: list[str], by: str) -> dict[str, str]:
    if by == "executor":
        found = Executor.objects.filter(pk__in=keys).values_list("pk", "slug")
        return {str(key): slug for key, slug in found}
    if by == "workflow":
        workflows = Workflow.objects.filter(pk__in=keys).values_list("pk", "tenant__slug", "slug")
        return {str(key): f"{tenant}/{slug}" for key, tenant, slug in workflows}
    if by == "mission":
        missions = Mission.objects.filter(pk__in=keys).values_list("pk", "tenant__slug", "slug")
        return {str(key): f"{tenant}/{slug}" for key, tenant, slug in missions}
    return {}
