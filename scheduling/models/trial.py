"""Trials of a policy on the backlog that was there when they ran."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.ids import new_id

TRIAL_STATES = ["asked", "running", "done", "failed"]


class PolicyTrial(models.Model):
    """`number` is the version that was tried, with its settings as they were then in `body`.

    `against` is the version in force at that moment. `result` is the comparison of a trial that is
    done; `sentence` says what kept one that failed. A draft may be rewritten or deleted, so it is
    named, not pointed at.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    number = models.PositiveIntegerField()
    body = models.JSONField()
    state = models.CharField(
        max_length=7, choices=[(s, s) for s in TRIAL_STATES], default=TRIAL_STATES[0]
    )
    against = models.PositiveIntegerField(null=True)
    result = models.JSONField(null=True)
    sentence = models.TextField(default="")
    asked_by = models.CharField(max_length=200)
    asked_at = models.DateTimeField(db_default=Now(), editable=False)
    began_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(state__in=TRIAL_STATES), name="trial_state_known"),
            models.CheckConstraint(
                condition=~Q(state="done") | Q(result__isnull=False), name="trial_done_has_result"
            ),
            models.UniqueConstraint(
                fields=["number"],
                condition=Q(state__in=["asked", "running"]),
                name="one_open_trial_a_version",
            ),
        ]

    def __str__(self) -> str:
        return f"trial of policy {self.number} ({self.state})"

    @property
    def is_open(self) -> bool:
        """Whether its answer is still to come."""
        return self.state in ("asked", "running")
