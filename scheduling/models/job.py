"""A job: one unit of submitted work.

Hot queries and their indexes (looked at with EXPLAIN at 100,000 waiting jobs):
- the governor's changed rows: `job_changed`, by the transaction that changed them;
- its load at start: `job_live`, partial on the states that are not ended, by arrival number;
- jobs whose wait ends by time: `job_wakes`, partial on `wake_at`;
- a tenant's oldest deferred jobs, asked by each settlement: `job_deferred`, partial;
- a tenant's or workspace's list, newest first: `job_of_tenant`, `job_of_workspace`;
- a workflow's last runs: `job_of_workflow`, partial on those whose work is done;
- a mission's jobs: `job_of_mission`, partial;
- backlog counts for admission: `job_backlog`, partial on waiting states;
- the children of a job, by the step and the call that asked for them: `job_child_once`, partial;
- waiting jobs that expire: `job_expires` and `job_deadline`, partial on those that can;
- what waits for a review, the oldest first: `job_reviews`, partial.
Each index is written several times in a job's life, so no foreign key has one that another covers.

Each constraint is read anew by each statement that writes a row, which for a job alone is a good part of
the statement. So none says what another implies: that of the end knows all states.
"""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now

from scheduling.core.states import ENDED_JOBS, WAITING_JOBS, JobState, Phase, WorkOutcome
from scheduling.models.checks import at_least
from scheduling.models.pool import Pool
from scheduling.models.workflow import RISKS, Mission, Workflow
from scheduling.models.xact import CurrentXact, XactField
from tenants.ids import new_id
from tenants.models import Tenant, Workspace

COUNTS = ("fence", "step", "step_fence", "tries", "preemptions")
JOB_STATES = [state.value for state in JobState]
ENDED = sorted(state.value for state in ENDED_JOBS)
LIVE = sorted(set(JOB_STATES) - set(ENDED))
BACKLOG = sorted(state.value for state in WAITING_JOBS)
PHASES = [phase.value for phase in Phase]
OUTCOMES = [outcome.value for outcome in WorkOutcome]


