"""Reservations: what a job holds of its budgets from its verdict until it is settled or released.

Theory. The verdict and the hold are one step under the row locks of every balance of the chain, so
that parallel submissions see each other's holds and a ceiling is never overshot (checking recorded
spend alone overshoots by the degree of parallelism). A bulk call locks all its balances at once,
decides its requests one after another in memory in the order given, and writes rows in sets.
A reservation belongs to the window in which it was made.
"""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import connection, transaction

from billing.core.headroom import refusal, remaining
from billing.core.windows import Window
from billing.models import Budget, Reservation
from billing.services.accounts import (
    Account,
    Place,
    accounts_lock,
    accounts_write,
    balances_ensure,
    budgets_of,
    budgets_on,
    require_transaction,
    window_of,
)
from billing.services.holds import (
    Closed,
    closed_of,
    holds_give_back,
    places_of,
    reservations_close,
)
from billing.services.sets import columns
from billing.services.verdicts import Refused, Reserved, ReserveRequest
from tenants.ids import new_id

CHUNK_ROWS = 500
SWEEP_ROWS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """A request with the budgets it draws on and the place of each."""

    request: ReserveRequest
    places: list[Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """A reservation to be written, with its lines."""

    id: uuid.UUID
    request: ReserveRequest
    lines: list[tuple[Place, Decimal]]


def reserve(*, requests: Sequence[ReserveRequest], now: datetime) -> list[Reserved | Refused]:
    """Decide the requests in the order given and hold what passes; one answer a request.

    Must be called in the transaction of the verdict, once for all of its jobs (one call locks its
    budgets in one fixed order; two could deadlock with another's). A job that holds an open
    reservation keeps it. Without budgets on its chain a job is reserved without lines.
    Raises `TransactionManagementError` outside a transaction.
    """
    require_transaction("reserve")
    asks, places = _asks(requests, now)
    balances_ensure(places)
    accounts = accounts_lock(places)
    held = _open_reservations([request.job_id for request in requests])
    answers: list[Reserved | Refused] = []
    grants: list[_Grant] = []
    for ask in asks:
        answers.append(_decide(ask, accounts, held, grants))
    accounts_write(_touched(grants, accounts))
    for first in range(0, len(grants), CHUNK_ROWS):
        _grants_insert(grants[first : first + CHUNK_ROWS])
    return answers


@transaction.atomic(savepoint=False)
def renew(*, job_ids: Collection[uuid.UUID], expires_at: datetime) -> int:
    """Let the jobs' open reservations live until `expires_at`; returns how many there were."""
    ids = (
        Reservation.objects.select_for_update()
        .filter(job_id__in=job_ids, state="open")
        .order_by("id")
        .values_list("id", flat=True)
    )
    return Reservation.objects.filter(id__in=list(ids)).update(expires_at=expires_at)


@transaction.atomic(savepoint=False)
def release(*, job_ids: Collection[uuid.UUID], now: datetime) -> list[uuid.UUID]:
    """Give back what the jobs hold; returns the jobs that held something open.

    A second release of the same job changes nothing.
    """
    return _give_back(reservations_close(job_ids=job_ids, state="released", now=now))


@transaction.atomic(savepoint=False)
def sweep_expired(*, now: datetime, limit: int = SWEEP_ROWS) -> list[uuid.UUID]:
    """Release up to `limit` expired reservations; returns their jobs, to be admitted anew.

    Rows that another transaction works on are left for the next sweep.
    """
    expired = list(
        Reservation.objects.select_for_update(skip_locked=True)
        .filter(state="open", expires_at__lte=now)
        .order_by("id")
        .values_list("id", flat=True)[:limit]
    )
    return _give_back(closed_of(expired, "released", now))


def reservations_forget(*, before: datetime, limit: int) -> int:
    """Delete up to `limit` reservations that were closed before an instant, oldest first.

    What was spent stands in the ledger; a closed reservation holds nothing. Returns how many.
    """
    old = list(
        Reservation.objects.exclude(state="open")
        .filter(closed_at__lt=before)
        .order_by("id")
        .values_list("id", flat=True)[:limit]
    )
    Reservation.objects.filter(id__in=old).delete()
    return len(old)


def _asks(
    requests: Sequence[ReserveRequest], now: datetime
) -> tuple[list[_Ask], dict[Place, tuple[Budget, Window]]]:
    """Find the budgets of all chains at once, and the window that each is in now."""
    budgets = budgets_of((request.tenant_id, request.chain) for request in requests)
    windows = {b.id: window_of(b, now) for listed in budgets.values() for b in listed}
    places: dict[Place, tuple[Budget, Window]] = {}
    asks = []
    for request in requests:
        own = budgets_on(budgets, request.tenant_id, request.chain)
        ask = _Ask(request=request, places=[(b.id, windows[b.id].start) for b in own])
        places.update({place: (b, windows[b.id]) for place, b in zip(ask.places, own, strict=True)})
        asks.append(ask)
    return asks, places


def _open_reservations(job_ids: list[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
    rows = Reservation.objects.filter(job_id__in=job_ids, state="open")
    return dict(rows.values_list("job_id", "id"))


def _decide(
    ask: _Ask,
    accounts: dict[Place, Account],
    held: dict[uuid.UUID, uuid.UUID],
    grants: list[_Grant],
) -> Reserved | Refused:
    """Answer one request; a pass is held in memory and noted in `held` and `grants`."""
    request = ask.request
    if request.job_id in held:
        return Reserved(job_id=request.job_id, reservation_id=held[request.job_id], repeated=True)
    estimates = request.estimates()
    drawn = [(place, accounts[place]) for place in ask.places if place in accounts]
    refused = refusal((account for _, account in drawn), estimates)
    if refused is not None:
        return refused_of(request.job_id, refused, estimates[refused.dimension])
    lines = [(place, estimates.get(a.dimension, Decimal(0))) for place, a in drawn]
    grant = _Grant(
        id=new_id(), request=request, lines=[(place, amount) for place, amount in lines if amount]
    )
    for place, amount in grant.lines:
        accounts[place].held += amount
    grants.append(grant)
    held[request.job_id] = grant.id
    return Reserved(job_id=request.job_id, reservation_id=grant.id)


def refused_of(job_id: uuid.UUID, account: Account, asked: Decimal) -> Refused:
    """Return the answer of an account that has no room for what was asked."""
    budget = account.budget
    return Refused(
        job_id=job_id,
        budget_id=budget.id,
        scope=budget.scope,
        scope_id=budget.scope_id,
        dimension=budget.dimension,
        window=budget.window,
        limit=budget.limit,
        spent=account.spent,
        held=account.held,
        asked=asked,
        remaining=remaining(account),
        retry_at=account.window.end if asked <= budget.limit else None,
    )


def _touched(grants: list[_Grant], accounts: dict[Place, Account]) -> list[Account]:
    return [accounts[place] for place in {place for grant in grants for place, _ in grant.lines}]


def _give_back(closed: Closed) -> list[uuid.UUID]:
    accounts = accounts_lock(places_of(closed))
    holds_give_back(closed, accounts)
    accounts_write(accounts.values())
    return sorted(closed.spend)


def _grants_insert(grants: list[_Grant]) -> None:
    """Write reservations and their lines, two statements for the chunk."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO billing_reservation (id, tenant_id, workspace_id, job_id, workflow_id, "
            "mission_id, spend, tokens, expires_at, state) "
            "SELECT k.*, 'open' FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::uuid[], "
            "%s::uuid[], %s::uuid[], %s::numeric[], %s::bigint[], %s::timestamptz[]) k",
            columns([_reservation_row(grant) for grant in grants]),
        )
        lines = [
            (new_id(), grant.id, budget_id, start, amount)
            for grant in grants
            for (budget_id, start), amount in grant.lines
        ]
        if lines:
            cursor.execute(
                "INSERT INTO billing_reservationline "
                "(id, reservation_id, budget_id, window_start, amount) "
                "SELECT * FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::timestamptz[], "
                "%s::numeric[])",
                columns(lines),
            )


def _reservation_row(grant: _Grant) -> tuple[object, ...]:
    request = grant.request
    scopes = dict(request.chain)
    return (
        grant.id,
        request.tenant_id,
        request.workspace_id,
        request.job_id,
        scopes.get("workflow"),
        scopes.get("mission"),
        request.spend,
        request.tokens,
        request.expires_at,
    )
