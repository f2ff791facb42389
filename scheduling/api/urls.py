"""The addresses of /api/v1/. What is not here is a problem+json 404."""

from csp.decorators import csp_update
from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from scheduling.api.alerts import Alerts, StandingAlerts
from scheduling.api.audit import Audit
from scheduling.api.budgets import BudgetDefaults, Budgets, EndEscalation, EscalateBudget
from scheduling.api.bulk import BulkJobs
from scheduling.api.cancel import CancelJob, CancelJobs
from scheduling.api.caps import TenantLimits, WorkflowLimits, WorkspaceLimits
from scheduling.api.costs import Costs
from scheduling.api.dry_run import DryRun
from scheduling.api.endpoint import UnknownRoute
from scheduling.api.explain import ExplainJob
from scheduling.api.forecast import EtaHonesty, Forecast
from scheduling.api.job_levers import (
    ManageJobs,
    PauseJob,
    PrioritiseJob,
    RequeueJob,
    ResumeJob,
)
from scheduling.api.jobs import JobDetail, Jobs
from scheduling.api.limit_raises import EndLimitRaise, LimitRaises, RaiseLimit
from scheduling.api.limits import Limits
from scheduling.api.policies import (
    Policies,
    PolicyDetail,
    PolicyPublish,
    PolicyRollBack,
    PolicyValidate,
)
from scheduling.api.pools import Executors, Pools
from scheduling.api.queue import Queue
from scheduling.api.reviews import (
    AcceptReview,
    ClaimReview,
    RejectReview,
    ReleaseReview,
    Reviews,
)
from scheduling.api.setting_levers import (
    DisableExecutor,
    DrainExecutor,
    EnableExecutor,
    ExecutorCapacity,
    PoolDial,
    TenantWeight,
    UndrainExecutor,
    WorkflowCost,
    WorkspaceWeight,
)
from scheduling.api.stories import JobDecisions, JobEvents
from scheduling.api.tenants import Shares, Tenants
from scheduling.api.trials import PolicyTry, Trial
from scheduling.api.webhooks import RemoveWebhook, RotateWebhook, WebhookDeliveries, Webhooks
from scheduling.api.what_if import WhatIfJob, WhatIfSubmitted

app_name = "api"

# The page's template has one inline style element; scripts stay under the strict policy.
docs = csp_update({"style-src": ["'unsafe-inline'"]})(
    SpectacularSwaggerSplitView.as_view(url_name="api:schema")
)

