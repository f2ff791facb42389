"""What goes out, as the framework's serializers: they write the answers and the OpenAPI schemas.

What comes in is checked by `scheduling.api.submissions`; the serializers of requests here only
describe it (a test holds the two to the same fields). Money is text, times are ISO 8601 in UTC.
"""

from decimal import Decimal
from typing import Any, cast

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling.api.documents import EstimateSerializer
from scheduling.core.states import AttemptState, JobState
from scheduling.core.types import Verdict
from scheduling.models import JobEvent
from scheduling.models.attempt import STOPS_FOR
from scheduling.models.dependency import CONDITIONS
from scheduling.models.job import OUTCOMES, PHASES
from scheduling.models.workflow import RISKS
from scheduling.selectors.reasons import reason_sentence
from tenants.rbac import Principal


def money_text(amount: Decimal) -> str:
    """Return the exact amount without an exponent and without trailing zeros."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@extend_schema_field(OpenApiTypes.STR)
class MoneyField(serializers.Field[Decimal, str, str, Any]):
    """An amount of US dollars as text, never a binary number."""

    def to_representation(self, value: Decimal) -> str:
        """Return the text."""
        return money_text(value)


@extend_schema_field(OpenApiTypes.STR)
class ReasonSentence(serializers.Field[str, str, str, Any]):
    """The sentence of a reason code."""

    def to_representation(self, value: str) -> str:
        """Return the sentence."""
        return reason_sentence(value)


@extend_schema_field(EstimateSerializer)
class EstimateField(serializers.Field[Any, Any, dict[str, Any], Any]):
    """What a job is expected to use, of all that was named or that its kind expects."""

    def to_representation(self, value: Any) -> dict[str, Any]:  # noqa: ANN401 - a job's row
        """Return the amounts by name."""
        told = {"input_tokens": value.input_tokens, "output_tokens": value.output_tokens}
        seconds = {} if value.expected_s is None else {"seconds": value.expected_s}
        return {**told, **seconds, **value.estimate}


@extend_schema_field(OpenApiTypes.STR)
class WorkspacePath(serializers.Field[Any, str, str, Any]):
    """A workspace as tenant/workspace."""

    def to_representation(self, value: Any) -> str:  # noqa: ANN401 - a workspace's row
        """Return the path."""
        return f"{value.tenant.slug}/{value.slug}"


class Shown(serializers.Serializer[Any]):
    """Something shown; a field `job_class` goes out as `class`, which no attribute can be named."""

    def get_fields(self) -> dict[str, Any]:
        """Return the fields under the names that the API uses."""
        fields = super().get_fields()
        return {"class" if name == "job_class" else name: fields[name] for name in fields}


class AlternativeSerializer(serializers.Serializer[Any]):
    """Something that would admit the job: what to do, for programs, and in words."""

    action = serializers.CharField(allow_blank=True)
    sentence = serializers.CharField()

    def to_representation(self, instance: Any) -> dict[str, Any]:  # noqa: ANN401 (stored data)
        """Return the alternative; decisions of earlier releases stored the sentence alone."""
        if isinstance(instance, str):
            instance = {"action": "", "sentence": instance}
        return super().to_representation(instance)


class DecisionSerializer(Shown):
    """What admission said: the verdict, why, and what would change it."""

    verdict = serializers.ChoiceField([verdict.value for verdict in Verdict])
    reason = serializers.CharField()
    sentence = serializers.CharField()
    place = serializers.IntegerField(allow_null=True)
    eta = serializers.DateTimeField(allow_null=True)
    retry_at = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    reservation_id = serializers.UUIDField(allow_null=True)
    policy = serializers.IntegerField()
    control = serializers.IntegerField()
    alternatives = AlternativeSerializer(many=True)
    escalations = serializers.JSONField(
        allow_null=True, help_text="The raises of budgets without which it would not have fitted."
    )
    at = serializers.DateTimeField()


class PlaceSerializer(Shown):
    """Where a waiting job stands, when it should start and finish, and why it stands there."""

    place = serializers.IntegerField(allow_null=True)
    turn = serializers.IntegerField(allow_null=True)
    why = serializers.CharField(source="reason")
    sentence = ReasonSentence(source="reason")
    start = serializers.DateTimeField(allow_null=True)
    finish = serializers.DateTimeField(allow_null=True)
    low = serializers.DateTimeField(allow_null=True)
    high = serializers.DateTimeField(allow_null=True)
    approximate = serializers.BooleanField()


class QueueRowSerializer(PlaceSerializer):
    """One waiting job of the order."""

    job = serializers.UUIDField()
    tenant = serializers.CharField()
    workspace = serializers.CharField()
    workflow = serializers.CharField()
    job_class = serializers.CharField(source="job_class")
    cost = serializers.IntegerField()
    submitted_at = serializers.DateTimeField()


class AttemptSerializer(Shown):
    """One placement of a job."""

    id = serializers.UUIDField()
    fence = serializers.IntegerField()
    step = serializers.IntegerField()
    executor = serializers.CharField(source="executor.slug")
    state = serializers.CharField(help_text=f"One of {', '.join(AttemptState)}.")
    stop_for = serializers.CharField(
        allow_blank=True, help_text=f"What it was asked to stop for: {', '.join(STOPS_FOR)}."
    )
    cost = serializers.IntegerField()
    dispatched_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    error_class = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    usage = serializers.JSONField(allow_null=True)
    spend = MoneyField(allow_null=True)


class JobSerializer(Shown):
    """A job as lists show it. `cost` is in capacity units."""

    id = serializers.UUIDField()
    seq = serializers.IntegerField()
    tenant = serializers.CharField(source="tenant.slug")
    workspace = WorkspacePath()
    workflow = serializers.CharField(source="workflow.slug")
    mission = serializers.CharField(source="mission.slug", allow_null=True, default=None)
    pool = serializers.CharField(source="pool.slug")
    kind = serializers.CharField()
    job_class = serializers.CharField(source="job_class")
    state = serializers.ChoiceField([state.value for state in JobState])
    phase = serializers.ChoiceField(PHASES, help_text="Its work, or the review of it.")
    reason = serializers.CharField()
    sentence = ReasonSentence(source="reason")
    outcome = serializers.ChoiceField(OUTCOMES)
    held = serializers.BooleanField(source="tenant.held")
    paused = serializers.BooleanField()
    cancel_requested = serializers.BooleanField()
    cost = serializers.SerializerMethodField()
    risk = serializers.ChoiceField(RISKS)
    model = serializers.CharField(allow_blank=True)
    runs_model = serializers.CharField(allow_blank=True)
    region = serializers.CharField(allow_blank=True)
    labels = serializers.ListField(child=serializers.CharField())
    tools = serializers.ListField(child=serializers.CharField())
    data_class = serializers.CharField(allow_blank=True)
    compute_class = serializers.CharField(allow_blank=True)
    keys = serializers.ListField(child=serializers.CharField())
    estimate = EstimateField(source="*")
    max_spend = MoneyField(allow_null=True)
    max_tokens = serializers.IntegerField(allow_null=True)
    review = serializers.BooleanField(source="needs_review")
    expected_s = serializers.FloatField(allow_null=True)
    idempotent = serializers.BooleanField()
    max_attempts = serializers.IntegerField()
    tries = serializers.IntegerField()
    step = serializers.IntegerField(help_text="How many steps are done; a flow has many.")
    parent = serializers.UUIDField(  # type: ignore[assignment]
        source="parent_id", allow_null=True, help_text="The job whose work submitted it."
    )
    preemptions = serializers.IntegerField()
    submitted_by = serializers.CharField()
    submitted_at = serializers.DateTimeField()
    deadline = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    wake_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)

    def get_cost(self, job: Any) -> int:  # noqa: ANN401 - a job's row
        """Return the units that it takes: its own, else its workflow's present cost."""
        return int(job.cost or job.workflow.cost)


