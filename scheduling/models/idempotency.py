"""Remembered answers to writes that carried an Idempotency-Key."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from tenants.ids import new_id
from tenants.models import Workspace


class IdempotencyRecord(models.Model):
    """The answer to one (workspace, key); `fingerprint` is the hash of what was asked."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        """Constraints and index (by age, for the clean-up)."""

        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "key"], name="idempotency_key_once")
        ]
        indexes: ClassVar = [models.Index(fields=["created_at"], name="idempotency_age")]

    def __str__(self) -> str:
        return self.key
