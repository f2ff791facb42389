"""Escalations: levers that raise one budget for a time, with who answers for it and why.

Theory. What is in force is derived from time, as windows are: nothing runs when an escalation
begins or ends. Ending one early moves its end; what was admitted under it keeps its reservation.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import transaction

from billing.core.terms import NAME_LENGTH
from billing.models import Budget, Escalation
from billing.services.budgets import limit_check
from billing.services.raises import plain
from tenants.controls import ControlRefused, record_change

LONGEST = timedelta(days=366)
SMALLEST = Decimal("0.000000000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated:
    """The escalation that was made, and the change's number."""

    id: uuid.UUID
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Increase:
    """By how much a budget is raised, from when (None: at once) to when, and who answers for it
    ("": who acts)."""

    extra: Decimal
    ends_at: datetime
    starts_at: datetime | None = None
    owner: str = ""


@transaction.atomic
def budget_escalate(
    *,
    acting_user: str,
    reason: str,
    budget_id: uuid.UUID,
    increase: Increase,
    now: datetime,
) -> Escalated:
    """Raise a budget for a time.

    Raises `ControlRefused` for a raise that raises nothing, a time that is over, empty or longer
    than a year, no reason; and `Budget.DoesNotExist`.
    """
    starts_at = increase.starts_at or now
    limit_check("extra", increase.extra, least=SMALLEST)
    _check_span(starts_at, increase.ends_at, now)
    if len(increase.owner) > NAME_LENGTH:
        raise ControlRefused("owner", f"An owner has at most {NAME_LENGTH} characters.")
    budget = Budget.objects.select_for_update(no_key=True).get(id=budget_id)
    made = Escalation.objects.create(
        budget=budget,
        extra=increase.extra,
        owner=increase.owner or acting_user,
        reason=reason,
        starts_at=starts_at,
        ends_at=increase.ends_at,
    )
    number = record_change(
        actor=acting_user,
        action="budget_escalate",
        tenant=budget.tenant,
        target=("budget", budget.id),
        change=({"limit": plain(budget.limit)}, _told(made)),
        reason=reason,
    )
    return Escalated(id=made.id, number=number)


@transaction.atomic
def escalation_end(
    *, acting_user: str, reason: str, escalation_id: uuid.UUID, now: datetime
) -> int:
    """End an escalation now; returns the change's number.

    Raises `ControlRefused` for one that has ended, and `Escalation.DoesNotExist`.
    """
    rows = Escalation.objects.select_related("budget__tenant")
    row = rows.select_for_update(of=("self",), no_key=True).get(id=escalation_id)
    if row.ends_at <= now:
        raise ControlRefused("escalation", f"It ended at {row.ends_at.isoformat()} already.")
    before = _told(row)
    row.ends_at = max(row.starts_at, now)
    row.save(update_fields=["ends_at"])
    return record_change(
        actor=acting_user,
        action="escalation_end",
        tenant=row.budget.tenant,
        target=("budget", row.budget_id),
        change=(before, _told(row)),
        reason=reason,
    )


def _check_span(starts_at: datetime, ends_at: datetime, now: datetime) -> None:
    if ends_at <= max(starts_at, now):
        raise ControlRefused("ends_at", "It must end after it starts, and after now.")
    if ends_at - starts_at > LONGEST:
        sentence = f"It lasts at most {LONGEST.days} days; to raise it for good, set the limit."
        raise ControlRefused("ends_at", sentence)


def _told(row: Escalation) -> dict[str, str]:
    return {
        "escalation": str(row.id),
        "extra": plain(row.extra),
        "owner": row.owner,
        "starts_at": row.starts_at.isoformat(),
        "ends_at": row.ends_at.isoformat(),
    }
