"""The lever on budgets: one audited function sets a ceiling.

A budget's scope, dimension, window and zone name it and never change (its balances are kept by the
starts of its windows); its limit may change at any time and acts on the next verdict. Lowering it
below what is spent and held takes nothing back: it only refuses what comes.
"""

import uuid
from dataclasses import dataclass
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import transaction

from billing.models import DIMENSIONS, SCOPES, WINDOWS, Budget
from billing.services.verdicts import plain
from tenants.controls import ControlRefused, record_change


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What names a budget: whose it is, what it limits, and per which window."""

    tenant_id: uuid.UUID
    scope: str
    scope_id: str
    dimension: str
    window: str = "none"
    timezone: str = "UTC"


@transaction.atomic
def budget_set(*, acting_user: str, reason: str, ceiling: Ceiling, limit: Decimal) -> uuid.UUID:
    """Set the limit of a budget, making it if there is none; returns its id.

    Raises `ControlRefused` for an unknown scope, dimension, window or zone, another zone than the
    budget has, a negative limit, or no reason.
    """
    _check(ceiling, limit)
    budget, made = Budget.objects.select_for_update().get_or_create(
        tenant_id=ceiling.tenant_id,
        scope=ceiling.scope,
        scope_id=ceiling.scope_id,
        dimension=ceiling.dimension,
        window=ceiling.window,
        defaults={"limit": limit, "timezone": ceiling.timezone},
    )
    if budget.timezone != ceiling.timezone:
        sentence = f"This budget counts in {budget.timezone}; that cannot change."
        raise ControlRefused("timezone", sentence)
    before = {} if made else {"limit": plain(budget.limit)}
    if not made:
        budget.limit = limit
        budget.save(update_fields=["limit"])
    record_change(
        actor=acting_user,
        action="budget_set",
        tenant=budget.tenant,
        target=("budget", budget.id),
        change=(before, {"limit": plain(limit), "budget": _named(ceiling)}),
        reason=reason,
    )
    return budget.id


def _named(ceiling: Ceiling) -> str:
    return f"{ceiling.scope} {ceiling.scope_id} {ceiling.dimension} per {ceiling.window}"


def _check(ceiling: Ceiling, limit: Decimal) -> None:
    known = {"scope": SCOPES, "dimension": DIMENSIONS, "window": WINDOWS}
    for field, choices in known.items():
        value = getattr(ceiling, field)
        if value not in choices:
            sentence = f"Unknown {field} {value!r}: use one of {', '.join(choices)}."
            raise ControlRefused(field, sentence)
    try:
        ZoneInfo(ceiling.timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        sentence = f"Unknown time zone {ceiling.timezone!r}: use a name such as Europe/Lisbon."
        raise ControlRefused("timezone", sentence) from error
    if not limit.is_finite() or limit < 0:
        raise ControlRefused("limit", f"A limit is a number from 0 up, not {limit}.")
