"""An attempt: one placement of a job on one executor, with a fence, a lease and its own usage.

Hot queries and their indexes: claim and settle go by primary key; a worker's heartbeat and the
sweep of the lost by `attempt_live` (partial on live states, by worker); unclaimed ones by the same;
a job's attempts by (job, fence), unique; open corrections by `attempt_correction` (partial).
"""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from scheduling.core.states import LIVE_ATTEMPTS, AttemptState
from scheduling.models.checks import at_least
from scheduling.models.executor import Executor
from scheduling.models.governor import Worker
from scheduling.models.job import Job
from tenants.ids import new_id

ATTEMPT_STATES = [state.value for state in AttemptState]
MAKE_ROOM = ["preempt", "drain"]
"""What an attempt is asked to stop for whose job shall go on later."""
STOPS_FOR = ["cancel", *MAKE_ROOM]
LIVE = sorted(state.value for state in LIVE_ATTEMPTS)
ENDED = sorted(set(ATTEMPT_STATES) - set(LIVE))


class Attempt(models.Model):
    """`charge` was taken of the tenant's turn at placement; `charge_due` is what came true.

    `charge_due` None means that the estimate stands. `cost` is the units charged at placement.
    `eta_finish` with its range is the first estimate that the job was given, at `eta_at`.
    `model` is what the job was to run when it was dispatched; empty: its executor's default.
    `reviewer` is who has taken a review, for as long as its lease; it costs no units.
    `stop_for` is what it was asked to stop for: a cancel, a higher class (preempt), or the draining
    of its executor; empty for one that was not asked.
    `sent_at` and `sends` drive the resend of messages that no worker has claimed.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    job = models.ForeignKey(
        Job, models.CASCADE, db_index=False, db_constraint=False, related_name="attempts"
    )
    fence = models.IntegerField()
    step = models.IntegerField(default=0)
    executor = models.ForeignKey(Executor, models.PROTECT, db_index=False, related_name="attempts")
    worker = models.ForeignKey(
        Worker, models.SET_NULL, null=True, db_index=False, related_name="attempts"
    )
    reviewer = models.CharField(max_length=200, blank=True, db_default="")
    model = models.CharField(max_length=200, blank=True, default="", db_default="")
    state = models.CharField(max_length=11, choices=[(s, s) for s in ATTEMPT_STATES])
    stop_for = models.CharField(
        max_length=7, choices=[(s, s) for s in STOPS_FOR], blank=True, default="", db_default=""
    )
    cost = models.IntegerField()
    charge = models.BigIntegerField()
    charge_due = models.BigIntegerField(null=True)
    job_class = models.CharField(max_length=30)
    turn = models.BigIntegerField(null=True)
    lifts = models.IntegerField(default=0)
    workspace_lifts = models.IntegerField(default=0)
    expected_s = models.FloatField()
    eta_at = models.DateTimeField(null=True)
    eta_finish = models.DateTimeField(null=True)
    eta_low = models.DateTimeField(null=True)
    eta_high = models.DateTimeField(null=True)
    lease_until = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    sends = models.IntegerField(default=0)
    dispatched_at = models.DateTimeField(db_default=Now(), editable=False)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    error_class = models.CharField(max_length=30, blank=True)
    message = models.CharField(max_length=500, blank=True)
    usage = models.JSONField(null=True)
    spend = models.DecimalField(max_digits=24, decimal_places=12, null=True)

    class Meta:
        """Constraints and indexes; the module's docstring says what each index is for."""

        ordering: ClassVar = ["job", "fence"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "fence"], name="attempt_fence_once"),
            models.UniqueConstraint(
                fields=["job"], condition=Q(state__in=LIVE), name="one_live_attempt_a_job"
            ),
            models.CheckConstraint(
                condition=Q(stop_for__in=["", *STOPS_FOR]), name="attempt_stop_for_known"
            ),
            models.CheckConstraint(condition=Q(fence__gte=1), name="attempt_fence_positive"),
            models.CheckConstraint(
                condition=at_least(0, "step", "cost", "lifts", "workspace_lifts", "sends")
                & at_least(0, "charge", "charge_due"),
                name="attempt_counts_not_negative",
            ),
            models.CheckConstraint(
                condition=(Q(state__in=LIVE) & Q(ended_at=None))
                | (Q(state__in=ENDED) & Q(ended_at__isnull=False)),
                name="attempt_ended_has_end",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["running", "stopping", "complete"])
                | Q(started_at__isnull=False),
                name="attempt_running_has_start",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["worker", "lease_until"], condition=Q(state__in=LIVE), name="attempt_live"
            ),
            models.Index(
                fields=["job"],
                condition=Q(charge_due__isnull=False),
                name="attempt_correction",
            ),
            models.Index(fields=["executor", "-ended_at"], name="attempt_of_executor"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} #{self.fence}"
