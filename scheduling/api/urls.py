"""The addresses of /api/v1/. What is not here is a problem+json 404."""

from csp.decorators import csp_update
from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from scheduling.api.bulk import BulkJobs
from scheduling.api.cancel import CancelJob, CancelJobs
from scheduling.api.costs import Costs
from scheduling.api.endpoint import UnknownRoute
from scheduling.api.jobs import JobDetail, Jobs
from scheduling.api.pools import Executors, Pools
from scheduling.api.queue import Queue
from scheduling.api.stories import JobDecisions, JobEvents
from scheduling.api.tenants import Shares, Tenants

app_name = "api"

# The page's template has one inline style element; scripts stay under the strict policy.
docs = csp_update({"style-src": ["'unsafe-inline'"]})(
    SpectacularSwaggerSplitView.as_view(url_name="api:schema")
)

urlpatterns = [
    path("jobs", Jobs.as_view(), name="jobs"),
    path("jobs/bulk", BulkJobs.as_view(), name="jobs-bulk"),
    path("jobs/cancel", CancelJobs.as_view(), name="jobs-cancel"),
    path("jobs/<uuid:job_id>", JobDetail.as_view(), name="job"),
    path("jobs/<uuid:job_id>/cancel", CancelJob.as_view(), name="job-cancel"),
    path("jobs/<uuid:job_id>/events", JobEvents.as_view(), name="job-events"),
    path("jobs/<uuid:job_id>/decisions", JobDecisions.as_view(), name="job-decisions"),
    path("queue", Queue.as_view(), name="queue"),
    path("pools", Pools.as_view(), name="pools"),
    path("executors", Executors.as_view(), name="executors"),
    path("tenants", Tenants.as_view(), name="tenants"),
    path("shares", Shares.as_view(), name="shares"),
    path("costs", Costs.as_view(), name="costs"),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", docs, name="docs"),
    re_path(r"", UnknownRoute.as_view()),
]
