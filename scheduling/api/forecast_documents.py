"""How the OpenAPI page describes the forecast and the score of the ETAs, and how they go out."""

from typing import Any

from rest_framework import serializers

from scheduling.api.budget_documents import BudgetSerializer
from scheduling.api.serializers import MoneyField, Shown
from scheduling.selectors.foresight.budgets import BudgetAhead
from scheduling.selectors.foresight.outlook import GroupAhead
from scheduling.selectors.queue import moment


class SecondsField(serializers.FloatField):
    """Seconds since the epoch, shown as a time."""

    def to_representation(self, value: float) -> Any:  # noqa: ANN401 - the framework's signature
        """Return the time."""
        at = moment(value)
        return None if at is None else at.isoformat().replace("+00:00", "Z")


class SpanField(serializers.FloatField):
    """A span in seconds, shown to the millisecond: no estimate is better than that."""

    def to_representation(self, value: float) -> Any:  # noqa: ANN401 - the framework's signature
        """Return it rounded."""
        return round(float(value), 3)


class HourSerializer(Shown):
    """An hour ahead, over all tenants: what comes, what waits at its end, the mean wait.

    The first is the present hour: what comes is of all of it, what waits counts the rest of it.
    """

    starts_at = SecondsField()
    arrivals = serializers.FloatField()
    arrivals_low = serializers.FloatField()
    arrivals_high = serializers.FloatField()
    depth = serializers.FloatField()
    depth_low = serializers.FloatField()
    depth_high = serializers.FloatField()
    wait_s = SpanField(allow_null=True)


class RunsSerializer(Shown):
    """Measured runs, in seconds from dispatch to settlement."""

    count = serializers.IntegerField()
    mean_s = SpanField()
    p10_s = SpanField()
    p50_s = SpanField()
    p90_s = SpanField()
    cost = serializers.FloatField()


class GroupSerializer(Shown):
    """A workflow or capability of a tenant: arrivals of the next 24 hours, with their range."""

    key = serializers.CharField(allow_blank=True)
    tenant = serializers.SerializerMethodField()
    seen = serializers.IntegerField()
    basis = serializers.ChoiceField(["week", "day", "mean"])
    arrivals = serializers.FloatField()
    arrivals_low = serializers.FloatField()
    arrivals_high = serializers.FloatField()
    runs = RunsSerializer(allow_null=True)

    def get_tenant(self, row: GroupAhead) -> str:
        """Return the slug that the context has looked up."""
        slug: str = self.context["tenants"].get(row.tenant, row.tenant)
        return slug


class BudgetAheadSerializer(Shown):
    """A budget, what the last day drew an hour, and when that uses it up (null: not in its window)."""

    id = serializers.UUIDField(source="row.id")
    tenant = serializers.CharField(source="row.tenant")
    scope = serializers.CharField(source="row.scope")
    of = serializers.SerializerMethodField(help_text="As in /budgets.")
    dimension = serializers.CharField(source="row.dimension")
    window = serializers.CharField(source="row.window")
    window_end = serializers.DateTimeField(source="row.window_end", allow_null=True)
    left = MoneyField(source="row.left")
    per_hour = MoneyField()
    exhausted_at = serializers.DateTimeField(allow_null=True)

    def get_of(self, found: BudgetAhead) -> str:
        """Return whose it is, by the names that the context has looked up."""
        return BudgetSerializer(context=self.context).get_of(found.row)


class AdviceSerializer(Shown):
    """Units that meet the target wait as expected and with many arrivals (null: none would), units
    that recover from the outage, and how many of these the pool lacks as a reserve."""

    target_wait_s = SpanField()
    outage_s = SpanField()
    recover_s = SpanField()
    units_now = serializers.IntegerField()
    units = serializers.IntegerField(allow_null=True)
    units_high = serializers.IntegerField(allow_null=True)
    units_recover = serializers.IntegerField()
    reserve = serializers.IntegerField()


class ForecastSerializer(Shown):
    """A pool's next 24 hours. `clear_s*` are seconds until the backlog is gone while more comes.

    Told are the groups with most jobs and the budgets that are used up first; how many more there
    are, `groups_left_out` and `budgets_left_out` say.
    """

    pool = serializers.CharField()
    at = SecondsField()
    history_at = SecondsField()
    history_hours = serializers.IntegerField()
    jobs = serializers.IntegerField()
    basis = serializers.ChoiceField(["week", "day", "mean"])
    said = serializers.CharField()
    backlog = serializers.IntegerField()
    run_s = SpanField()
    clear_s = SpanField(allow_null=True)
    clear_s_low = SpanField(allow_null=True)
    clear_s_high = SpanField(allow_null=True)
    by = serializers.CharField()
    hours = HourSerializer(many=True)
    groups = GroupSerializer(many=True)
    groups_left_out = serializers.IntegerField()
    budgets = BudgetAheadSerializer(many=True)
    budgets_left_out = serializers.IntegerField()
    advice = AdviceSerializer()


class ScoreSerializer(Shown):
    """How far off the ETAs were (seconds). `bias_s` above 0: told too late. Empty names: all."""

    tenant = serializers.SerializerMethodField()
    workflow = serializers.CharField(allow_blank=True)
    count = serializers.IntegerField(source="score.count")
    mean_error_s = SpanField(source="score.mean_error_s")
    bias_s = SpanField(source="score.bias_s")
    hit_rate = serializers.FloatField(source="score.hit_rate")
    naive_error_s = SpanField()

    def get_tenant(self, row: Any) -> str:  # noqa: ANN401 - a row of the report
        """Return the slug that the context has looked up."""
        slug: str = self.context["tenants"].get(row.tenant, row.tenant)
        return slug


class HonestySerializer(Shown):
    """The newest 20,000 ETAs that came due in the span; ranges should hold four of five."""

    pool = serializers.CharField()
    span = serializers.CharField()
    rows = ScoreSerializer(many=True)
