"""How the OpenAPI page describes requests, errors, parameters and pages."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    inline_serializer,
)
from rest_framework import serializers

from scheduling.api.pagination import LARGEST_PAGE
from scheduling.api.pagination import PAGE_SIZE as DEFAULT_PAGE_SIZE
from scheduling.api.problems import CONTENT_TYPE
from scheduling.core.states import JobState
from scheduling.models.dependency import CONDITIONS
from scheduling.models.workflow import RISKS


class FieldErrorSerializer(serializers.Serializer[Any]):
    """One wrong field and what to do about it."""

    field = serializers.CharField()
    sentence = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """An error (problem+json): `code` for programs, `detail` for people."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField()
    detail = serializers.CharField()
    instance = serializers.CharField()
    errors = FieldErrorSerializer(many=True, required=False)  # type: ignore[assignment]


class EstimateSerializer(serializers.Serializer[Any]):
    """What a job is expected to use; what is named goes before what its kind expects."""

    input_tokens = serializers.IntegerField(required=False, min_value=0)
    output_tokens = serializers.IntegerField(required=False, min_value=0)
    seconds = serializers.FloatField(required=False, min_value=0, help_text="As expected_s.")
    tool_calls = serializers.IntegerField(required=False, min_value=0)
    environment_seconds = serializers.FloatField(required=False, min_value=0)
    storage_byte_hours = serializers.FloatField(required=False, min_value=0)
    network_bytes = serializers.IntegerField(required=False, min_value=0)
    review_minutes = serializers.FloatField(required=False, min_value=0)


class AfterSerializer(serializers.Serializer[Any]):
    """A job of the same tenant to wait for; its id alone means that it must be done."""

    job = serializers.UUIDField()
    condition = serializers.ChoiceField(CONDITIONS, required=False)


class RowSerializer(serializers.Serializer[Any]):
    """A job to submit. Fields left out or null take the workflow's or the policy's default."""

    workflow = serializers.SlugField(max_length=63)
    kind = serializers.CharField(max_length=30)
    payload = serializers.DictField()
    model = serializers.CharField(required=False, max_length=200)
    mission = serializers.SlugField(required=False, max_length=63)
    job_class = serializers.CharField(required=False, max_length=30)
    cost = serializers.IntegerField(required=False, min_value=1)
    expected_s = serializers.FloatField(required=False, min_value=0)
    max_attempts = serializers.IntegerField(required=False, min_value=1, max_value=100)
    deadline = serializers.DateTimeField(required=False)
    not_before = serializers.DateTimeField(required=False)
    expires_at = serializers.DateTimeField(
        required=False, help_text="From then on it is not started any more."
    )
    ttl_s = serializers.FloatField(
        required=False, min_value=1, help_text="How long it may wait for its start, for expires_at."
    )
    region = serializers.CharField(required=False, max_length=60)
    labels = serializers.ListField(child=serializers.CharField(), required=False)
    idempotent = serializers.BooleanField(required=False)
    paused = serializers.BooleanField(required=False)
    risk = serializers.ChoiceField(RISKS, required=False)
    estimate = EstimateSerializer(required=False)
    tools = serializers.ListField(child=serializers.CharField(), required=False)
    data_class = serializers.CharField(required=False, max_length=60)
    compute_class = serializers.CharField(required=False, max_length=60)
    keys = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="What only one job uses at once."
    )
    max_spend = serializers.CharField(
        required=False, help_text="The most it may be expected to cost, in US dollars."
    )
    max_tokens = serializers.IntegerField(required=False, min_value=0)
    review = serializers.BooleanField(required=False, help_text="Its result needs a review.")
    after = AfterSerializer(many=True, required=False)

    def get_fields(self) -> dict[str, Any]:
        """Return the fields under the names that the API uses."""
        fields = super().get_fields()
        return {"class" if name == "job_class" else name: fields[name] for name in fields}


class SubmitSerializer(RowSerializer):
    """A job, and the workspace to submit it to (a key implies its own)."""

    workspace = serializers.CharField(required=False, help_text="Its id, or tenant/workspace.")


class BulkSerializer(SubmitSerializer):
    """Up to 10,000 jobs; what stands beside them is the default of each."""

    workflow = serializers.SlugField(required=False, max_length=63)
    kind = serializers.CharField(required=False, max_length=30)
    payload = serializers.DictField(required=False)
    jobs = RowSerializer(many=True)


