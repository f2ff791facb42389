"""Alerts: a budget's spending reached a mark; who wants to hear of it, and what was sent to whom.

The deliveries are an outbox: a row is made in the transaction of the alert and sent later, as often
as it takes, under one id by which the receiver knows a repeat.
"""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from billing.core.terms import DELIVERY_STATES
from billing.models.budgets import Budget
from billing.models.columns import measure
from tenants.ids import new_id
from tenants.models import Tenant


class BudgetAlert(models.Model):
    """A budget's spending reached `percent` of its limit; told once a window."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now(), editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False, related_name="+")
    budget = models.ForeignKey(Budget, models.CASCADE, db_index=False, related_name="alerts")
    window_start = models.DateTimeField()
    percent = models.PositiveSmallIntegerField()
    limit = measure()
    spent = measure()

    class Meta:
        """Constraints and indexes."""

        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["budget", "window_start", "percent"], name="budget_alert_once"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["tenant", "-id"], name="budget_alert_of_tenant")]

    def __str__(self) -> str:
        return f"{self.budget_id} {self.percent} %"


class WebhookEndpoint(models.Model):
    """Where a tenant's alerts are sent.

    The secret that signs them is derived from this row and the server's own secret, so that none
    is stored; `generation` changes it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False, related_name="webhooks")
    url = models.CharField(max_length=500)
    generation = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "url"], name="webhook_url_once"),
        ]

    def __str__(self) -> str:
        return str(self.id)


class WebhookDelivery(models.Model):
    """One alert on its way to one endpoint; its id is the receiver's guard against repeats."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    endpoint = models.ForeignKey(
        WebhookEndpoint, models.CASCADE, db_index=False, related_name="deliveries"
    )
    alert = models.ForeignKey(BudgetAlert, models.CASCADE, related_name="deliveries")
    state = models.CharField(
        max_length=9, choices=[(s, s) for s in DELIVERY_STATES], default="pending"
    )
    tries = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True)
    answer = models.CharField(max_length=200, blank=True)

    class Meta:
        """Constraints and indexes."""

        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["endpoint", "alert"], name="delivery_once"),
            models.CheckConstraint(
                condition=Q(state="pending", ended_at=None)
                | (Q(state__in=["delivered", "failed"]) & Q(ended_at__isnull=False)),
                name="delivery_ended_when_not_pending",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["next_at"], condition=Q(state="pending"), name="delivery_due"),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.state}"
