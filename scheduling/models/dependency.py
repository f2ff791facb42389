"""What a job waits for: other jobs, each with the end that it needs of them.

Hot query: an ended job's open dependants, asked at each settlement: `dependency_on`. It is whole,
for forgetting a job asks for all of them; where nothing waits for a job nothing is read but it.
"""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from scheduling.core.states import Condition
from scheduling.models.job import Job

CONDITIONS = [condition.value for condition in Condition]


class JobDependency(models.Model):
    """`job` waits for `on` to end as the condition says (`scheduling.core.states.Condition`).

    `open` until it is met. One that can be met no more stays open: its job is canceled, and waits
    for it again if both are put back.
    """

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, models.CASCADE, db_index=False, related_name="dependencies")
    on = models.ForeignKey(Job, models.CASCADE, db_index=False, related_name="dependants")
    condition = models.CharField(max_length=8, choices=[(c, c) for c in CONDITIONS])
    open = models.BooleanField()

    class Meta:
        """Constraints and index."""

        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "on"], name="dependency_once"),
            models.CheckConstraint(
                condition=Q(condition__in=CONDITIONS), name="dependency_condition_known"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["on"], name="dependency_on"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} after {self.on_id}"
