"""The accounts that a chain of scopes draws on: budgets in a window, their balances locked in sets.

Theory. A balance caches what the reservations and the ledger say, so that a verdict reads one row
a budget. All writers lock all of a call's rows with one statement in the order of their ids, missing
ones made before (sorted, summed up from the ledger). Who must look at a balance to decide changes it
in memory and writes it back; who only adds or gives back moves it by a difference (`balances`). One
call, one locking statement: two calls in one transaction could lock in opposite orders.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial, reduce
from operator import or_
from zoneinfo import ZoneInfo

from django.db import connection, transaction
from django.db.models import DecimalField, Sum

from billing.core.dimensions import ATTEMPT_EVENT, DIMENSION_METERS, MARKER_METER, NEXT_STEP
from billing.core.windows import Window, window
from billing.models import Budget, LedgerEntry
from billing.services.sets import columns
from tenants.controls import Version, control_version
from tenants.ids import new_id
from tenants.prepared import prepared
from tenants.remembered import Remembered

Chain = tuple[tuple[str, str], ...]
"""(scope, scope id) from the tenant to the job."""
Place = tuple[uuid.UUID, datetime]
"""(budget, start of its window): what names a balance."""
Places = Mapping[Place, tuple[Budget, Window]]
"""What the places name."""
Budgets = dict[tuple[str, str, str], list[Budget]]
"""Budgets by (tenant, scope, scope id)."""

MOST_SEEN = 100_000
_seen: set[Place] = set()
"""Places whose balance is known to be committed."""

SPENT_KINDS = ("incurred", "wasted")
"""The amounts that count against budgets."""
SCOPE_COLUMNS = {
    "tenant": "tenant_id",
    "workspace": "workspace_id",
    "member": "member_id",
    "workflow": "workflow_id",
    "mission": "mission_id",
    "job": "job_id",
}


@dataclass(slots=True, kw_only=True)
class Account:
    """A budget in one window with its balance, locked. Changed in memory, then written back.

    `limit` is the budget's own; a verdict sets it to what is in force at its moment.
    """

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
        message = f"{what} must be called inside the transaction of what it answers for"
        raise transaction.TransactionManagementError(message)


def budgets_of(
    chains: Iterable[tuple[uuid.UUID, Chain]], version: Version | None = None
) -> Budgets:
    """Return the budgets of the chains' tenants, by (tenant, scope, id); change nothing in it.

    They are remembered while the control clock stands still; `version` is where it stands, if the
    caller has read it in this transaction already.
    """
    tenants = {tenant for tenant, _ in chains}
    if not tenants:
        return {}
    now = control_version() if version is None else version
    first, *others = [_budgets.at(now, tenant) for tenant in tenants]
    return reduce(or_, others, first) if others else first


def _budgets_read(tenant_id: uuid.UUID, _version: Version) -> Budgets:
    return budgets_read(tenant_id)


def budgets_read(tenant_id: uuid.UUID) -> Budgets:
    """Read a tenant's budgets as they stand in this transaction."""
    found: Budgets = {}
    rows = Budget.objects.filter(tenant=tenant_id).prefetch_related("escalations")
    for budget in rows.order_by("dimension", "id"):
        key = (str(budget.tenant_id), budget.scope, budget.scope_id)
        found.setdefault(key, []).append(budget)
    return found


_budgets = Remembered(_budgets_read)


def budgets_on(budgets: Budgets, tenant_id: uuid.UUID, chain: Chain) -> list[Budget]:
    """Return the budgets of one chain in its order, the tenant's first."""
    tenant = str(tenant_id)
    return [b for scope, name in chain for b in budgets.get((tenant, scope, name), ())]


def window_of(budget: Budget, at: datetime) -> Window:
    """Return the budget's window that contains an instant."""
    return window(budget.window, ZoneInfo(budget.timezone), at, budget.anchor)


def caps_on(budgets: Budgets, tenant_id: uuid.UUID, chain: Chain) -> list[Budget]:
    """Return the ceilings of single attempts that the chain's scopes have, its order kept."""
    tenant = str(tenant_id)
    return [b for _, name in chain for b in budgets.get((tenant, "attempt", name), ())]


def cap_account(budget: Budget, now: datetime) -> Account:
    """Return the account of a ceiling of single attempts: it never holds nor spends anything."""
    return Account(
        budget=budget,
        window=window_of(budget, now),
        balance_id=budget.id,
        dimension=budget.dimension,
        limit=budget.limit_at(now),
        spent=Decimal(0),
        held=Decimal(0),
    )


def balances_ensure(places: Places) -> None:
    """Make the balance rows that are missing, with what the ledger says was spent already.

    Those that this process has seen committed are not asked for again.
    """
    unseen = {place: places[place] for place in places if place not in _seen}
    if unseen:
        balances_make(unseen)
        transaction.on_commit(partial(_remember, set(unseen)))


def balances_make(places: Places) -> None:
    """Make the balance rows that are missing, whatever this process has seen before."""
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


def _remember(places: set[Place]) -> None:
    if len(_seen) > MOST_SEEN:
        _seen.clear()
    _seen.update(places)


def accounts_open(places: Places, now: datetime) -> dict[Place, Account]:
    """Lock the balances of the places, made where missing; return the accounts with the limits
    in force now.

    The first try locks all of them or none: some locked while the others are made could close a
    circle with another call.
    """
    accounts = _lock(places, least=len(places))
    if len(accounts) < len(places):
        balances_make(places)
        accounts = accounts_lock(places)
    limits_raise(accounts.values(), now)
    return accounts


def limits_raise(accounts: Iterable[Account], now: datetime) -> None:
    """Set the accounts' limits to what is in force now."""
    for account in accounts:
        account.limit = account.budget.limit_at(now)


def accounts_lock(places: Places) -> dict[Place, Account]:
    """Lock those of the balances that exist, in the order of their ids, and return the accounts."""
    return _lock(places, least=0)


def _lock(places: Places, *, least: int) -> dict[Place, Account]:
    """Lock the balances of the places, or nothing where fewer than `least` of them exist."""
    if not places:
        return {}
    sets = columns(places)
    with prepared() as cursor:
        cursor.execute(
            "WITH k AS MATERIALIZED (SELECT b.id FROM billing_balance b "
            "JOIN unnest(%s::uuid[], %s::timestamptz[]) k(budget, start) "
            "ON b.budget_id = k.budget AND b.window_start = k.start "
            "WHERE b.budget_id = ANY(%s::uuid[])) "
            "SELECT budget_id, window_start, id, spent, held FROM billing_balance "
            "WHERE id IN (SELECT id FROM k) AND (SELECT count(*) FROM k) >= %s "
            "ORDER BY id FOR UPDATE",
            [*sets, sets[0], least],
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
    """Return what the ledger says was spent of a budget in a window.

    Raises KeyError for a ceiling of single attempts: nothing is summed up in one.
    """
    rows = LedgerEntry.objects.filter(
        tenant_id=budget.tenant_id, kind__in=SPENT_KINDS, dispatched_at__gte=span.start
    )
    if span.end is not None:
        rows = rows.filter(dispatched_at__lt=span.end)
    if budget.scope != "tenant":
        column = SCOPE_COLUMNS[budget.scope]
        if column != "member_id" and not is_uuid(budget.scope_id):
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


def is_uuid(text: str) -> bool:
    """Say whether a scope's id may be that of a row."""
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
