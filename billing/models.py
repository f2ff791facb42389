"""What it costs: dated price rules, budgets, reservations, and the append-only ledger.

Only this app imports these models; the others go through `billing.services` and
`billing.reports`. Jobs, attempts, workflows and missions are named by id alone, for billing knows
nothing of scheduling.

Hot queries and their indexes: the price of (provider, model) at an instant (`cost_rule_version`,
unique, read backwards); all budgets of a chain of scopes (`budget_of_scope`); the balance of a
budget in a window (`balance_once`, unique); the open reservations by expiry
(`reservation_open_expiry`, partial); a tenant's ledger by time of dispatch
(`ledger_tenant_dispatched`), one job's (`ledger_job`), and the guard that a usage event is booked
once (`ledger_once`, unique). A foreign key that one of these covers, or that no query goes by, has
no index of its own.
"""

from decimal import Decimal
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.ids import new_id
from tenants.models import Tenant, Workspace

METERS = [
    "input", "output", "cached_read", "cached_write", "reasoning", "tool_calls", "external_api",
    "worker_seconds", "environment", "storage", "network", "retrieval", "evaluation", "ci",
    "delivery", "review_minutes",
]  # fmt: skip
DIMENSIONS = [
    "tokens", "spend", "wall_seconds", "attempts", "tool_calls", "environment_seconds",
    "storage_byte_hours", "network_bytes", "review_minutes",
]  # fmt: skip
SCOPES = ["tenant", "workspace", "member", "workflow", "mission", "job", "attempt"]
WINDOWS = ["none", "hour", "day", "week", "month"]
AMOUNTS = ["incurred", "wasted", "avoided", "unallocated"]
RESERVATION_STATES = ["open", "settled", "released"]


def money(**options: object) -> "models.DecimalField[Decimal | int, Decimal]":
    """Return a numeric column fit for prices of single tokens (12 decimal places)."""
    return models.DecimalField(max_digits=24, decimal_places=12, **options)  # type: ignore[arg-type]


class CostRule(models.Model):
    """One immutable, dated version of the prices of a (provider, model). The start is inclusive.

    Model "*" prices whatever a provider runs. A rule without rates of a meter prices it at 0; a
    model without any rule is unpriced, which is not 0.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    provider = models.CharField(max_length=60)
    model = models.CharField(max_length=200)
    starts_at = models.DateTimeField()
    source = models.CharField(max_length=200)
    note = models.TextField(blank=True)
    long_context = models.CharField(
        max_length=8, choices=[("whole", "whole request"), ("overflow", "overflow")],
        default="whole",
    )  # fmt: skip

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["provider", "model", "-starts_at", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["provider", "model", "starts_at"], name="cost_rule_version"
            )
        ]

    def __str__(self) -> str:
        return f"{self.provider}/{self.model} from {self.starts_at:%Y-%m-%d}"


class Rate(models.Model):
    """The price of `per` units of one meter, for requests of more than `above_tokens` input."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    rule = models.ForeignKey(CostRule, models.CASCADE, related_name="rates")
    meter = models.CharField(max_length=20, choices=[(m, m) for m in METERS])
    per = models.PositiveBigIntegerField(default=1_000_000)
    amount = money()
    above_tokens = models.PositiveBigIntegerField(default=0)

    class Meta:
        """Constraints."""

        constraints: ClassVar = [
            models.UniqueConstraint(fields=["rule", "meter", "above_tokens"], name="rate_once"),
            models.CheckConstraint(condition=Q(amount__gte=0), name="rate_not_negative"),
            models.CheckConstraint(condition=Q(per__gte=1), name="rate_per_positive"),
            models.CheckConstraint(condition=Q(meter__in=METERS), name="rate_meter_known"),
        ]

    def __str__(self) -> str:
        return f"{self.meter} {self.amount}/{self.per}"


class Budget(models.Model):
    """A ceiling of one dimension for one scope, per window derived from time."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="budgets")
    scope = models.CharField(max_length=10, choices=[(s, s) for s in SCOPES])
    scope_id = models.CharField(max_length=64)
    dimension = models.CharField(max_length=20, choices=[(d, d) for d in DIMENSIONS])
    limit = money()
    window = models.CharField(max_length=5, choices=[(w, w) for w in WINDOWS], default="none")
    timezone = models.CharField(max_length=63, default="UTC")

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["scope", "scope_id", "tenant", "dimension", "window"],
                name="budget_of_scope",
            ),
            models.CheckConstraint(condition=Q(limit__gte=0), name="budget_limit_not_negative"),
            models.CheckConstraint(condition=Q(scope__in=SCOPES), name="budget_scope_known"),
            models.CheckConstraint(
                condition=Q(dimension__in=DIMENSIONS), name="budget_dimension_known"
            ),
            models.CheckConstraint(condition=Q(window__in=WINDOWS), name="budget_window_known"),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.scope_id} {self.dimension} {self.limit}/{self.window}"


class Balance(models.Model):
    """The cached sums of one budget in one window; rebuilt from reservations and ledger."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    budget = models.ForeignKey(Budget, models.CASCADE, db_index=False, related_name="balances")
    window_start = models.DateTimeField()
    held = money(default=0)
    spent = money(default=0)

    class Meta:
        """Constraints."""

        constraints: ClassVar = [
            models.UniqueConstraint(fields=["budget", "window_start"], name="balance_once"),
            models.CheckConstraint(condition=Q(held__gte=0), name="balance_held_not_negative"),
            models.CheckConstraint(condition=Q(spent__gte=0), name="balance_spent_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.budget_id} held {self.held} spent {self.spent}"


class Reservation(models.Model):
    """What an admitted job holds of its budgets until it is settled or released."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, db_index=False, related_name="+")
    workspace = models.ForeignKey(Workspace, models.CASCADE, db_index=False, related_name="+")
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
        Reservation, models.CASCADE, db_index=False, related_name="lines"
    )
    budget = models.ForeignKey(Budget, models.CASCADE, related_name="+")
    window_start = models.DateTimeField()
    amount = money()

    class Meta:
        """Constraints."""

        constraints: ClassVar = [
            models.UniqueConstraint(fields=["reservation", "budget"], name="line_once"),
            models.CheckConstraint(condition=Q(amount__gte=0), name="line_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.budget_id} {self.amount}"


class LedgerEntry(models.Model):
    """One charge, or a correction of one. Append-only (a trigger holds it).

    `at` is when it was booked; `dispatched_at` is when the attempt was dispatched, which decides
    the price, the budget window and the period of a report.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField(db_default=Now(), editable=False)
    dispatched_at = models.DateTimeField()
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False, related_name="+")
    workspace = models.ForeignKey(Workspace, models.PROTECT, db_index=False, related_name="+")
    member_id = models.CharField(max_length=64, blank=True)
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