class BulkResultSerializer(serializers.Serializer[Any]):
    """The answer to one row: a stored job with its verdict, or the row's errors."""

    index = serializers.IntegerField()
    id = serializers.UUIDField(required=False)
    verdict = serializers.CharField(required=False)
    reason = serializers.CharField(required=False)
    place = serializers.IntegerField(required=False)
    eta = serializers.DateTimeField(required=False)
    sentence = serializers.CharField(required=False)
    errors = FieldErrorSerializer(many=True, required=False)  # type: ignore[assignment]


class BulkAnswerSerializer(serializers.Serializer[Any]):
    """Counts by verdict (`invalid` rows stored nothing), and one result a row, in order."""

    counts = serializers.DictField(child=serializers.IntegerField())
    results = BulkResultSerializer(many=True)


class CancelSerializer(serializers.Serializer[Any]):
    """Why the job is canceled; kept in its events."""

    reason = serializers.CharField(required=False, max_length=500)


class CancelManySerializer(CancelSerializer):
    """Jobs to cancel together: all of them, or none when any is not there."""

    ids = serializers.ListField(child=serializers.UUIDField(), max_length=1000)


_CODES = {
    400: "Malformed JSON, an unknown field or filter, a value that is not allowed.",
    401: "No key or session, or a key that is unknown, expired or revoked.",
    403: "The caller sees it but may not do this.",
    404: "There is no such thing, or the caller may not see it.",
    409: "In conflict: ended already, or an Idempotency-Key of another request.",
    413: "Too many rows or bytes; nothing was stored.",
    415: "The body is not application/json in UTF-8.",
    422: "Denied; `code` is the reason, `job` the id of the stored job.",
    429: "Too many wait already (the backlog is full); try again after Retry-After seconds.",
    501: "This server does not stream; the one with the sockets does.",
    503: "A part does not answer for the moment; nothing was changed.",
}


def errors(*statuses: int) -> dict[tuple[int, str], OpenApiResponse]:
    """Return the described error responses of these statuses."""
    return {
        (status, CONTENT_TYPE): OpenApiResponse(ProblemSerializer, description=_CODES[status])
        for status in statuses
    }


def paged(name: str, row: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """Return a page of rows with the cursor of the next one (null on the last)."""
    return inline_serializer(
        name=f"{name}Page",
        fields={
            "results": row(many=True),
            "next_cursor": serializers.CharField(allow_null=True),
        },
    )


def parameter(
    name: str,
    description: str,
    kind: OpenApiTypes = OpenApiTypes.STR,
    **more: Any,  # noqa: ANN401
) -> OpenApiParameter:
    """Return a described query parameter."""
    return OpenApiParameter(name=name, description=description, type=kind, **more)


IDEMPOTENCY = parameter(
    "Idempotency-Key",
    "The same key with the same body answers as before and does nothing again.",
    location=OpenApiParameter.HEADER,
)
CURSOR = parameter("cursor", "next_cursor of the page before.")
PAGE_SIZE = parameter(
    "page_size", f"1 to {LARGEST_PAGE}, else {DEFAULT_PAGE_SIZE}.", OpenApiTypes.INT
)
TENANT = parameter("tenant", "A tenant's id or slug.")
POOL = parameter("pool", "A pool's slug; needed when there are several.")
JOB_FILTERS = (
    parameter("state", "One or more states.", many=True, enum=[s.value for s in JobState]),
    TENANT,
    parameter("workspace", "A workspace's id, or tenant/workspace."),
    parameter("workflow", "A workflow's slug."),
    parameter("mission", "A mission's slug."),
    parameter("class", "A priority class."),
    parameter("kind", "A kind of job."),
    parameter("q", "An id, or a part of a workflow, model or submitter."),
)
JOB_EXAMPLES = [
    OpenApiExample(
        "A translation",
        value={
            "workflow": "manuals",
            "kind": "translate",
            "payload": {"text": "Good morning.", "source": "en", "target": "pt"},
        },
        request_only=True,
    )
]
BULK_EXAMPLES = [
    OpenApiExample(
        "Two rows of one workflow",
        value={
            "workflow": "manuals",
            "kind": "translate",
            "jobs": [
                {"payload": {"text": "One.", "source": "en", "target": "pt"}},
                {"payload": {"text": "Two.", "source": "en", "target": "pt"}, "class": "batch"},
            ],
        },
        request_only=True,
    )
]
