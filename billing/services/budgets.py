"""The levers on budgets: one audited function sets a ceiling.

A budget's scope, dimension, window, zone and anchor name it and never change (its balances are kept
by the starts of its windows); its limit may change at any time and acts on the next verdict.
Lowering it below what is spent and held takes nothing back: it only refuses what comes.
"""

import uuid
from dataclasses import dataclass
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import transaction

from billing.core.terms import DIMENSIONS, MOST_ANCHOR, NAME_LENGTH, SCOPES, WINDOWS
from billing.models import Budget
from billing.services.raises import plain
from tenants.controls import ControlRefused, record_change

MOST = Decimal(10) ** 24
PLACES = -12
LAST_ANCHOR = {"week": 7, "month": MOST_ANCHOR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What names a budget: whose it is, what it limits, and per which window from which day on."""

    tenant_id: uuid.UUID
    scope: str
    scope_id: str
    dimension: str
    window: str = "none"
    timezone: str = "UTC"
    anchor: int = 1


@transaction.atomic
def budget_set(*, acting_user: str, reason: str, ceiling: Ceiling, limit: Decimal) -> uuid.UUID:
    """Set the limit of a budget, making it if there is none; returns its id.

    Raises `ControlRefused` for an unknown scope, dimension, window or zone, another zone or anchor
    than the budget has, a limit that is none, or no reason.
    """
    return ceiling_set(acting_user=acting_user, reason=reason, ceiling=ceiling, limit=limit)[0]


@transaction.atomic
def ceiling_set(
    *, acting_user: str, reason: str, ceiling: Ceiling, limit: Decimal
) -> tuple[uuid.UUID, int]:
    """Do as `budget_set`; returns the budget's id and the change's number."""
    ceiling_check(ceiling)
    limit_check("limit", limit)
    budget, made = Budget.objects.select_for_update(no_key=True).get_or_create(
        tenant_id=ceiling.tenant_id,
        scope=ceiling.scope,
        scope_id=ceiling.scope_id,
        dimension=ceiling.dimension,
        window=ceiling.window,
        defaults={"limit": limit, "timezone": ceiling.timezone, "anchor": ceiling.anchor},
    )
    for name in ("timezone", "anchor"):
        if getattr(budget, name) != getattr(ceiling, name):
            sentence = f"This budget counts in {getattr(budget, name)}; that cannot change."
            raise ControlRefused(name, sentence)
    before = {} if made else {"limit": plain(budget.limit)}
    if not made:
        budget.limit = limit
        budget.save(update_fields=["limit"])
    number = record_change(
        actor=acting_user,
        action="budget_set",
        tenant=budget.tenant,
        target=("budget", budget.id),
        change=(before, {"limit": plain(limit), "budget": _named(ceiling)}),
        reason=reason,
    )
    return budget.id, number


def ceiling_check(ceiling: Ceiling) -> None:
    """Raise `ControlRefused` for a ceiling that cannot be."""
    known = {"scope": SCOPES, "dimension": DIMENSIONS, "window": WINDOWS}
    for field, choices in known.items():
        value = getattr(ceiling, field)
        if value not in choices:
            sentence = f"Unknown {field} {value!r}: use one of {', '.join(choices)}."
            raise ControlRefused(field, sentence)
    if not 1 <= len(ceiling.scope_id) <= NAME_LENGTH:
        sentence = f"Say whose budget it is, in 1 to {NAME_LENGTH} characters."
        raise ControlRefused("scope_id", sentence)
    if ceiling.scope == "attempt" and ceiling.window != "none":
        raise ControlRefused("window", "A ceiling of single attempts has the window none.")
    _check_calendar(ceiling)


def limit_check(field: str, limit: Decimal, *, least: Decimal = Decimal(0)) -> None:
    """Raise `ControlRefused` for a number that no budget can have or be raised by."""
    if not limit.is_finite() or not least <= limit < MOST:
        raise ControlRefused(field, f"It is a number from {least} to below 10^24, not {limit}.")
    exponent = limit.normalize().as_tuple().exponent
    if isinstance(exponent, int) and exponent < PLACES:
        raise ControlRefused(field, f"It has at most {-PLACES} decimal places; {limit} has more.")


def _check_calendar(ceiling: Ceiling) -> None:
    try:
        ZoneInfo(ceiling.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        sentence = f"Unknown time zone {ceiling.timezone!r}: use a name such as Europe/Lisbon."
        raise ControlRefused("timezone", sentence) from error
    last = LAST_ANCHOR.get(ceiling.window, 1)
    if not 1 <= ceiling.anchor <= last:
        sentence = (
            f"The day on which a {ceiling.window} begins is 1 to {last}, not {ceiling.anchor}."
            if last > 1
            else "Only a week or a month may begin on another day than 1."
        )
        raise ControlRefused("anchor", sentence)


def _named(ceiling: Ceiling) -> str:
    return f"{ceiling.scope} {ceiling.scope_id} {ceiling.dimension} per {ceiling.window}"
