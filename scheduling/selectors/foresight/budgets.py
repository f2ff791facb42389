"""When each budget will be used up, if it is drawn on as in the last day."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Q

from billing.core.windows import Window
from billing.services.overview import BudgetRow, budgets_count, budgets_drawn, budgets_page
from scheduling.core.eta.outlook import seconds_left

LATELY = timedelta(days=1)
MOST = 200
MOST_RANKED = 5_000
"""Of more visible budgets than this, the first by id are ranked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAhead:
    """A budget with its rate an hour and when that uses it up; None: not in its present window."""

    row: BudgetRow
    per_hour: Decimal
    exhausted_at: datetime | None


def budgets_ahead(visible: Q, now: datetime) -> tuple[list[BudgetAhead], int]:
    """Return the visible budgets that are used up first, in this order, and how many are left out."""
    rows, more = budgets_page(visible, now=now, after=None, size=MOST_RANKED)
    drawn = budgets_drawn([row.id for row in rows], Window(start=now - LATELY, end=now))
    found = [_ahead(row, drawn.get(row.id, Decimal(0)), now) for row in rows]
    never = now + timedelta(days=36_500)
    found.sort(key=lambda one: (one.exhausted_at or never, one.row.id))
    seen = len(rows) if more is None else budgets_count(visible)
    told = found[:MOST]
    return told, seen - len(told)


def _ahead(row: BudgetRow, drawn: Decimal, now: datetime) -> BudgetAhead:
    window_s = (row.window_end - now).total_seconds() if row.window_end else None
    rate = float(drawn) / LATELY.total_seconds()  # a rate in time, never an amount that is booked
    seconds = seconds_left(float(row.left), rate, window_s)
    far = seconds is None or seconds > timedelta(days=36_500).total_seconds()
    return BudgetAhead(
        row=row,
        per_hour=(drawn / 24).quantize(Decimal("0.000001")),
        exhausted_at=None if far or seconds is None else now + timedelta(seconds=seconds),
    )
