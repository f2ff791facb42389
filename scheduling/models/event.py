"""Job events: the story of each job, append-only, in order.

Indexes: one job's story by (job, id); the newest of a tenant by (tenant, -id).

The books (events, attempts, decisions, reservations, ledger) name jobs, tenants and workspaces without foreign
keys in the database: whoever writes a row of them has the job's own row, which has those keys, locked
or stores it in the same statement, and only retention deletes jobs, their books first. Checking
those keys, and some indexes that went with them, was a fifth of the server's work for a job.
"""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from scheduling.models.job import Job
from tenants.models import Tenant


class JobEvent(models.Model):
    """What happened to a job, with its reason and the facts."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(
        Job, models.CASCADE, db_index=False, db_constraint=False, related_name="events"
    )
    tenant = models.ForeignKey(
        Tenant, models.CASCADE, db_index=False, db_constraint=False, related_name="+"
    )
    attempt_id = models.UUIDField(null=True)
    event = models.CharField(max_length=30)
    reason = models.CharField(max_length=30, blank=True)
    at = models.DateTimeField(db_default=Now(), editable=False)
    data = models.JSONField(default=dict)

    class Meta:
        """Order and indexes."""

        ordering: ClassVar = ["id"]
        indexes: ClassVar = [
            models.Index(fields=["job", "id"], name="event_of_job"),
            models.Index(fields=["tenant", "-id"], name="event_of_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} {self.event}"
