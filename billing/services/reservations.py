"""Reservations: what a job holds of its budgets from its verdict until it is settled or released.

Theory. The verdict and the hold are one step under the row locks of every balance of the chain, so
that parallel submissions see each other's holds and a ceiling is never overshot (checking recorded
spend alone overshoots by the degree of parallelism). A bulk call locks all its balances at once,
decides its requests one after another in memory in the order given, and writes all in one
statement.
A reservation belongs to the window in which it was made.

A job that is to do something else than it was admitted for exchanges its reservation: what it holds
counts as free for its own new request alone, under the same locks; refused, it keeps what it holds.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from django.db import transaction

from billing.core.headroom import refusal, remaining
from billing.core.windows import Window
from billing.models import Budget, Reservation
from billing.services.accounts import (
    Account,
    Place,
    accounts_open,
    budgets_of,
    budgets_on,
    cap_account,
    caps_on,
    require_transaction,
    window_of,
)
from billing.services.balances import Move, balances_move
from billing.services.defaults import defaults_apply, defaults_record
from billing.services.holds import (
    Closed,
    closed_of,
    reservations_close,
)
from billing.services.raises import raises_needed
from billing.services.sets import columns
from billing.services.verdicts import Refused, Reserved, ReserveRequest
from tenants.controls import Version
from tenants.ids import new_id
from tenants.prepared import Writes

SWEEP_ROWS = 500


_FUND = """
balances AS (
    UPDATE billing_balance b SET held = k.held
    FROM unnest(%s::uuid[], %s::numeric[]) k(id, held)
    WHERE b.id = k.id AND b.id = ANY(%s::uuid[])
), reservations AS (
    INSERT INTO billing_reservation (id, tenant_id, workspace_id, job_id, workflow_id, mission_id,
        spend, tokens, expires_at, state)
    SELECT k.*, 'open' FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::uuid[], %s::uuid[],
        %s::uuid[], %s::numeric[], %s::bigint[], %s::timestamptz[]) k
), lines AS (
    INSERT INTO billing_reservationline (id, reservation_id, budget_id, window_start, amount)
    SELECT * FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::timestamptz[], %s::numeric[])
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """A request with the places that it draws on, and what it gives back if it is granted."""

    request: ReserveRequest
    places: list[Place]
    caps: list[Account]
    old: Mapping[Place, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """A reservation to be written, with its lines."""

    id: uuid.UUID
    request: ReserveRequest
    lines: list[tuple[Place, Decimal]]


def reserve(
    *,
    requests: Sequence[ReserveRequest],
    now: datetime,
    version: Version | None = None,
    writes: Writes | None = None,
) -> list[Reserved | Refused]:
    """Decide the requests in the order given and hold what passes; one answer a request.

    Must be called in the transaction of the verdict, once for all of its jobs (one call locks its
    budgets in one fixed order; two could deadlock with another's). A job that holds an open
    reservation keeps it. Without budgets on its chain a job is reserved without lines.
    `version` is where the control clock stands, if the transaction has read it already. `writes`
    are those by which the jobs are being made, so that none can hold anything yet; the reservations
    are added to them, for the caller to run.
    Raises `TransactionManagementError` outside a transaction.
    """
    require_transaction("reserve")
    asks, places, made = _asks(requests, now, version)
    accounts = accounts_open(places, now)
    being_made = writes is not None
    held = {} if being_made else _open_reservations([request.job_id for request in requests])
    grants: list[_Grant] = []
    answers = [_decide(ask, accounts, held, grants, now) for ask in asks]
    _fund(grants, accounts, writes=writes)
    defaults_record(made)
    return answers


def exchange(
    *, requests: Sequence[ReserveRequest], now: datetime, version: Version | None = None
) -> list[Reserved | Refused]:
    """Let jobs hold what they ask for now instead of what they hold; one answer a request.

    As `reserve`, and under its rules. Who is refused keeps what it holds.
    """
    require_transaction("exchange")
    asks, places, made = _asks(requests, now, version)
    old, old_places = _held(requests)
    accounts = accounts_open(places | old_places, now)
    held: dict[uuid.UUID, uuid.UUID] = {}
    grants: list[_Grant] = []
    answers = [
        _decide(replace(ask, old=old.get(ask.request.job_id, {})), accounts, held, grants, now)
        for ask in asks
    ]
    _close([grant.request.job_id for grant in grants], now)
    freed = {place for grant in grants for place in old.get(grant.request.job_id, ())}
    _fund(grants, accounts, freed)
    defaults_record(made)
    return answers


def _held(
    requests: Sequence[ReserveRequest],
) -> tuple[dict[uuid.UUID, dict[Place, Decimal]], dict[Place, tuple[Budget, Window]]]:
    """Lock what the jobs hold; return it by job, and the places that it is held in."""
    rows = (
        Reservation.objects.select_for_update()
        .filter(job_id__in=[request.job_id for request in requests], state="open")
        .order_by("id")
        .prefetch_related("lines__budget__escalations")
    )
    old: dict[uuid.UUID, dict[Place, Decimal]] = {}
    places: dict[Place, tuple[Budget, Window]] = {}
    for row in rows:
        mine = old.setdefault(row.job_id, {})
        for line in row.lines.all():
            place = line.budget_id, line.window_start
            mine[place] = line.amount
            places[place] = line.budget, window_of(line.budget, line.window_start)
    return old, places


def _close(job_ids: Collection[uuid.UUID], now: datetime) -> None:
    """Close the jobs' reservations, whose holds are taken off their accounts already."""
    Reservation.objects.filter(job_id__in=job_ids, state="open").update(
        state="released", closed_at=now
    )


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
    requests: Sequence[ReserveRequest], now: datetime, version: Version | None
) -> tuple[list[_Ask], dict[Place, tuple[Budget, Window]], list[Budget]]:
    """Find the budgets of all chains at once, and the window that each is in now.

    Returned last are those that a default has made for it.
    """
    chains = [(one.tenant_id, one.chain) for one in requests]
    budgets, made = defaults_apply(chains, budgets_of(chains, version), version)
    caps: dict[uuid.UUID, Account] = {}
    named: dict[uuid.UUID, Place] = {}
    places: dict[Place, tuple[Budget, Window]] = {}
    asks = []
    for request in requests:
        own = budgets_on(budgets, request.tenant_id, request.chain)
        mine: list[Account] = []
        for budget in own:
            if budget.id not in named:
                span = window_of(budget, now)
                named[budget.id] = (budget.id, span.start)
                places[named[budget.id]] = (budget, span)
        for budget in caps_on(budgets, request.tenant_id, request.chain):
            caps.setdefault(budget.id, cap_account(budget, now))
            mine.append(caps[budget.id])
        asks.append(_Ask(request=request, places=[named[budget.id] for budget in own], caps=mine))
    return asks, places, made


