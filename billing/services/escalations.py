"""Escalations: levers that raise one budget for a time, with who answers for it and why.

Theory. What is in force is derived from time, as windows are: nothing runs when an escalation
begins or ends. Ending one early moves its end; what was admitted under it keeps its reservation.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import transaction

from billing.models import Budget, Escalation
from billing.services.budgets import limit_check
from billing.services.raises import plain
from tenants.controls import record_change
from tenants.escalations import Escalated, Term, early_end, term_start

SMALLEST = Decimal("0.000000000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Increase(Term):
    """By how much a budget is raised, from when to when, and who answers for it."""

    extra: Decimal


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
    limit_check("extra", increase.extra, least=SMALLEST)
    starts_at = term_start(increase, now)
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
    before = _told(row)
    row.ends_at = early_end(row.starts_at, row.ends_at, now)
    row.save(update_fields=["ends_at"])
    return record_change(
        actor=acting_user,
        action="escalation_end",
        tenant=row.budget.tenant,
        target=("budget", row.budget_id),
        change=(before, _told(row)),
        reason=reason,
    )


def _told(row: Escalation) -> dict[str, str]:
    return {
        "escalation": str(row.id),
        "extra": plain(row.extra),
        "owner": row.owner,
        "starts_at": row.starts_at.isoformat(),
        "ends_at": row.ends_at.isoformat(),
    }
