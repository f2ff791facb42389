"""The accounts that a chain of scopes draws on: budgets in a window, their balances locked in sets.

Theory. A balance caches what the reservations and the ledger say, so that a verdict reads one row
a budget. All writers do the same three things in the same order: make the missing balance rows
(sorted, summed up from the ledger), then lock all of a call's rows with one statement in the order
of their ids, then change them in memory and write them back with one statement. One call, one
locking statement: two calls in one transaction could lock in opposite orders.
"""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db import connection, transaction
from django.db.models import DecimalField, Sum

from billing.core.dimensions import ATTEMPT_EVENT, DIMENSION_METERS, MARKER_METER, NEXT_STEP
from billing.core.windows import Window, window
from billing.models import Budget, LedgerEntry
from billing.services.sets import columns
from tenants.ids import new_id

Chain = tuple[tuple[str, str], ...]
"""(scope, scope id) from the tenant to the job."""
Place = tuple[uuid.UUID, datetime]
"""(budget, start of its window): what names a balance."""
ScopeKey = tuple[str, str, str]

SPENT_KINDS = ("incurred", "wasted")
"""The amounts that count against budgets."""
SCOPE_COLUMNS = {
    "tenant": "tenant_id",
    "workspace": "workspace_id",
    "member": "member_id",
    "workflow": "workflow_id",
    "mission": "mission_id",
    "job": "job_id",
    "attempt": "attempt_id",
}


@dataclass(slots=True, kw_only=True)
class Account:
    """A budget in one window with its balance, locked. Changed in memory, then written back."""

    budget: Budget
    window: Window
    balance_id: uuid.UUID
    dimension: str
    limit: Decimal
    spent: Decimal
    held: Decimal


def require_transaction(what: str) -> None:
    """Raise `TransactionManagementError` outside a transaction."""
    if not connection.in_atomic_block:
        message = f"{what} must be called inside the transaction of its verdict"
        raise transaction.TransactionManagementError(message)


def budgets_of(chains: Iterable[tuple[uuid.UUID, Chain]]) -> dict[ScopeKey, list[Budget]]:
    """Return the budgets of all scopes of the (tenant, chain) pairs, by (tenant, scope, id)."""
    keys = {(str(tenant), scope, name) for tenant, chain in chains for scope, name in chain}
    found: dict[ScopeKey, list[Budget]] = {}
    if not keys:
        return found
    budgets = Budget.objects.raw(
        "SELECT b.* FROM billing_budget b "
        "JOIN unnest(%s::uuid[], %s::text[], %s::text[]) k(tenant, scope, name) "
        "ON b.tenant_id = k.tenant AND b.scope = k.scope AND b.scope_id = k.name "
        "ORDER BY b.dimension, b.id",
        columns(sorted(keys)),
    )
    for budget in budgets:
        key = (str(budget.tenant_id), budget.scope, budget.scope_id)
        found.setdefault(key, []).append(budget)
    return found


def budgets_on(
    budgets: dict[ScopeKey, list[Budget]], tenant_id: uuid.UUID, chain: Chain
) -> list[Budget]:
    """Return the budgets of one chain in its order, the tenant's first."""
    tenant = str(tenant_id)
    return [b for scope, name in chain for b in budgets.get((tenant, scope, name), ())]


def window_of(budget: Budget, at: datetime) -> Window:
    """Return the budget's window that contains an instant."""
    return window(budget.window, ZoneInfo(budget.timezone), at)


def balances_ensure(places: dict[Place, tuple[Budget, Window]]) -> None:
    """Make the balance rows that are missing, with what the ledger says was spent already."""
    if not places:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT k.budget, k.start FROM unnest(%s::uuid[], %s::timestamptz[]) k(budget, start) "
            "LEFT JOIN billing_balance b ON b.budget_id = k.budget AND b.window_start = k.start "
            "WHERE b.id IS NULL ORDER BY k.budget, k.start",
            columns(places),
        )
        missing = cursor.fetchall()
    if missing:
        _balances_insert([places[place] for place in missing])


def accounts_lock(places: dict[Place, tuple[Budget, Window]]) -> dict[Place, Account]:
    """Lock the balances of the places, in the order of their ids, and return the accounts."""
    if not places:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT b.budget_id, b.window_start, b.id, b.spent, b.held FROM billing_balance b "
            "JOIN unnest(%s::uuid[], %s::timestamptz[]) k(budget, start) "
            "ON b.budget_id = k.budget AND b.window_start = k.start "
            "ORDER BY b.id FOR UPDATE OF b",
            columns(places),
        )
        rows = cursor.fetchall()
    return {(row[0], row[1]): _account(places[row[0], row[1]], row[2:]) for row in rows}


def _account(place: tuple[Budget, Window], balance: tuple[uuid.UUID, Decimal, Decimal]) -> Account:
    budget, span = place
    balance_id, spent, held = balance
    return Account(
        budget=budget,
        window=span,
        balance_id=balance_id,
        dimension=budget.dimension,
        limit=budget.limit,
        spent=spent,
        held=held,
    )


def accounts_write(accounts: Collection[Account]) -> None:
    """Write the accounts' sums back in one statement; their rows must be locked."""
    if not accounts:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE billing_balance b SET spent = k.spent, held = k.held "
            "FROM unnest(%s::uuid[], %s::numeric[], %s::numeric[]) k(id, spent, held) "
            "WHERE b.id = k.id",
            columns([(account.balance_id, account.spent, account.held) for account in accounts]),
        )


def ledger_spent(budget: Budget, span: Window) -> Decimal:
    """Return what the ledger says was spent of a budget in a window."""
    rows = LedgerEntry.objects.filter(
        tenant_id=budget.tenant_id, kind__in=SPENT_KINDS, dispatched_at__gte=span.start
    )
    if span.end is not None:
        rows = rows.filter(dispatched_at__lt=span.end)
    if budget.scope != "tenant":
        column = SCOPE_COLUMNS[budget.scope]
        if column != "member_id" and not _is_uuid(budget.scope_id):
            return Decimal(0)
        rows = rows.filter(**{column: budget.scope_id})
    if budget.dimension == "attempts":
        tries = rows.filter(meter=MARKER_METER, source_event=ATTEMPT_EVENT)
        return Decimal(tries.exclude(flags__contains=[NEXT_STEP]).count())
    if budget.dimension == "spend":
        found = rows.aggregate(sum=Sum("amount"))["sum"]
    else:
        rows = rows.filter(meter__in=DIMENSION_METERS[budget.dimension])
        quantities = Sum("quantity", output_field=DecimalField())
        found = rows.aggregate(sum=quantities)["sum"]
    return Decimal(found or 0)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _balances_insert(missing: list[tuple[Budget, Window]]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO billing_balance (id, budget_id, window_start, held, spent) "
            "SELECT id, budget, start, 0, spent FROM "
            "unnest(%s::uuid[], %s::uuid[], %s::timestamptz[], %s::numeric[]) "
            "k(id, budget, start, spent) ON CONFLICT (budget_id, window_start) DO NOTHING",
            columns(
                [
                    (new_id(), budget.id, span.start, ledger_spent(budget, span))
                    for budget, span in missing
                ]
            ),
        )
