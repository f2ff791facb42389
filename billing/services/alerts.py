"""Alerts: a row for each mark that a budget's spending reaches, and what is due to whom of it.

They are made in the transaction that books the spending, under the lock of the balance; the unique
key (budget, window, percent) keeps a mark that is reached again, after a changed limit, from being
told twice.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from billing.core.windows import EPOCH
from billing.models import Budget, BudgetAlert, WebhookDelivery
from billing.services.accounts import window_of
from billing.services.raises import plain
from billing.services.sets import array, columns
from billing.services.usage import Crossing

LONGEST_WINDOW = timedelta(days=32)

_RAISE = """
INSERT INTO billing_budgetalert (tenant_id, budget_id, window_start, percent, "limit", spent)
SELECT * FROM unnest(%s::uuid[], %s::uuid[], %s::timestamptz[], %s::int[], %s::numeric[],
    %s::numeric[])
ON CONFLICT (budget_id, window_start, percent) DO NOTHING
RETURNING id, tenant_id, statement_timestamp()
"""
# Locked against removal: an endpoint that went before this transaction's end would undo it.
_ENDPOINTS = """
SELECT id, tenant_id FROM billing_webhookendpoint
WHERE tenant_id = ANY(%s::uuid[]) ORDER BY id FOR KEY SHARE
"""


def alerts_raise(crossed: Iterable[Crossing]) -> None:
    """Write the alerts of these crossings, and a delivery to each endpoint of their tenants."""
    rows = [
        (one.tenant_id, one.budget_id, one.window_start, one.percent, one.limit, one.spent)
        for one in crossed
    ]
    if not rows:
        return
    with connection.cursor() as cursor:
        cursor.execute(_RAISE, columns(rows))
        raised = cursor.fetchall()
        cursor.execute(_ENDPOINTS, [array({row[1] for row in raised})])
        endpoints = cursor.fetchall()
    WebhookDelivery.objects.bulk_create(
        WebhookDelivery(endpoint_id=endpoint, alert_id=alert, next_at=at)
        for alert, tenant, at in raised
        for endpoint, owner in endpoints
        if owner == tenant
    )


def alerts_seen(visible: Q) -> QuerySet[BudgetAlert]:
    """Return the alerts of the tenants that a filter on `tenant` lets through."""
    return BudgetAlert.objects.filter(visible).select_related("tenant", "budget")


def alerts_standing(visible: Q, now: datetime) -> list[BudgetAlert]:
    """Return, for each budget, the highest mark of its present window, the fullest first."""
    highest: dict[Any, BudgetAlert] = {}
    present = Q(window_start__gte=now - LONGEST_WINDOW) | Q(window_start=EPOCH)
    for alert in alerts_seen(visible).filter(present).order_by("percent", "id"):
        if window_of(alert.budget, now).start == alert.window_start:
            highest[alert.budget_id] = alert
    return sorted(highest.values(), key=lambda alert: (-alert.percent, -alert.id))


def alert_told(alert: BudgetAlert) -> dict[str, Any]:
    """Return an alert as the API and the webhooks tell it; its tenant and budget are loaded."""
    budget: Budget = alert.budget
    return {
        "id": alert.id,
        "at": alert.at.isoformat(),
        "tenant": alert.tenant.slug,
        "budget": str(budget.id),
        "scope": budget.scope,
        "scope_id": budget.scope_id,
        "dimension": budget.dimension,
        "window": budget.window,
        "window_start": alert.window_start.isoformat(),
        "percent": alert.percent,
        "limit": plain(alert.limit),
        "spent": plain(alert.spent),
    }
