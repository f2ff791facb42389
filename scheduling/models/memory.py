"""The durable service memory of the fair order (DESIGN 4.1)."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from scheduling.models.pool import Pool
from tenants.ids import new_id
from tenants.models import Tenant, Workspace


class ServiceMemory(models.Model):
    """One row a (pool, class), a (pool, class, tenant) and a (pool, class, tenant, workspace).

    Fields as in `scheduling.core.types.Memory`. Written by the leading governor alone, in the
    statement that dispatches.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.CASCADE, related_name="+")
    job_class = models.CharField(max_length=30)
    tenant = models.ForeignKey(Tenant, models.CASCADE, null=True, related_name="+")
    workspace = models.ForeignKey(Workspace, models.CASCADE, null=True, related_name="+")
    turn = models.BigIntegerField(default=0)
    used = models.BigIntegerField(default=0)
    lifts = models.PositiveIntegerField(default=0)
    top = models.BigIntegerField(default=0)
    backlogged = models.BooleanField(default=False)
    last_placed_at = models.DateTimeField(null=True)

    class Meta:
        """Constraints."""

        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["pool", "job_class", "tenant", "workspace"],
                name="memory_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(condition=Q(used__gte=0), name="memory_used_not_negative"),
            models.CheckConstraint(
                condition=Q(tenant__isnull=False) | Q(workspace=None),
                name="memory_workspace_has_tenant",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_class} {self.turn}+{self.used}"
