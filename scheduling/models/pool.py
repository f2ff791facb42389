"""A pool: a capacity domain with a budget of units and an incident reserve."""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from tenants.ids import new_id


class Pool(models.Model):
    """`budget` units in all, `reserve` of them for reserve classes and control work."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    budget = models.PositiveIntegerField()
    reserve = models.PositiveIntegerField(default=0)

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["slug", "id"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(reserve__lte=F("budget")), name="pool_reserve_within_budget"
            )
        ]

    def __str__(self) -> str:
        return self.slug
