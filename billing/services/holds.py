"""Open reservations: closing them, and giving back what their lines hold.

Theory. A reservation is closed exactly once, by whoever moves its row out of "open"; its lines name
the windows they were made in, and what they hold is given back there, whatever the window is now.
Rows are locked in the order of their ids, reservations before balances.
"""

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from django.db import connection

from billing.core.windows import Window
from billing.models import Budget, Reservation
from billing.services.accounts import Account, Place, window_of
from billing.services.sets import array


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The reserved money of the jobs whose reservation this call closed, and the sums to give
    back, by balance."""

    spend: dict[uuid.UUID, Decimal] = field(default_factory=dict)
    holds: dict[Place, Decimal] = field(default_factory=dict)


def reservations_close(
    *, job_ids: Collection[uuid.UUID], state: str, now: datetime | None
) -> Closed:
    """Move the jobs' open reservations to a closed state; `now` None is the database's time.

    The caller locks the balances of the holds and takes them off.
    """
    if not job_ids:
        return Closed()
    open_ids = (
        Reservation.objects.select_for_update()
        .filter(job_id__in=job_ids, state="open")
        .order_by("id")
        .values_list("id", flat=True)
    )
    return closed_of(list(open_ids), state, now)


def closed_of(ids: Collection[uuid.UUID], state: str, now: datetime | None) -> Closed:
    """Close the open reservations, locked already, and return what they held."""
    if not ids:
        return Closed()
    listed = array(ids)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE billing_reservation SET state = %s, "
            "closed_at = coalesce(%s::timestamptz, statement_timestamp()) "
            "WHERE id = ANY(%s::uuid[]) RETURNING job_id, spend",
            [state, now, listed],
        )
        spend = dict(cursor.fetchall())
        cursor.execute(
            "SELECT budget_id, window_start, sum(amount) FROM billing_reservationline "
            "WHERE reservation_id = ANY(%s::uuid[]) GROUP BY budget_id, window_start",
            [listed],
        )
        holds = {(budget_id, start): held for budget_id, start, held in cursor.fetchall()}
    return Closed(spend=spend, holds=holds)


def holds_give_back(closed: Closed, accounts: dict[Place, Account]) -> None:
    """Take the holds off their accounts; a held sum never falls below 0."""
    for place, held in closed.holds.items():
        account = accounts[place]
        account.held = max(Decimal(0), account.held - held)


def places_of(closed: Closed) -> dict[Place, tuple[Budget, Window]]:
    """Return the balances that the holds touch, each with its budget and window."""
    budgets = Budget.objects.in_bulk({budget_id for budget_id, _ in closed.holds})
    return {
        (budget_id, start): (budgets[budget_id], window_of(budgets[budget_id], start))
        for budget_id, start in closed.holds
    }
