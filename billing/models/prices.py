"""Price rules: immutable, dated versions of what each meter of a model costs."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from billing.core.terms import METERS
from billing.models.columns import money
from tenants.ids import new_id


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