class Job(models.Model):
    """`seq` is the arrival number; `fence` numbers its placements; `tries` counts failures.

    A placement is (job, step, try). `step` numbers the steps that are done, `step_fence` is the
    fence at which the present one began, and `tries` counts the failures of that one alone.
    `checkpoint` is what the last step, or a run that made room, left to the next placement.
    `preemptions` counts the runs that made room, for a higher class or a drained executor. `parent`
    is the job whose work submitted it, `parent_call` the call that did ("3.0": the `step_fence` of
    its step, and the place there), `depth` the number of its ancestors.

    `cost` None takes the workflow's present cost. `changed` is the transaction that last
    changed what the governor must take up: every writer but the governor's dispatch sets it to
    `CurrentXact()`, and dispatch takes only jobs unchanged since it read them. `wake_at` is when a
    deferred or waiting job (retry, not-before) is due. `error` holds {class, message} of the
    last failure, `reason` the code of the last decision. `estimate` holds the amounts that were
    named for what has no column of its own (tool calls, environment ...), by their dimension.
    `max_spend` (USD) and `max_tokens` are the job's ceilings. From `expires_at` on a job that never
    started is not wanted any more; past its `deadline` none is that waits. `needs_review`: it or its risk asks
    for one; its workflow may too. From the end of its work on its `phase` is then the review, which
    is placed as a step of its own and waits for a reviewer; what it was till then, its result
    included, stands.
    `runs_model` is the model in force after a fallback ("": the one that was asked for, `model`),
    `places` the executors that it is funded or qualified for (none named: all that fit).
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    seq = models.BigIntegerField(
        unique=True, editable=False, db_default=RawSQL("nextval('scheduling_job_arrival')", [])
    )
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False, related_name="jobs")
    workspace = models.ForeignKey(Workspace, models.PROTECT, db_index=False, related_name="jobs")
    workflow = models.ForeignKey(Workflow, models.PROTECT, db_index=False, related_name="jobs")
    mission = models.ForeignKey(
        Mission, models.PROTECT, null=True, blank=True, db_index=False, related_name="jobs"
    )
    pool = models.ForeignKey(Pool, models.PROTECT, db_index=False, related_name="jobs")
    kind = models.CharField(max_length=30)
    job_class = models.CharField(max_length=30)
    risk = models.CharField(max_length=8, choices=[(r, r) for r in RISKS], default="low")
    cost = models.IntegerField(null=True)
    state = models.CharField(max_length=8, choices=[(s, s) for s in JOB_STATES])
    phase = models.CharField(max_length=6, choices=[(p, p) for p in PHASES], default="work")
    paused = models.BooleanField(default=False)
    cancel_requested = models.BooleanField(default=False)
    reason = models.CharField(max_length=30)
    outcome = models.CharField(
        max_length=10, choices=[(o, o) for o in OUTCOMES], default="unreviewed"
    )
    changed = XactField(db_default=CurrentXact(), editable=False)
    fence = models.IntegerField(default=0)
    step = models.IntegerField(default=0)
    step_fence = models.IntegerField(default=0)
    checkpoint = models.JSONField(null=True)
    parent = models.ForeignKey(
        "self", models.SET_NULL, null=True, db_index=False, related_name="children"
    )
    parent_call = models.CharField(max_length=40, blank=True, default="")
    depth = models.SmallIntegerField(default=0)
    tries = models.IntegerField(default=0)
    preemptions = models.IntegerField(default=0)
    max_attempts = models.IntegerField()
    idempotent = models.BooleanField(default=True)
    payload = models.JSONField()
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)
    model = models.CharField(max_length=200, blank=True)
    runs_model = models.CharField(max_length=200, blank=True, default="")
    places = ArrayField(models.UUIDField(), default=list)
    region = models.CharField(max_length=60, blank=True)
    labels = ArrayField(models.CharField(max_length=60), default=list)
    tools = ArrayField(models.CharField(max_length=60), default=list)
    data_class = models.CharField(max_length=60, blank=True, default="")
    compute_class = models.CharField(max_length=60, blank=True, default="")
    keys = ArrayField(models.CharField(max_length=200), default=list)
    input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    estimate = models.JSONField(default=dict)
    max_spend = models.DecimalField(max_digits=20, decimal_places=10, null=True)
    max_tokens = models.BigIntegerField(null=True)
    needs_review = models.BooleanField(default=False)
    expected_s = models.FloatField(null=True)
    submitted_by = models.CharField(max_length=200)
    submitted_at = models.DateTimeField(db_default=Now(), editable=False)
    deadline = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    wake_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        """Constraints and indexes; the module's docstring says what each index is for."""

        ordering: ClassVar = ["-seq"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=at_least(0, *COUNTS)
                & at_least(0, "input_tokens", "output_tokens", "max_tokens")
                & Q(depth__gte=0),
                name="job_counts_not_negative",
            ),
            models.CheckConstraint(
                condition=at_least(1, "cost", "max_attempts"), name="job_cost_and_tries_positive"
            ),
            models.CheckConstraint(condition=Q(expected_s__gte=0), name="job_expected_s"),
            models.CheckConstraint(condition=Q(outcome__in=OUTCOMES), name="job_outcome_known"),
            models.CheckConstraint(condition=Q(phase__in=PHASES), name="job_phase_known"),
            models.CheckConstraint(
                condition=(Q(state__in=ENDED) & Q(finished_at__isnull=False))
                | (Q(state__in=LIVE) & Q(finished_at=None)),
                name="job_ended_has_end",
            ),
            models.CheckConstraint(
                condition=~Q(state="running") | Q(fence__gte=1), name="job_running_has_fence"
            ),
            models.UniqueConstraint(
                fields=["parent", "parent_call"],
                condition=Q(parent__isnull=False),
                name="job_child_once",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["changed"], name="job_changed"),
            models.Index(fields=["seq"], condition=Q(state__in=LIVE), name="job_live"),
            models.Index(fields=["wake_at"], condition=Q(wake_at__isnull=False), name="job_wakes"),
            models.Index(
                fields=["tenant", "seq"], condition=Q(state="deferred"), name="job_deferred"
            ),
            models.Index(fields=["tenant", "-seq"], name="job_of_tenant"),
            models.Index(fields=["workspace", "-seq"], name="job_of_workspace"),
            models.Index(
                fields=["workflow", "-seq"],
                condition=Q(finished_at__isnull=False) | Q(phase="review"),
                name="job_of_workflow",
            ),
            models.Index(
                fields=["mission", "-seq"],
                condition=Q(mission__isnull=False),
                name="job_of_mission",
            ),
            models.Index(
                fields=["tenant", "workspace"],
                condition=Q(state__in=BACKLOG),
                name="job_backlog",
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(expires_at__isnull=False, state__in=BACKLOG),
                name="job_expires",
            ),
            models.Index(
                fields=["deadline"],
                condition=Q(deadline__isnull=False, state__in=BACKLOG),
                name="job_deadline",
            ),
            models.Index(
                fields=["seq"], condition=Q(phase="review", finished_at=None), name="job_reviews"
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def model_in_force(self) -> str:
        """The model that it runs: a fallback's, else the one that was asked for ("": any)."""
        return self.runs_model or self.model
