"""Whether the cached balances still say what the reservations and the ledger say.

Theory. held = the open reservations' lines of that budget and window; spent = the ledger rows of
its scope whose attempts were dispatched in that window. A difference is a defect or a budget made
while its first usage was being booked; the repair writes the rebuilt sums.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import Sum

from billing.models import Balance, Budget, ReservationLine
from billing.services.accounts import ledger_spent, window_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A balance that is not what its rows add up to."""

    balance_id: uuid.UUID
    budget: Budget
    window_start: datetime
    held: Decimal
    held_rebuilt: Decimal
    spent: Decimal
    spent_rebuilt: Decimal

    def __str__(self) -> str:
        return (
            f"{self.budget} from {self.window_start.isoformat()}: held {self.held}, rebuilt "
            f"{self.held_rebuilt}; spent {self.spent}, rebuilt {self.spent_rebuilt}"
        )


def balances_differ(*, tenant_id: uuid.UUID | None = None) -> list[Difference]:
    """Return the balances that differ from their rebuilt sums, in the order of their ids.

    Of all tenants, or of one. Each balance is compared under its row lock, so that work in flight
    is no difference.
    """
    found = (_compared(balance_id) for balance_id in _balance_ids(tenant_id))
    return [difference for difference in found if difference is not None]


def balances_repair() -> list[Difference]:
    """Write the rebuilt sums of the balances that differ; returns what they were."""
    found = (_repaired(balance_id) for balance_id in _balance_ids(None))
    return [difference for difference in found if difference is not None]


def _balance_ids(tenant_id: uuid.UUID | None) -> list[uuid.UUID]:
    balances = Balance.objects.all()
    if tenant_id is not None:
        balances = balances.filter(budget__tenant_id=tenant_id)
    return list(balances.order_by("id").values_list("id", flat=True))


@transaction.atomic
def _compared(balance_id: uuid.UUID) -> Difference | None:
    balance = (
        Balance.objects.select_for_update(of=("self",))
        .select_related("budget")
        .filter(id=balance_id)
        .first()
    )
    if balance is None:
        return None
    held, spent = _held(balance), _spent(balance)
    if (balance.held, balance.spent) == (held, spent):
        return None
    return Difference(
        balance_id=balance.id,
        budget=balance.budget,
        window_start=balance.window_start,
        held=balance.held,
        held_rebuilt=held,
        spent=balance.spent,
        spent_rebuilt=spent,
    )


@transaction.atomic
def _repaired(balance_id: uuid.UUID) -> Difference | None:
    difference = _compared(balance_id)
    if difference is not None:
        Balance.objects.filter(id=balance_id).update(
            held=difference.held_rebuilt, spent=difference.spent_rebuilt
        )
    return difference


def _held(balance: Balance) -> Decimal:
    lines = ReservationLine.objects.filter(
        budget_id=balance.budget_id,
        window_start=balance.window_start,
        reservation__state="open",
    )
    return lines.aggregate(sum=Sum("amount"))["sum"] or Decimal(0)


def _spent(balance: Balance) -> Decimal:
    return ledger_spent(balance.budget, window_of(balance.budget, balance.window_start))
