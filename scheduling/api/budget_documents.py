"""How the OpenAPI page describes budgets, and how they go out."""

from rest_framework import serializers

from billing.core.terms import DEFAULT_SCOPES, DIMENSIONS, SCOPES, WINDOWS
from billing.services.overview import BudgetRow
from scheduling.api.levers import ReasonSerializer
from scheduling.api.serializers import MoneyField, Shown


class EscalationSerializer(Shown):
    """A raise in force."""

    id = serializers.UUIDField()
    extra = MoneyField()
    owner = serializers.CharField()
    reason = serializers.CharField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class CeilingSerializer(Shown):
    """What is limited, how far, per which window from which day on."""

    tenant = serializers.CharField()
    scope = serializers.CharField(help_text=f"One of {', '.join(SCOPES)}.")
    dimension = serializers.ChoiceField(DIMENSIONS)
    window = serializers.ChoiceField(WINDOWS)
    timezone = serializers.CharField()
    anchor = serializers.IntegerField()
    limit = MoneyField()


class BudgetSerializer(CeilingSerializer):
    """A ceiling in its present window; `effective` has the escalations in force in it."""

    id = serializers.UUIDField()
    of = serializers.SerializerMethodField(
        help_text="A slug, a member's name or an id; '' for the tenant."
    )
    window_start = serializers.DateTimeField()
    window_end = serializers.DateTimeField(allow_null=True)
    effective = MoneyField()
    spent = MoneyField()
    held = MoneyField()
    left = MoneyField()
    escalations = EscalationSerializer(many=True)

    def get_of(self, row: BudgetRow) -> str:
        """Return whose it is, by the names that the context has looked up."""
        named: str = self.context["names"](row)
        return named


class BudgetPageSerializer(Shown):
    """Some budgets, and where more are."""

    results = BudgetSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class WindowSerializer(ReasonSerializer):
    """What names a ceiling, beside whose it is."""

    tenant = serializers.CharField()
    dimension = serializers.ChoiceField(DIMENSIONS)
    window = serializers.ChoiceField(WINDOWS, required=False)
    timezone = serializers.CharField(required=False)
    anchor = serializers.IntegerField(required=False)


class BudgetSetSerializer(WindowSerializer):
    """A ceiling to be set; `of` names whose it is within the tenant."""

    scope = serializers.CharField(help_text=f"One of {', '.join(SCOPES)}.")
    of = serializers.CharField(required=False)
    limit = serializers.CharField(help_text='A number as text, for example "12.50".')


class DefaultSerializer(CeilingSerializer):
    """What each new scope of that kind gets on first use."""

    scope = serializers.CharField(help_text=f"One of {', '.join(DEFAULT_SCOPES)}.")


class DefaultSetSerializer(WindowSerializer):
    """A default to be set, or taken away (null)."""

    scope = serializers.CharField(help_text=f"One of {', '.join(DEFAULT_SCOPES)}.")
    limit = serializers.CharField(allow_null=True)


class EscalateSerializer(ReasonSerializer):
    """A raise: by how much, until when, from when (now), who answers for it (who asks)."""

    extra = serializers.CharField(help_text='A number as text, for example "12.50".')
    ends_at = serializers.DateTimeField()
    starts_at = serializers.DateTimeField(required=False)
    owner = serializers.CharField(required=False)
