"""The ledger: every charge, append-only."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from billing.core.terms import AMOUNTS, METERS, NAME_LENGTH
from billing.models.columns import money
from billing.models.prices import CostRule
from tenants.ids import new_id
from tenants.models import Tenant, Workspace


class LedgerEntry(models.Model):
    """One charge, or a correction of one. Append-only (a trigger holds it).

    `at` is when it was booked; `dispatched_at` is when the attempt was dispatched, which decides
    the price, the budget window and the period of a report.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField(db_default=Now(), editable=False)
    dispatched_at = models.DateTimeField()
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    member_id = models.CharField(max_length=NAME_LENGTH, blank=True)
    workflow_id = models.UUIDField()
    mission_id = models.UUIDField(null=True)
    job_id = models.UUIDField()
    attempt_id = models.UUIDField()
    executor_id = models.UUIDField(null=True)
    provider = models.CharField(max_length=60)
    model = models.CharField(max_length=200)
    kind = models.CharField(max_length=11, choices=[(a, a) for a in AMOUNTS])
    meter = models.CharField(max_length=20, choices=[(m, m) for m in METERS])
    quantity = models.DecimalField(max_digits=24, decimal_places=6)
    amount = money()
    rule = models.ForeignKey(CostRule, models.PROTECT, db_index=False, related_name="+")
    source_event = models.CharField(max_length=100, default="attempt")
    failure_class = models.CharField(max_length=30, blank=True)
    flags = models.JSONField(default=list)

    class Meta:
        """Constraints and indexes."""

        ordering: ClassVar = ["at", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["attempt_id", "meter", "source_event"], name="ledger_once"
            ),
            models.CheckConstraint(condition=Q(kind__in=AMOUNTS), name="ledger_kind_known"),
            models.CheckConstraint(condition=Q(meter__in=METERS), name="ledger_meter_known"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "dispatched_at"], name="ledger_tenant_dispatched"),
            models.Index(fields=["job_id"], name="ledger_job"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt_id} {self.meter} {self.amount}"
