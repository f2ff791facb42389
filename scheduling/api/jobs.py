"""/jobs: submit one, list, look at one."""

import contextlib
import uuid
from typing import Any, ClassVar

import redis
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from billing.reports import cost_of_job
from scheduling.api.documents import (
    CURSOR,
    IDEMPOTENCY,
    JOB_EXAMPLES,
    JOB_FILTERS,
    PAGE_SIZE,
    SubmitSerializer,
    errors,
    paged,
)
from scheduling.api.endpoint import Endpoint
from scheduling.api.pagination import PAGE_FILTERS, page
from scheduling.api.problems import Problem, invalid
from scheduling.api.scope import tenant_visible, workspace_for, workspace_visible
from scheduling.api.serializers import (
    JobDetailSerializer,
    JobMoreSerializer,
    JobSerializer,
    SubmittedSerializer,
)
from scheduling.api.submissions import (
    WORKSPACE,
    WrongValue,
    submission_read,
    workspace_named,
)
from scheduling.api.submit import answer_of, submit
from scheduling.api.waits import (
    WAIT_FILTERS,
    WAIT_PARAMETERS,
    Wait,
    still_here,
    wait_asked,
    wait_for,
)
from scheduling.api.writes import body_of, write
from scheduling.core.states import JobState
from scheduling.events import valkey_client
from scheduling.models import Job
from scheduling.models.job import BACKLOG
from scheduling.selectors.jobs import JobFilter, decision_last, job_get, jobs_list
from scheduling.selectors.queue import NoOrder, Place, job_place
from scheduling.services.drafts import FieldError, Refused
from scheduling.services.idempotency import Answer
from tenants.rbac import Permission

STATES = [state.value for state in JobState]


class Jobs(Endpoint):
    """The jobs."""

    filters: ClassVar[frozenset[str]] = PAGE_FILTERS | {
        "state", "tenant", "workspace", "workflow", "mission", "class", "kind", "q",
    }  # fmt: skip
    write_filters: ClassVar[frozenset[str]] = WAIT_FILTERS

    @extend_schema(
        operation_id="jobs_list",
        summary="List jobs, newest first",
        parameters=[*JOB_FILTERS, CURSOR, PAGE_SIZE],
        responses={200: paged("Jobs", JobSerializer), **errors(400, 401, 404)},
    )
    def get(self, request: Request) -> Response:
        """List the jobs that the caller may see, newest first."""
        rows = jobs_list(self.principal, self._narrow(request))
        found = page(rows, request, key="seq", newest_first=True)
        found["results"] = JobSerializer(found["results"], many=True).data
        return Response(found)

    @extend_schema(
        operation_id="jobs_submit",
        summary="Submit one job",
        parameters=[IDEMPOTENCY, *WAIT_PARAMETERS],
        request=SubmitSerializer,
        examples=JOB_EXAMPLES,
        responses={
            201: SubmittedSerializer,
            **errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503),
        },
    )
    def post(self, request: Request) -> Response:
        """Submit one job and get the decision on it; a denied one is stored too, and told as 422.

        With `wait`, the answer is the job as GET shows it, once it has ended or the time is over.
        """
        body, wait = body_of(request), wait_asked(request)
        try:
            named = workspace_named(body)
        except WrongValue as wrong:
            raise invalid(FieldError(field=WORKSPACE, sentence=str(wrong))) from None
        workspace = workspace_for(self.principal, named, Permission.SUBMIT)
        asked = submission_read({k: v for k, v in body.items() if k != WORKSPACE})
        if isinstance(asked, list):
            raise invalid(*asked)

        def act() -> Answer:
            (answer,) = submit(self.principal, workspace, [asked])
            if isinstance(answer, Refused):
                raise invalid(*answer.errors)
            return answer_of(answer, request)

        stored = write(request, workspace.id, act)
        if wait.seconds and stored.status_code == 201:
            return self._waited(request, stored, wait)
        return stored

    def _waited(self, request: Request, stored: Response, wait: Wait) -> Response:
        """Answer with the job when it has come so far; at once where there is no place to wait."""
        job_id = uuid.UUID(str(stored.data["id"]))
        with contextlib.suppress(Problem):
            wait_for(job_id, wait, self.principal.name)
        stored.data = detail_of(job_get(still_here(request), job_id))
        return stored

    def _narrow(self, request: Request) -> JobFilter:
        query = request.query_params
        tenant, workspace = query.get("tenant"), query.get("workspace")
        return JobFilter(
            states=_states(query.getlist("state")),
            tenant=tenant_visible(self.principal, tenant) if tenant else None,
            workspace=workspace_visible(self.principal, workspace) if workspace else None,
            workflow=query.get("workflow", ""),
            mission=query.get("mission", ""),
            job_class=query.get("class", ""),
            kind=query.get("kind", ""),
            text=query.get("q", ""),
        )


class JobDetail(Endpoint):
    """One job."""

    filters: ClassVar[frozenset[str]] = WAIT_FILTERS

    @extend_schema(
        operation_id="jobs_get",
        summary="Look at one job, at once or when it has come so far",
        parameters=[*WAIT_PARAMETERS],
        responses={200: JobDetailSerializer, **errors(400, 401, 404, 429)},
    )
    def get(self, request: Request, job_id: uuid.UUID) -> Response:
        """Show one job with its attempts, last decision, place in the order and spend.

        With `wait`, answers once the job has ended, or started (`wait_for`), or the time is over.
        """
        wait, job = wait_asked(request), job_get(self.principal, job_id)
        if wait.seconds:
            wait_for(job.id, wait, self.principal.name)
            job = job_get(still_here(request), job_id)
        return Response(detail_of(job))


def detail_of(job: Job) -> dict[str, Any]:
    """Return one job with all that is known of it, as it is answered."""
    more = {
        "payload": job.payload,
        "result": job.result,
        "error": job.error,
        "spend": cost_of_job(job.id).total,
        "decision": decision_last(job),
        "after": job.dependencies.all(),
        "children": job.children.count(),
        "order": place_now(job),
        "attempts": job.attempts.select_related("executor").order_by("fence"),
    }
    return {**JobSerializer(job).data, **JobMoreSerializer(more).data}


def place_now(job: Job) -> Place | None:
    """Return where a waiting job stands; None when it does not wait or no order is at hand."""
    if job.state not in BACKLOG:
        return None
    try:
        return job_place(valkey_client(), job.pool, job.id)
    except (NoOrder, redis.RedisError):
        return None


def _states(given: list[str]) -> tuple[str, ...]:
    states = tuple(one for text in given for one in text.split(",") if one)
    wrong = [one for one in states if one not in STATES]
    if wrong:
        sentence = f"There is no state {wrong[0]!r}; there are: {', '.join(STATES)}."
        raise invalid(FieldError(field="state", sentence=sentence))
    return states
