"""The rows behind the processes: the governor's lease and the workers that are alive."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class GovernorLease(models.Model):
    """Who leads, until when (database time), and in which epoch. Each dispatch checks the epoch."""

    name = models.CharField(max_length=30, primary_key=True)
    holder = models.CharField(max_length=200)
    epoch = models.PositiveBigIntegerField(default=0)
    expires_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.name} {self.epoch} {self.holder}"


class Worker(models.Model):
    """One worker process. It holds the session advisory lock of its id while it lives."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=200)
    queues = models.JSONField()
    threads = models.PositiveIntegerField()
    started_at = models.DateTimeField(db_default=Now(), editable=False)
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        """Order and index: the live ones are read by when they were last seen."""

        ordering: ClassVar = ["id"]
        indexes: ClassVar = [models.Index(fields=["seen_at"], name="worker_seen")]

    def __str__(self) -> str:
        return self.name
