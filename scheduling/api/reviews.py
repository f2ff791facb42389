"""/reviews: what waits for a review, and taking, judging and giving back one.

Whoever sees a job without the permission to review it is told so (403); nobody judges his own work.
Of two who act at once one is refused (409).
"""

import uuid
from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.documents import CURSOR, PAGE_SIZE, TENANT, errors, paged
from scheduling.api.endpoint import Endpoint
from scheduling.api.levers import described
from scheduling.api.pagination import PAGE_FILTERS, page
from scheduling.api.problems import Problem, invalid
from scheduling.api.scope import tenant_visible
from scheduling.api.serializers import JobSerializer, Shown
from scheduling.api.writes import body_of, write
from scheduling.core.states import WorkOutcome
from scheduling.selectors.jobs import job_get
from scheduling.selectors.reviews import reviews_list, standing_of
from scheduling.services.drafts import FieldError
from scheduling.services.idempotency import Answer
from scheduling.services.reviews import (
    LONGEST_NOTE,
    Judgement,
    ReviewRefused,
    review_claim,
    review_judge,
    review_release,
)
from tenants.rbac import Permission, require

FORBIDDEN = ("own_work",)
"""What a reviewer is refused for good, and not as things stand."""

Deed = Callable[[uuid.UUID, str, datetime], object]


class ReviewStandingSerializer(Shown):
    """`waits` for a reviewer's slot, `open` to be taken, or `taken` by somebody until then."""

    state = serializers.CharField(help_text="One of waits, open, taken.")
    since = serializers.DateTimeField(allow_null=True)
    by = serializers.CharField(allow_blank=True)
    until = serializers.DateTimeField(allow_null=True)

    def to_representation(self, instance: Any) -> dict[str, Any]:  # noqa: ANN401 - a job's row
        """Return where the review of a job stands."""
        return super().to_representation(standing_of(instance))


class ReviewSerializer(JobSerializer):
    """A job in review: what was asked, its work's result, and where its review stands."""

    payload = serializers.JSONField()
    result = serializers.JSONField(allow_null=True)
    standing = ReviewStandingSerializer(source="*")


class RemarkSerializer(serializers.Serializer[Any]):
    """What the reviewer says of it; told to the job's submitter."""

    note = serializers.CharField(required=False, max_length=LONGEST_NOTE)


class RejectSerializer(RemarkSerializer):
    """Why the work is rejected."""

    note = serializers.CharField(max_length=LONGEST_NOTE)


class Reviews(Endpoint):
    """What waits for a review."""

    filters: ClassVar[frozenset[str]] = PAGE_FILTERS | {"tenant"}

    @extend_schema(
        operation_id="reviews_list",
        summary="List what waits for a review by the caller, the oldest first",
        parameters=[TENANT, CURSOR, PAGE_SIZE],
        responses={200: paged("Reviews", ReviewSerializer), **errors(400, 401, 404)},
    )
    def get(self, request: Request) -> Response:
        """List the jobs in review that the caller may review."""
        rows = reviews_list(self.principal)
        if named := request.query_params.get("tenant"):
            rows = rows.filter(tenant=tenant_visible(self.principal, named))
        found = page(rows, request, key="seq", newest_first=False)
        found["results"] = ReviewSerializer(found["results"], many=True).data
        return Response(found)


class ReviewDeed(Endpoint):
    """What a reviewer does with one review; the answer is the job."""

    takes: ClassVar[Collection[str]] = ()

    def deed(self, note: str) -> Deed:
        """Return what is done, given the job's id, the reviewer and the time."""
        raise NotImplementedError

    def post(self, request: Request, job_id: uuid.UUID) -> Response:
        """Do it as the caller."""
        principal = self.principal
        job = job_get(principal, job_id)
        require(principal, Permission.REVIEW, tenant=job.tenant_id, workspace=job.workspace_id)
        deed = self.deed(_note(request, self.takes))

        def act() -> Answer:
            try:
                deed(job_id, principal.name, timezone.now())
            except ReviewRefused as refused:
                status = 403 if refused.code in FORBIDDEN else 409
                raise Problem(status, refused.code, refused.sentence) from None
            return Answer(status=200, body=dict(JobSerializer(job_get(principal, job_id)).data))

        return write(request, job.workspace_id, act)


@described(
    "reviews_claim", "Take a review, so that nobody else judges it meanwhile", None, JobSerializer
)
class ClaimReview(ReviewDeed):
    """Takes a review."""

    def deed(self, note: str) -> Deed:
        """Take it, or take it for longer."""
        return lambda job_id, who, now: review_claim(job_id=job_id, reviewer=who, now=now)


@described("reviews_release", "Give back a review that one has taken", None, JobSerializer)
class ReleaseReview(ReviewDeed):
    """Gives a review back."""

    def deed(self, note: str) -> Deed:
        """Give back what the caller has taken."""
        return lambda job_id, who, now: review_release(job_id=job_id, reviewer=who, now=now)


@described("reviews_accept", "Accept a job's work", RemarkSerializer, JobSerializer)
class AcceptReview(ReviewDeed):
    """Accepts a job's work."""

    takes = ("note",)

    def deed(self, note: str) -> Deed:
        """Accept it."""
        return partial(_judge, Judgement(verdict=WorkOutcome.ACCEPTED, note=note))


@described("reviews_reject", "Reject a job's work, saying why", RejectSerializer, JobSerializer)
class RejectReview(ReviewDeed):
    """Rejects a job's work."""

    takes = ("note",)

    def deed(self, note: str) -> Deed:
        """Reject it; the note must say why."""
        if not note.strip():
            sentence = f"Say why it is rejected: a text of 1 to {LONGEST_NOTE} characters."
            raise invalid(FieldError(field="note", sentence=sentence))
        return partial(_judge, Judgement(verdict=WorkOutcome.REJECTED, note=note))


def _judge(judgement: Judgement, job_id: uuid.UUID, who: str, now: datetime) -> object:
    return review_judge(job_id=job_id, reviewer=who, judgement=judgement, now=now)


def _note(request: Request, known: Collection[str]) -> str:
    """Return the note of a body; raise a 400 `Problem` for other fields or a wrong one."""
    body = body_of(request)
    unknown = sorted(set(body) - set(known))
    if unknown:
        sentence = f"Is no field here; known are {', '.join(known) or 'none'}."
        raise invalid(*(FieldError(field=name, sentence=sentence) for name in unknown))
    note = body.get("note") or ""
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or "\0" in note:
        sentence = f"Must be a text of at most {LONGEST_NOTE} characters, without NUL."
        raise invalid(FieldError(field="note", sentence=sentence))
    return note
