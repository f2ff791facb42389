"""Ceilings: budgets, the defaults that make them, what raises them, and their cached balances."""

from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from billing.core.terms import (
    DEFAULT_SCOPES,
    DIMENSIONS,
    MOST_ANCHOR,
    NAME_LENGTH,
    SCOPES,
    WINDOWS,
)
from billing.models.columns import measure
from tenants.escalations import EscalationRow
from tenants.ids import new_id
from tenants.models import Tenant


def _window_checks(name: str) -> list[models.BaseConstraint]:
    """Return what both budgets and their defaults keep to; `name` begins the constraints' names."""
    return [
        models.CheckConstraint(condition=Q(limit__gte=0), name=f"{name}_limit_not_negative"),
        models.CheckConstraint(
            condition=Q(dimension__in=DIMENSIONS), name=f"{name}_dimension_known"
        ),
        models.CheckConstraint(condition=Q(window__in=WINDOWS), name=f"{name}_window_known"),
        models.CheckConstraint(
            condition=Q(anchor=1)
            | Q(window="week", anchor__gte=1, anchor__lte=7)
            | Q(window="month", anchor__gte=1, anchor__lte=MOST_ANCHOR),
            name=f"{name}_anchor_in_window",
        ),
    ]


class BudgetDefault(models.Model):
    """The ceiling that each member, workspace, workflow or mission of a tenant gets on first use.

    Changing or removing it changes no budget that was made by it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(
        Tenant, models.CASCADE, db_index=False, related_name="budget_defaults"
    )
    scope = models.CharField(max_length=10, choices=[(s, s) for s in DEFAULT_SCOPES])
    dimension = models.CharField(max_length=20, choices=[(d, d) for d in DIMENSIONS])
    limit = measure()
    window = models.CharField(max_length=5, choices=[(w, w) for w in WINDOWS], default="none")
    timezone = models.CharField(max_length=63, default="UTC")
    anchor = models.PositiveSmallIntegerField(default=1)

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "scope", "dimension", "window"], name="budget_default_once"
            ),
            models.CheckConstraint(
                condition=Q(scope__in=DEFAULT_SCOPES), name="budget_default_scope_known"
            ),
            *_window_checks("budget_default"),
        ]

    def __str__(self) -> str:
        return f"each {self.scope} {self.dimension} {self.limit}/{self.window}"


class Budget(models.Model):
    """A ceiling of one dimension for one scope, per window derived from time.

    `anchor` is the day on which its weeks (1 Monday to 7) or months (1 to 28) begin. The scope
    `attempt` caps what any one attempt may ask for of what `scope_id` names: a tenant, workspace,
    member, workflow or mission.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="budgets")
    scope = models.CharField(max_length=10, choices=[(s, s) for s in SCOPES])
    scope_id = models.CharField(max_length=NAME_LENGTH)
    dimension = models.CharField(max_length=20, choices=[(d, d) for d in DIMENSIONS])
    limit = measure()
    window = models.CharField(max_length=5, choices=[(w, w) for w in WINDOWS], default="none")
    timezone = models.CharField(max_length=63, default="UTC")
    anchor = models.PositiveSmallIntegerField(default=1)

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["scope", "scope_id", "tenant", "dimension", "window"],
                name="budget_of_scope",
            ),
            models.CheckConstraint(condition=Q(scope__in=SCOPES), name="budget_scope_known"),
            models.CheckConstraint(
                condition=~Q(scope="attempt") | Q(window="none"), name="budget_attempt_no_window"
            ),
            *_window_checks("budget"),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.scope_id} {self.dimension} {self.limit}/{self.window}"

    def escalations_at(self, now: datetime) -> list["Escalation"]:
        """Return the raises in force, oldest first; one query unless they were prefetched."""
        return [one for one in self.escalations.all() if one.starts_at <= now < one.ends_at]

    def limit_at(self, now: datetime) -> Decimal:
        """Return the ceiling with what is in force on top of it."""
        return sum((one.extra for one in self.escalations_at(now)), self.limit)


class Escalation(EscalationRow):
    """A raise of one budget from a moment to another, with who answers for it and why.

    It ends by time alone, or earlier by moving its end; the row stays.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    budget = models.ForeignKey(Budget, models.CASCADE, related_name="escalations")
    extra = measure()

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(extra__gt=0), name="escalation_raises"),
            models.CheckConstraint(
                condition=Q(ends_at__gte=F("starts_at")), name="escalation_ends_after_start"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.budget_id} +{self.extra} until {self.ends_at.isoformat()}"


class Balance(models.Model):
    """The cached sums of one budget in one window; rebuilt from reservations and ledger."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    budget = models.ForeignKey(Budget, models.CASCADE, db_index=False, related_name="balances")
    window_start = models.DateTimeField()
    held = measure(default=0)
    spent = measure(default=0)

    class Meta:
        """Constraints."""

        constraints: ClassVar = [
            models.UniqueConstraint(fields=["budget", "window_start"], name="balance_once"),
            models.CheckConstraint(condition=Q(held__gte=0), name="balance_held_not_negative"),
            models.CheckConstraint(condition=Q(spent__gte=0), name="balance_spent_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.budget_id} held {self.held} spent {self.spent}"
