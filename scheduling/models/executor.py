"""An executor: a place where work can run."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from scheduling.models.pool import Pool
from tenants.ids import new_id
from tenants.models import Tenant, Workspace

EXECUTOR_KINDS = [
    "local-model", "remote-model", "cpu-node", "hpc-partition", "k8s", "human", "simulated",
]  # fmt: skip
HUMAN = "human"
"""The kind whose slots are reviewers: so many reviews may lie before them at once."""
HEALTH = ["ok", "degraded", "down"]


class Executor(models.Model):
    """Belongs to one pool; open to everybody, one tenant or one workspace.

    `provider` names the price list; `job_kinds` the kinds of job that it takes; `models_offered` the
    models that it offers, `tools` the tools; `data_classes` the classes of data that it may be
    given; `compute_class` what it runs on. `drain_stops`: as it drains, what may yield goes elsewhere.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="executors")
    tenant = models.ForeignKey(Tenant, models.CASCADE, null=True, blank=True, related_name="+")
    workspace = models.ForeignKey(
        Workspace, models.CASCADE, null=True, blank=True, related_name="+"
    )
    kind = models.CharField(max_length=20, choices=[(k, k) for k in EXECUTOR_KINDS])
    provider = models.CharField(max_length=60)
    endpoint = models.URLField(max_length=500, blank=True)
    job_kinds = ArrayField(models.CharField(max_length=30))
    models_offered = ArrayField(models.CharField(max_length=200), default=list, blank=True)
    region = models.CharField(max_length=60, blank=True)
    labels = ArrayField(models.CharField(max_length=60), default=list, blank=True)
    tools = ArrayField(models.CharField(max_length=60), default=list, blank=True)
    data_classes = ArrayField(models.CharField(max_length=60), default=list, blank=True)
    compute_class = models.CharField(max_length=60, blank=True, default="")
    slots = models.PositiveIntegerField()
    weight = models.PositiveIntegerField(default=1)
    enabled = models.BooleanField(default=True)
    draining = models.BooleanField(default=False)
    drain_stops = models.BooleanField(default=False)
    health = models.CharField(max_length=8, choices=[(h, h) for h in HEALTH], default="ok")

    class Meta:
        """Constraints."""

        ordering: ClassVar = ["slug", "id"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(kind__in=EXECUTOR_KINDS), name="executor_kind_known"
            ),
            models.CheckConstraint(condition=Q(health__in=HEALTH), name="executor_health_known"),
            models.CheckConstraint(condition=Q(weight__gte=1), name="executor_weight_positive"),
        ]

    def __str__(self) -> str:
        return self.slug