urlpatterns = [
    path("jobs", Jobs.as_view(), name="jobs"),
    path("jobs/bulk", BulkJobs.as_view(), name="jobs-bulk"),
    path("jobs/dry-run", DryRun.as_view(), name="jobs-dry-run"),
    path("jobs/what-if", WhatIfSubmitted.as_view(), name="jobs-what-if"),
    path("jobs/cancel", CancelJobs.as_view(), name="jobs-cancel"),
    path("jobs/<uuid:job_id>", JobDetail.as_view(), name="job"),
    path("jobs/<uuid:job_id>/cancel", CancelJob.as_view(), name="job-cancel"),
    path("jobs/manage", ManageJobs.as_view(), name="jobs-manage"),
    path("jobs/<uuid:job_id>/prioritise", PrioritiseJob.as_view(), name="job-prioritise"),
    path("jobs/<uuid:job_id>/pause", PauseJob.as_view(), name="job-pause"),
    path("jobs/<uuid:job_id>/resume", ResumeJob.as_view(), name="job-resume"),
    path("jobs/<uuid:job_id>/requeue", RequeueJob.as_view(), name="job-requeue"),
    path("jobs/<uuid:job_id>/explain", ExplainJob.as_view(), name="job-explain"),
    path("jobs/<uuid:job_id>/what-if", WhatIfJob.as_view(), name="job-what-if"),
    path("jobs/<uuid:job_id>/events", JobEvents.as_view(), name="job-events"),
    path("jobs/<uuid:job_id>/decisions", JobDecisions.as_view(), name="job-decisions"),
    path("reviews", Reviews.as_view(), name="reviews"),
    path("reviews/<uuid:job_id>/claim", ClaimReview.as_view(), name="review-claim"),
    path("reviews/<uuid:job_id>/accept", AcceptReview.as_view(), name="review-accept"),
    path("reviews/<uuid:job_id>/reject", RejectReview.as_view(), name="review-reject"),
    path("reviews/<uuid:job_id>/release", ReleaseReview.as_view(), name="review-release"),
    path("queue", Queue.as_view(), name="queue"),
    path("pools", Pools.as_view(), name="pools"),
    path("forecast", Forecast.as_view(), name="forecast"),
    path("forecast/honesty", EtaHonesty.as_view(), name="forecast-honesty"),
    path("executors", Executors.as_view(), name="executors"),
    path("tenants", Tenants.as_view(), name="tenants"),
    path("shares", Shares.as_view(), name="shares"),
    path("costs", Costs.as_view(), name="costs"),
    path("tenants/<slug:slug>/weight", TenantWeight.as_view(), name="tenant-weight"),
    path("tenants/<slug:slug>/limits", TenantLimits.as_view(), name="tenant-limits"),
    path(
        "workspaces/<slug:tenant>/<slug:workspace>/weight",
        WorkspaceWeight.as_view(),
        name="workspace-weight",
    ),
    path(
        "workspaces/<slug:tenant>/<slug:workspace>/limits",
        WorkspaceLimits.as_view(),
        name="workspace-limits",
    ),
    path("workflows/<slug:tenant>/<slug:slug>/cost", WorkflowCost.as_view(), name="workflow-cost"),
    path(
        "workflows/<slug:tenant>/<slug:slug>/limits",
        WorkflowLimits.as_view(),
        name="workflow-limits",
    ),
    path("pools/<slug:slug>/dial", PoolDial.as_view(), name="pool-dial"),
    path("executors/<slug:slug>/enable", EnableExecutor.as_view(), name="executor-enable"),
    path("executors/<slug:slug>/disable", DisableExecutor.as_view(), name="executor-disable"),
    path("executors/<slug:slug>/drain", DrainExecutor.as_view(), name="executor-drain"),
    path("executors/<slug:slug>/undrain", UndrainExecutor.as_view(), name="executor-undrain"),
    path("executors/<slug:slug>/capacity", ExecutorCapacity.as_view(), name="executor-capacity"),
    path("limits", Limits.as_view(), name="limits"),
    path("limits/raise", RaiseLimit.as_view(), name="limit-raise"),
    path("limits/raises", LimitRaises.as_view(), name="limit-raises"),
    path("limits/raises/<uuid:raise_id>/end", EndLimitRaise.as_view(), name="limit-raise-end"),
    path("audit", Audit.as_view(), name="audit"),
    path("budgets", Budgets.as_view(), name="budgets"),
    path("budgets/defaults", BudgetDefaults.as_view(), name="budget-defaults"),
    path("budgets/<uuid:budget_id>/escalate", EscalateBudget.as_view(), name="budget-escalate"),
    path("escalations/<uuid:escalation_id>/end", EndEscalation.as_view(), name="escalation-end"),
    path("alerts", Alerts.as_view(), name="alerts"),
    path("alerts/standing", StandingAlerts.as_view(), name="alerts-standing"),
    path("webhooks", Webhooks.as_view(), name="webhooks"),
    path("webhooks/<uuid:webhook_id>/rotate", RotateWebhook.as_view(), name="webhook-rotate"),
    path("webhooks/<uuid:webhook_id>/remove", RemoveWebhook.as_view(), name="webhook-remove"),
    path(
        "webhooks/<uuid:webhook_id>/deliveries",
        WebhookDeliveries.as_view(),
        name="webhook-deliveries",
    ),
    path("policies", Policies.as_view(), name="policies"),
    path("policies/validate", PolicyValidate.as_view(), name="policies-validate"),
    path("policies/<int:number>", PolicyDetail.as_view(), name="policy"),
    path("policies/<int:number>/publish", PolicyPublish.as_view(), name="policy-publish"),
    path("policies/<int:number>/roll-back", PolicyRollBack.as_view(), name="policy-roll-back"),
    path("policies/<int:number>/trial", PolicyTry.as_view(), name="policy-trial"),
    path("trials/<uuid:trial_id>", Trial.as_view(), name="trial"),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", docs, name="docs"),
    re_path(r"", UnknownRoute.as_view()),
]
