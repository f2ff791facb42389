"""A raise of one limit from a moment to another, with who answers for it and why."""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from scheduling.models.limit import (
    COLUMN_SCOPES,
    MEASURES,
    RATE_SCOPES,
    REQUESTS,
    RUNNING,
    RUNNING_SCOPES,
    TOKENS,
)
from tenants.escalations import EscalationRow
from tenants.ids import new_id

RAISE_SCOPES = sorted({*RUNNING_SCOPES, *COLUMN_SCOPES, *RATE_SCOPES})


class LimitRaise(EscalationRow):
    """`extra` more of `measure` in one scope; it ends by time alone, or earlier by moving its end.

    `scope_id` is as `Limit` tells, or the id of a workspace or workflow. What is raised is named,
    not pointed at: some limits are columns, and one that is set anew meanwhile is raised too.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    scope = models.CharField(max_length=10, choices=[(s, s) for s in RAISE_SCOPES])
    scope_id = models.CharField(max_length=200)
    measure = models.CharField(max_length=20, choices=[(m, m) for m in MEASURES])
    extra = models.PositiveBigIntegerField()

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(extra__gte=1), name="limit_raise_raises"),
            models.CheckConstraint(
                condition=Q(ends_at__gte=F("starts_at")), name="limit_raise_ends_after_start"
            ),
            models.CheckConstraint(
                condition=Q(measure=RUNNING, scope__in=[*RUNNING_SCOPES, *COLUMN_SCOPES])
                | Q(measure__in=[REQUESTS, TOKENS], scope__in=RATE_SCOPES),
                name="limit_raise_measure_of_scope",
            ),
        ]

    def __str__(self) -> str:
        until = self.ends_at.isoformat()
        return f"{self.scope} {self.scope_id}: +{self.extra} {self.measure} until {until}"
