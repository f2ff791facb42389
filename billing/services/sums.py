"""What the ledger says was spent of many budgets at once: one statement a span and scope.

The same sums as `ledger_spent`'s, which a verdict takes for the one balance that it makes; a page
or a forecast of budgets would ask hundreds of those.
"""

import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from decimal import Decimal

from django.db.models import Aggregate, Count, DecimalField, Q, Sum

from billing.core.dimensions import ATTEMPT_EVENT, DIMENSION_METERS, MARKER_METER, NEXT_STEP
from billing.core.windows import Window
from billing.models import Budget, LedgerEntry
from billing.services.accounts import SCOPE_COLUMNS, SPENT_KINDS, is_uuid

_MOST_IDS = 1000
"""The ids that one statement names."""


def ledger_sums(drawn: Collection[tuple[Budget, Window]]) -> dict[uuid.UUID, Decimal]:
    """Return what was spent of each budget in its span, 0 included, by the budget's id.

    A ceiling of single attempts is drawn on by none of them together, so its sum is 0.
    """
    found = {budget.id: Decimal(0) for budget, _ in drawn}
    alike: dict[tuple[Window, str], list[Budget]] = defaultdict(list)
    for budget, span in drawn:
        if budget.scope != "attempt" and _has_rows(budget):
            alike[span, budget.scope].append(budget)
    for (span, scope), budgets in alike.items():
        for start in range(0, len(budgets), _MOST_IDS):
            found |= _sums(budgets[start : start + _MOST_IDS], span, SCOPE_COLUMNS[scope])
    return found


def _has_rows(budget: Budget) -> bool:
    return budget.scope in ("tenant", "member") or is_uuid(budget.scope_id)


def _sums(budgets: Sequence[Budget], span: Window, column: str) -> dict[uuid.UUID, Decimal]:
    """Return the sums of budgets of one span and scope."""
    rows = LedgerEntry.objects.filter(
        tenant_id__in={budget.tenant_id for budget in budgets},
        kind__in=SPENT_KINDS,
        dispatched_at__gte=span.start,
    )
    if span.end is not None:
        rows = rows.filter(dispatched_at__lt=span.end)
    if column != "tenant_id":
        rows = rows.filter(**{f"{column}__in": {budget.scope_id for budget in budgets}})
    dimensions = sorted({budget.dimension for budget in budgets})
    sums = {f"of_{name}": _measure(name) for name in dimensions}
    found = rows.order_by().values("tenant_id", column).annotate(**sums)
    by_key = {(row["tenant_id"], str(row[column])): row for row in found}
    return {
        budget.id: Decimal(by_key[key][f"of_{budget.dimension}"] or 0)
        for budget in budgets
        if (key := _key(budget, column)) in by_key
    }


def _key(budget: Budget, column: str) -> tuple[uuid.UUID, str]:
    if column == "tenant_id":
        return budget.tenant_id, str(budget.tenant_id)
    named = budget.scope_id
    return budget.tenant_id, named if column == "member_id" else str(uuid.UUID(named))


def _measure(dimension: str) -> Aggregate:
    if dimension == "spend":
        return Sum("amount")
    if dimension == "attempts":
        tries = Q(meter=MARKER_METER, source_event=ATTEMPT_EVENT)
        return Count("id", filter=tries & ~Q(flags__contains=[NEXT_STEP]))
    meters = Q(meter__in=DIMENSION_METERS[dimension])
    return Sum("quantity", filter=meters, output_field=DecimalField())
