"""/jobs/{id}/events and /jobs/{id}/decisions: what happened to a job, and why."""

import uuid
from typing import ClassVar

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import CURSOR, PAGE_SIZE, errors, paged, parameter
from scheduling.api.endpoint import Endpoint
from scheduling.api.pagination import PAGE_FILTERS, page
from scheduling.api.serializers import DecisionSerializer, EventSerializer, event_told
from scheduling.api.streams import CONTENT_TYPE, LAST_EVENT, is_wanted, stream_of
from scheduling.selectors.jobs import job_get

LAST_EVENT_ID = parameter(
    LAST_EVENT, "The last event that a stream has told.", location=OpenApiParameter.HEADER
)


class JobEvents(Endpoint):
    """A job's story."""

    filters: ClassVar[frozenset[str]] = PAGE_FILTERS

    @extend_schema(
        operation_id="jobs_events",
        summary="What happened to a job, oldest first; as it happens for who accepts a stream",
        parameters=[CURSOR, PAGE_SIZE, LAST_EVENT_ID],
        responses={
            (200, "application/json"): paged("Events", EventSerializer),
            (200, CONTENT_TYPE): OpenApiTypes.STR,
            204: OpenApiResponse(description="A stream with nothing more to come."),
            **errors(400, 401, 404, 429, 501),
        },
    )
    def get(self, request: Request, job_id: uuid.UUID) -> HttpResponseBase:
        """List a job's events, oldest first; with Accept: text/event-stream, stream them.

        A stream's `id` is the event's number: it goes on behind Last-Event-ID. It ends with the job.
        """
        job = job_get(self.principal, job_id)
        if is_wanted(request):
            return stream_of(request, self.principal, job.id)
        events = job.events.all()
        found = page(events, request, key="id", newest_first=False)
        found["results"] = [event_told(event, self.principal) for event in found["results"]]
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
