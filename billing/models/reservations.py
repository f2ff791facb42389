"""What admitted jobs hold of their budgets.

A reservation is stored together with its lines and its job, so the database checks no keys among
them; a budget may be deleted while it is held, so that key is checked.
"""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from billing.core.terms import RESERVATION_STATES
from billing.models.budgets import Budget
from billing.models.columns import measure, money
from tenants.ids import new_id
from tenants.models import Tenant, Workspace


class Reservation(models.Model):
    """What an admitted job holds of its budgets until it is settled or released."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        Tenant, models.CASCADE, db_index=False, db_constraint=False, related_name="+"
    )
    workspace = models.ForeignKey(
        Workspace, models.CASCADE, db_index=False, db_constraint=False, related_name="+"
    )
    job_id = models.UUIDField()
    workflow_id = models.UUIDField(null=True)
    mission_id = models.UUIDField(null=True)
    spend = money()
    tokens = models.PositiveBigIntegerField()
    state = models.CharField(
        max_length=8, choices=[(s, s) for s in RESERVATION_STATES], default="open"
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        """Constraints and indexes."""

        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["job_id"], condition=Q(state="open"), name="one_open_reservation_a_job"
            ),
            models.CheckConstraint(condition=Q(spend__gte=0), name="reservation_not_negative"),
            models.CheckConstraint(
                condition=Q(state="open", closed_at=None)
                | (Q(state__in=["settled", "released"]) & Q(closed_at__isnull=False)),
                name="reservation_closed_when_not_open",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["expires_at"], condition=Q(state="open"), name="reservation_open_expiry"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} {self.state} {self.spend}"


class ReservationLine(models.Model):
    """The part of a reservation that one budget holds, in the window in which it was made."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    reservation = models.ForeignKey(
        Reservation, models.CASCADE, db_index=False, db_constraint=False, related_name="lines"
    )
    budget = models.ForeignKey(Budget, models.CASCADE, related_name="+")
    window_start = models.DateTimeField()
    amount = measure()

    class Meta:
        """Constraints."""

        constraints: ClassVar = [
            models.UniqueConstraint(fields=["reservation", "budget"], name="line_once"),
            models.CheckConstraint(condition=Q(amount__gte=0), name="line_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.budget_id} {self.amount}"
