"""/jobs/{id}/events and /jobs/{id}/decisions: what happened to a job, and why."""

import uuid
from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import CURSOR, PAGE_SIZE, errors, paged
from scheduling.api.endpoint import Endpoint
from scheduling.api.pagination import PAGE_FILTERS, page
from scheduling.api.serializers import DecisionSerializer, EventSerializer
from scheduling.selectors.jobs import job_get


class JobEvents(Endpoint):
    """A job's story."""

    filters: ClassVar[frozenset[str]] = PAGE_FILTERS

    @extend_schema(
        operation_id="jobs_events",
        summary="What happened to a job, oldest first",
        parameters=[CURSOR, PAGE_SIZE],
        responses={200: paged("Events", EventSerializer), **errors(400, 401, 404)},
    )
    def get(self, request: Request, job_id: uuid.UUID) -> Response:
        """List a job's events, oldest first."""
        events = job_get(self.principal, job_id).events.all()
        found = page(events, request, key="id", newest_first=False)
        found["results"] = EventSerializer(found["results"], many=True).data
        return Response(found)


class JobDecisions(Endpoint):
    """The decisions on a job."""

    filters: ClassVar[frozenset[str]] = PAGE_FILTERS

    @extend_schema(
        operation_id="jobs_decisions",
        summary="The decisions on a job, oldest first",
        parameters=[CURSOR, PAGE_SIZE],
        responses={200: paged("Decisions", DecisionSerializer), **errors(400, 401, 404)},
    )
    def get(self, request: Request, job_id: uuid.UUID) -> Response:
        """List the decisions on a job, oldest first."""
        decisions = job_get(self.principal, job_id).decisions.all()
        found = page(decisions, request, key="id", newest_first=False)
        found["results"] = DecisionSerializer(found["results"], many=True).data
        return Response(found)
