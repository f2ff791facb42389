"""A limit on what runs at once, or on what is dispatched a minute, of a scope without a column for it.

The running caps of tenants, workspaces and workflows are columns of their own rows.
"""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from tenants.ids import new_id

RUNNING = "running"
REQUESTS = "requests_a_minute"
TOKENS = "tokens_a_minute"
RUNNING_SCOPES = ("global", "pool", "executor", "provider", "user", "key")
RATE_SCOPES = ("provider", "tenant")
COLUMN_SCOPES = ("tenant", "workspace", "workflow")
"""Their running caps are columns of their own rows."""
SCOPES = sorted({*RUNNING_SCOPES, *RATE_SCOPES})
MEASURES = [RUNNING, REQUESTS, TOKENS]
EVERYTHING = "all"
"""The only scope_id of the scope global."""


class Limit(models.Model):
    """At most `value` of `measure` in one scope, over all pools.

    `scope_id` is the id of a pool, executor or tenant, the name of a provider, a user as jobs name
    their submitter, a concurrency key, or `EVERYTHING`.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    scope = models.CharField(max_length=10, choices=[(s, s) for s in SCOPES])
    scope_id = models.CharField(max_length=200)
    measure = models.CharField(max_length=20, choices=[(m, m) for m in MEASURES])
    value = models.PositiveBigIntegerField()

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["scope", "scope_id", "measure"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["scope", "scope_id", "measure"], name="limit_once"),
            models.CheckConstraint(condition=Q(value__gte=1), name="limit_value_positive"),
            models.CheckConstraint(
                condition=Q(measure=RUNNING, scope__in=RUNNING_SCOPES)
                | Q(measure__in=[REQUESTS, TOKENS], scope__in=RATE_SCOPES),
                name="limit_measure_of_scope",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.scope_id}: {self.value} {self.measure}"
