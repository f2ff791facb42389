"""A circuit: whether calls of an executor's key, or of one model there, are let through.

Hot queries and their indexes: settling asks for the circuits of (executor, model) and of the
executor's key, by the unique index; the governor reads all rows, of which there are few: only what
has failed has one.
"""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from scheduling.models.executor import Executor

CIRCUITS = ["closed", "open", "half_open"]


class Circuit(models.Model):
    """The breaker's state, written with each settle that concerns it.

    `model` "" is the circuit of the executor's key, which stands for all of its models.
    `failures` counts those in a row while closed; `until` is when the rest is over.
    """

    id = models.BigAutoField(primary_key=True)
    executor = models.ForeignKey(Executor, models.CASCADE, db_index=False, related_name="circuits")
    model = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=9, choices=[(c, c) for c in CIRCUITS], default="closed")
    failures = models.PositiveIntegerField(default=0)
    until = models.DateTimeField(null=True, blank=True)

    class Meta:
        """Constraints, which are the index too."""

        ordering: ClassVar = ["executor", "model"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["executor", "model"], name="circuit_once"),
            models.CheckConstraint(condition=Q(state__in=CIRCUITS), name="circuit_state_known"),
            models.CheckConstraint(
                condition=Q(state="closed") | Q(until__isnull=False), name="circuit_open_has_end"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.executor_id} {self.model or 'key'} {self.state}"
