"""Decisions: the append-only answers of admission, and why."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from scheduling.core.types import Verdict
from scheduling.models.job import Job

VERDICTS = [verdict.value for verdict in Verdict]


class Decision(models.Model):
    """`policy` is the policy's number, `control` that of the last lever change it was made under.

    `alternatives` say what would admit the job, each as {action, sentence}. `escalations` are the raises of
    budgets without which it would not have fitted (null: none was needed).
    """

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(
        Job, models.CASCADE, db_index=False, db_constraint=False, related_name="decisions"
    )
    verdict = models.CharField(max_length=8, choices=[(v, v) for v in VERDICTS])
    reason = models.CharField(max_length=30)
    sentence = models.TextField()
    policy = models.PositiveIntegerField()
    control = models.PositiveBigIntegerField()
    reservation_id = models.UUIDField(null=True)
    expires_at = models.DateTimeField(null=True)
    retry_at = models.DateTimeField(null=True)
    place = models.PositiveIntegerField(null=True)
    eta = models.DateTimeField(null=True)
    alternatives = models.JSONField(default=list)
    escalations = models.JSONField(null=True)
    at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        """Order, constraint and index."""

        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(verdict__in=VERDICTS), name="decision_verdict_known"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["job", "id"], name="decision_of_job")]

    def __str__(self) -> str:
        return f"{self.job_id} {self.verdict}"
