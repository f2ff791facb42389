"""Prices, budgets and the ledger in the admin: to look things up.

Budgets are set by `billing.services.budgets`, raised by `billing.services.escalations`, rules
published by `billing.services.prices`; all of it is audited.
"""

from django.contrib import admin

from billing.models import (
    Balance,
    Budget,
    BudgetAlert,
    BudgetDefault,
    CostRule,
    Escalation,
    LedgerEntry,
    Rate,
    Reservation,
    WebhookDelivery,
    WebhookEndpoint,
)
from tenants.admin import ReadOnly


@admin.register(CostRule)
class CostRuleAdmin(ReadOnly):
    """Versions of prices, by model."""

    list_display = ("provider", "model", "starts_at", "source", "long_context")
    list_filter = ("provider",)
    search_fields = ("provider", "model")


@admin.register(Rate)
class RateAdmin(ReadOnly):
    """The prices of single meters."""

    list_display = ("rule", "meter", "amount", "per", "above_tokens")
    list_select_related = ("rule",)
    list_filter = ("meter",)
    search_fields = ("rule__provider", "rule__model")


@admin.register(Budget)
class BudgetAdmin(ReadOnly):
    """Ceilings."""

    list_display = (
        "tenant",
        "scope",
        "scope_id",
        "dimension",
        "limit",
        "window",
        "timezone",
        "anchor",
    )
    list_select_related = ("tenant",)
    list_filter = ("scope", "dimension", "window")
    search_fields = ("tenant__slug", "scope_id")


@admin.register(BudgetDefault)
class BudgetDefaultAdmin(ReadOnly):
    """What new members, workspaces, workflows and missions get."""

    list_display = ("tenant", "scope", "dimension", "limit", "window", "timezone", "anchor")
    list_select_related = ("tenant",)
    list_filter = ("scope", "dimension", "window")
    search_fields = ("tenant__slug",)


@admin.register(Escalation)
class EscalationAdmin(ReadOnly):
    """Raises, past and present."""

    list_display = ("budget", "extra", "owner", "starts_at", "ends_at", "reason")
    list_select_related = ("budget",)
    search_fields = ("budget__tenant__slug", "owner")


@admin.register(BudgetAlert)
class BudgetAlertAdmin(ReadOnly):
    """Marks that were reached, newest first."""

    list_display = ("at", "tenant", "budget", "window_start", "percent", "spent", "limit")
    list_select_related = ("tenant", "budget")
    list_filter = ("percent",)
    search_fields = ("tenant__slug",)


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(ReadOnly):
    """Where alerts go; added, rotated and removed over the API, which tells the secret once."""

    list_display = ("id", "tenant", "url", "created_at")
    list_select_related = ("tenant",)
    search_fields = ("tenant__slug", "url")


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnly):
    """What was sent, and what became of it."""

    list_display = ("id", "endpoint", "state", "tries", "next_at", "answer")
    list_select_related = ("endpoint",)
    list_filter = ("state",)
    search_fields = ("endpoint__tenant__slug",)


@admin.register(Balance)
class BalanceAdmin(ReadOnly):
    """What is held and spent, by budget and window."""

    list_display = ("budget", "window_start", "held", "spent")
    list_select_related = ("budget",)
    search_fields = ("budget__tenant__slug", "budget__scope_id")


@admin.register(Reservation)
class ReservationAdmin(ReadOnly):
    """What jobs hold or held."""

    list_display = ("job_id", "tenant", "workspace", "state", "spend", "tokens", "expires_at")
    list_select_related = ("tenant", "workspace")
    list_filter = ("state",)
    search_fields = ("job_id__exact",)


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ReadOnly):
    """Charges, newest first."""

    list_display = (
        "at", "tenant", "workspace", "provider", "model", "kind", "meter", "quantity", "amount",
    )  # fmt: skip
    list_select_related = ("tenant", "workspace")
    list_filter = ("kind", "meter")
    search_fields = ("job_id__exact", "attempt_id__exact", "tenant__slug")
    ordering = ("-at", "-id")
    show_full_result_count = False
