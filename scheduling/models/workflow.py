"""Workflows (named kinds of work of a tenant) and missions (goals that group jobs)."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from scheduling.models.pool import Pool
from tenants.ids import new_id
from tenants.models import Tenant

RISKS = ["low", "medium", "high", "critical"]


class Workflow(models.Model):
    """Cost is a property of the (tenant, workflow) pair; class, risk and review are defaults."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="workflows")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="workflows")
    slug = models.SlugField(max_length=63)
    name = models.CharField(max_length=200)
    cost = models.PositiveIntegerField(default=1)
    expected_s = models.FloatField(null=True, blank=True)
    job_class = models.CharField(max_length=30, blank=True)
    capability = models.CharField(max_length=60, blank=True)
    risk = models.CharField(max_length=8, choices=[(r, r) for r in RISKS], default="low")
    needs_review = models.BooleanField(default=False)
    max_running = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["slug", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "slug"], name="workflow_slug_in_tenant"),
            models.CheckConstraint(condition=Q(cost__gte=1), name="workflow_cost_positive"),
            models.CheckConstraint(
                condition=Q(expected_s=None) | Q(expected_s__gt=0), name="workflow_expected_s"
            ),
            models.CheckConstraint(condition=Q(risk__in=RISKS), name="workflow_risk_known"),
            models.CheckConstraint(
                condition=Q(max_running=None) | Q(max_running__gte=1),
                name="workflow_max_running",
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class Mission(models.Model):
    """A goal that groups jobs; cost and outcome roll up to it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="missions")
    slug = models.SlugField(max_length=63)
    name = models.CharField(max_length=200)

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["slug", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "slug"], name="mission_slug_in_tenant")
        ]

    def __str__(self) -> str:
        return self.slug