class SubmittedSerializer(JobSerializer):
    """A job just stored, with the decision on it."""

    decision = DecisionSerializer()


class DependencySerializer(Shown):
    """A job that is waited for until it has ended as `condition` says; `open`: it still is."""

    job = serializers.UUIDField(source="on_id")
    condition = serializers.ChoiceField(CONDITIONS)
    open = serializers.BooleanField()


class JobMoreSerializer(Shown):
    """What one job shows beyond a list. `spend` is its cost so far, in US dollars."""

    payload = serializers.JSONField()
    result = serializers.JSONField(allow_null=True)
    error = serializers.JSONField(allow_null=True)
    spend = MoneyField()
    decision = DecisionSerializer(allow_null=True)
    after = DependencySerializer(many=True)
    children = serializers.IntegerField(help_text="How many jobs it has submitted itself.")
    order = PlaceSerializer(allow_null=True)
    attempts = AttemptSerializer(many=True)


class JobDetailSerializer(JobSerializer, JobMoreSerializer):
    """A job with all that is known of it."""


class EventSerializer(Shown):
    """Something that happened to a job."""

    id = serializers.IntegerField()
    event = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    attempt_id = serializers.UUIDField(allow_null=True)
    at = serializers.DateTimeField()
    data = serializers.JSONField()  # type: ignore[assignment]


OF_OTHERS = frozenset({"for_job"})
"""The data of an event that name another tenant's job: which one this one made room for."""


def event_told(event: JobEvent, principal: Principal) -> dict[str, Any]:
    """Return an event as a principal may read it: others' jobs are named to operators alone."""
    if not principal.is_operator:
        event.data = {name: one for name, one in event.data.items() if name not in OF_OTHERS}
    return cast("dict[str, Any]", EventSerializer(event).data)  # `data` is also a field's name
