"""Budgets as people look at them: in their present window, with what is spent, held and left.

Nothing is locked and nothing made: a budget that nobody has drawn on in this window yet is summed
up from the ledger.
"""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Q

from billing.core.windows import Window
from billing.models import Balance, Budget, BudgetDefault, Escalation
from billing.services.accounts import window_of
from billing.services.sums import ledger_sums

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    """One budget now. `effective` is its limit with the escalations in force; `left` is never
    negative, also after an overrun."""

    id: uuid.UUID
    tenant: str
    tenant_id: uuid.UUID
    scope: str
    scope_id: str
    dimension: str
    window: str
    timezone: str
    anchor: int
    window_start: datetime
    window_end: datetime | None
    limit: Decimal
    effective: Decimal
    spent: Decimal
    held: Decimal
    escalations: Sequence[Escalation]

    @property
    def left(self) -> Decimal:
        """What may still be asked for."""
        return max(_ZERO, self.effective - self.spent - self.held)


def budgets_page(
    visible: Q, *, now: datetime, after: uuid.UUID | None, size: int
) -> tuple[list[BudgetRow], uuid.UUID | None]:
    """Return up to `size` visible budgets by id, and the id after which there are more."""
    rows = Budget.objects.filter(visible).select_related("tenant").prefetch_related("escalations")
    if after is not None:
        rows = rows.filter(id__gt=after)
    found = list(rows.order_by("id")[: size + 1])
    shown = found[:size]
    more = shown[-1].id if len(found) > size else None
    return _rows(shown, now), more


def budgets_drawn(ids: Collection[uuid.UUID], span: Window) -> dict[uuid.UUID, Decimal]:
    """Return what the ledger says was spent of each budget in a span of any length."""
    return ledger_sums([(row, span) for row in Budget.objects.filter(id__in=ids)])


def budgets_count(visible: Q) -> int:
    """Return how many budgets a filter lets through."""
    return Budget.objects.filter(visible).count()


def budget_of_escalation(escalation_id: uuid.UUID) -> uuid.UUID | None:
    """Return the budget that an escalation raises, None where there is no such escalation."""
    rows = Escalation.objects.filter(id=escalation_id)
    return rows.values_list("budget", flat=True).first()


def defaults_seen(visible: Q) -> list[BudgetDefault]:
    """Return the defaults of the tenants that a filter on `tenant` lets through."""
    return list(BudgetDefault.objects.filter(visible).select_related("tenant"))


def _rows(budgets: Sequence[Budget], now: datetime) -> list[BudgetRow]:
    spans = {budget.id: window_of(budget, now) for budget in budgets}
    starts = {span.start for span in spans.values()}
    balances = {
        (balance.budget_id, balance.window_start): balance
        for balance in Balance.objects.filter(budget__in=spans, window_start__in=starts)
    }
    places = [(budget, balances.get((budget.id, spans[budget.id].start))) for budget in budgets]
    sums = ledger_sums([(budget, spans[budget.id]) for budget, balance in places if not balance])
    return [
        _row(
            budget,
            spans[budget.id],
            (balance.spent, balance.held) if balance else (sums[budget.id], _ZERO),
            now,
        )
        for budget, balance in places
    ]


def _row(budget: Budget, span: Window, sums: tuple[Decimal, Decimal], now: datetime) -> BudgetRow:
    spent, held = sums
    return BudgetRow(
        id=budget.id,
        tenant=budget.tenant.slug,
        tenant_id=budget.tenant_id,
        scope=budget.scope,
        scope_id=budget.scope_id,
        dimension=budget.dimension,
        window=budget.window,
        timezone=budget.timezone,
        anchor=budget.anchor,
        window_start=span.start,
        window_end=span.end,
        limit=budget.limit,
        effective=budget.limit_at(now),
        spent=spent,
        held=held,
        escalations=budget.escalations_at(now),
    )
