"""Policy versions: numbered, immutable settings of the scheduler."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

POLICY_STATES = ["draft", "active", "retired"]


class PolicyVersion(models.Model):
    """`body` is what `scheduling.core.policy.settings.policy_from_dict` reads. One is active."""

    number = models.PositiveIntegerField(primary_key=True)
    state = models.CharField(max_length=8, choices=[(s, s) for s in POLICY_STATES])
    body = models.JSONField()
    note = models.TextField()
    author = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    published_at = models.DateTimeField(null=True)

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["-number"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["state"], condition=Q(state="active"), name="one_active_policy"
            ),
            models.CheckConstraint(condition=Q(state__in=POLICY_STATES), name="policy_state_known"),
            models.CheckConstraint(
                condition=Q(state="draft") | Q(published_at__isnull=False),
                name="policy_published_has_time",
            ),
        ]

    def __str__(self) -> str:
        return f"policy {self.number} ({self.state})"
