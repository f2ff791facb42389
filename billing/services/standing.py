"""How the budgets of a job stand: read for an explanation, locking and changing nothing."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from billing.models import Balance, Budget, ReservationLine
from billing.services.accounts import Chain, budgets_of, budgets_on, ledger_spent, window_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStanding:
    """One budget of a job's chain, in its present window; amounts in the dimension's unit.

    `held` is what others hold, `asked` what the job holds of it itself (None: nothing).
    """

    scope: str
    dimension: str
    window: str
    limit: Decimal
    spent: Decimal
    held: Decimal
    asked: Decimal | None
    window_ends_at: datetime | None


def budgets_standing(
    *, job_id: uuid.UUID, tenant_id: uuid.UUID, chain: Chain, now: datetime
) -> list[BudgetStanding]:
    """Return the budgets of a job's chain, the tenant's first."""
    budgets = budgets_on(budgets_of([(tenant_id, chain)]), tenant_id, chain)
    own = _held_by(job_id)
    return [_standing(budget, own, now) for budget in budgets]


def _held_by(job_id: uuid.UUID) -> Mapping[uuid.UUID, Decimal]:
    lines = ReservationLine.objects.filter(
        reservation__job_id=job_id, reservation__state="open"
    ).values_list("budget", "amount")
    return dict(lines)


def _standing(budget: Budget, own: Mapping[uuid.UUID, Decimal], now: datetime) -> BudgetStanding:
    span = window_of(budget, now)
    balance = Balance.objects.filter(budget=budget, window_start=span.start).first()
    asked = own.get(budget.id)
    held = balance.held if balance else Decimal(0)
    return BudgetStanding(
        scope=budget.scope,
        dimension=budget.dimension,
        window=budget.window,
        limit=budget.limit_at(now),
        spent=balance.spent if balance else ledger_spent(budget, span),
        held=max(Decimal(0), held - (asked or 0)),
        asked=asked,
        window_ends_at=span.end,
    )