def holders(job_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return those of the jobs that hold an open reservation."""
    return set(_open_reservations(list(job_ids))) if job_ids else set()


def _open_reservations(job_ids: list[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
    rows = Reservation.objects.filter(job_id__in=job_ids, state="open")
    return dict(rows.values_list("job_id", "id"))


def _decide(
    ask: _Ask,
    accounts: dict[Place, Account],
    held: dict[uuid.UUID, uuid.UUID],
    grants: list[_Grant],
    now: datetime,
) -> Reserved | Refused:
    """Answer one request; a pass is held in memory and noted in `held` and `grants`."""
    request = ask.request
    if request.job_id in held:
        return Reserved(job_id=request.job_id, reservation_id=held[request.job_id], repeated=True)
    drawn = [(place, accounts[place]) for place in ask.places]
    asked = [*(account for _, account in drawn), *ask.caps]
    _give(ask.old, accounts, -1)
    way = _first_way(request, asked)
    if isinstance(way, Refused):
        _give(ask.old, accounts, 1)
        return way
    request, estimates = way, way.estimates()
    lines = [(place, estimates.get(a.dimension, Decimal(0))) for place, a in drawn]
    grant = _Grant(
        id=new_id(), request=request, lines=[(place, amount) for place, amount in lines if amount]
    )
    raises = raises_needed(asked, estimates, now)
    for place, amount in grant.lines:
        accounts[place].held += amount
    grants.append(grant)
    held[request.job_id] = grant.id
    return Reserved(
        job_id=request.job_id, reservation_id=grant.id, spend=request.spend, escalations=raises
    )


def _first_way(request: ReserveRequest, asked: Collection[Account]) -> ReserveRequest | Refused:
    """Return the first way in which the accounts let the request in, else why not the last."""
    for way in request.ways():
        estimates = way.estimates()
        refused = refusal(asked, estimates)
        if refused is None:
            return way
        answer = refused_of(request.job_id, refused, estimates[refused.dimension])
    return answer


def _give(held: Mapping[Place, Decimal], accounts: Mapping[Place, Account], sign: int) -> None:
    for place, amount in held.items():
        accounts[place].held += sign * amount


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
        limit=account.limit,
        spent=account.spent,
        held=account.held,
        asked=asked,
        remaining=remaining(account),
        retry_at=account.window.end if asked <= account.limit else None,
    )


def _give_back(closed: Closed) -> list[uuid.UUID]:
    balances_move({place: Move(held=held) for place, held in closed.holds.items()})
    return sorted(closed.spend)


def _fund(
    grants: Sequence[_Grant],
    accounts: Mapping[Place, Account],
    freed: Collection[Place] = (),
    writes: Writes | None = None,
) -> None:
    """Write reservations, their lines and the balances that they touch, in one statement.

    `freed` are places whose balances were given something back. With `writes` they wait there.
    """
    if not grants:
        return
    lines = [
        (new_id(), grant.id, budget_id, start, amount)
        for grant in grants
        for (budget_id, start), amount in grant.lines
    ]
    places = {place for grant in grants for place, _ in grant.lines}
    touched = [accounts[place] for place in places.union(freed)]
    balances = columns([(account.balance_id, account.held) for account in touched], 2)
    rows = columns([_reservation_row(grant) for grant in grants])
    own = Writes() if writes is None else writes
    own.add(_FUND, [*balances, balances[0], *rows, *columns(lines, 5)])
    if writes is None:
        own.run()


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
