"""Settlement: what an attempt used becomes ledger rows, and moves the balances, exactly once.

Theory. A usage event is named by (attempt, source event) and its body is all of its rows. The row
of the marker meter is always written, so inserting it decides whether the event is new; only a new
event adds to what was spent and gives back what was held. A repeat with the same body changes
nothing, one with another body is a conflict. Delivery may thus be at least once.

Which window. What was held goes back to the window it was held in. What was spent belongs to the
window in which the attempt was dispatched, as does its price. Usage may exceed its estimate: it is
booked in full (the overrun is reported), for work that was done has been paid for.
"""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from django.db import transaction

from billing.core.headroom import crossings
from billing.core.pricing import total
from billing.core.windows import Window
from billing.models import Budget
from billing.services.accounts import (
    Account,
    Place,
    accounts_lock,
    accounts_write,
    balances_ensure,
    budgets_of,
    budgets_on,
    window_of,
)
from billing.services.alerts import alerts_raise
from billing.services.holds import Closed, holds_give_back, places_of, reservations_close
from billing.services.ledger import Event, events_book, events_check
from billing.services.prices import prices_load
from billing.services.usage import Crossing, Priced, Settled, Settlement, priced_of
from tenants.controls import Version

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Books:
    """The locked accounts of one call, and which of them each event draws on."""

    accounts: dict[Place, Account]
    drawn: dict[Event, list[Place]]
    closed: Closed
    touched: set[Place] = field(default_factory=set)


@transaction.atomic(savepoint=False)
def settle(
    *,
    settlements: Sequence[Settlement],
    version: Version | None = None,
    released: Collection[uuid.UUID] = (),
) -> list[Settled]:
    """Book what the attempts used, in one set; one answer a settlement, in the order given.

    Safe to repeat. `UnpricedModel` and `UsageConflict` undo the whole call and with it the
    caller's transaction, if there is one (settle alone what may be at fault).
    `version` is where the control clock stands, if the transaction has read it already.
    `released` are jobs that end unrun with the set: what they hold is given back with it, for two
    calls in one transaction could lock their budgets in a circle with another's.
    """
    prices_load({(s.provider, s.model) for s in settlements})
    priced: dict[Event, Priced] = {}
    repeats: list[Priced] = []
    for settlement in settlements:
        one = priced_of(settlement)
        if priced.setdefault(settlement.event, one) is not one:
            repeats.append(one)
    drawn, places = _places(list(priced.values()), version)
    balances_ensure(places)
    fresh = events_book(list(priced.values()))
    repeats += [one for event, one in priced.items() if event not in fresh]
    booked = events_check(repeats)
    new = [priced[event] for event in priced if event in fresh]
    given_back = reservations_close(job_ids=released, state="released", now=None)
    done = _post(new, drawn, places, given_back)
    answers: list[Settled] = []
    for settlement in settlements:
        event = settlement.event
        answers.append(done.pop(event) if event in done else _repeated(event, booked[event]))
    return answers


def _places(
    priced: Sequence[Priced], version: Version | None
) -> tuple[dict[Event, list[Place]], dict[Place, tuple[Budget, Window]]]:
    """Find the budgets of each event and the window its attempt was dispatched in."""
    budgets = budgets_of(((p.settlement.tenant_id, p.settlement.chain) for p in priced), version)
    drawn: dict[Event, list[Place]] = {}
    places: dict[Place, tuple[Budget, Window]] = {}
    spans: dict[uuid.UUID, Window] = {}  # most attempts of a set were dispatched in one window
    for one in priced:
        settlement = one.settlement
        own: list[Place] = []
        for budget in budgets_on(budgets, settlement.tenant_id, settlement.chain):
            span = spans.get(budget.id)
            if span is None or not span.contains(settlement.dispatched_at):
                span = spans[budget.id] = window_of(budget, settlement.dispatched_at)
            own.append((budget.id, span.start))
            places[own[-1]] = (budget, span)
        drawn[settlement.event] = own
    return drawn, places


def _post(
    fresh: Sequence[Priced],
    drawn: dict[Event, list[Place]],
    places: dict[Place, tuple[Budget, Window]],
    given_back: Closed,
) -> dict[Event, Settled]:
    """Close the reservations of ended jobs and move the balances of the new events."""
    ended = {one.settlement.job_id for one in fresh if one.settlement.final}
    closed = reservations_close(job_ids=ended, state="settled", now=None).with_holds_of(given_back)
    needed = {place: places[place] for one in fresh for place in drawn[one.settlement.event]}
    known = (budget for budget, _ in places.values())
    accounts = accounts_lock(needed | places_of(closed, known))
    books = _Books(accounts=accounts, drawn=drawn, closed=closed)
    holds_give_back(closed, accounts)
    books.touched.update(closed.holds)
    done = {one.settlement.event: _move(one, books) for one in fresh}
    accounts_write([accounts[place] for place in books.touched if place in accounts])
    alerts_raise(crossing for settled in done.values() for crossing in settled.crossed)
    return done


def _move(one: Priced, books: _Books) -> Settled:
    """Add what one event spent to its accounts in memory."""
    spent = one.spent()
    crossed: list[Crossing] = []
    for place in books.drawn[one.settlement.event]:
        account = books.accounts.get(place)
        added = spent.get(account.budget.dimension, _ZERO) if account else _ZERO
        if account is None or not added:
            continue
        before, account.spent = account.spent, account.spent + added
        books.touched.add(place)
        crossed += _crossed(account, before)
    cost = total(one.charges)
    settlement = one.settlement
    reserved = books.closed.spend.get(settlement.job_id, cost) if settlement.final else cost
    return Settled(
        attempt_id=settlement.attempt_id,
        source_event=settlement.source_event,
        cost=cost,
        repeated=False,
        overrun=max(_ZERO, cost - reserved),
        crossed=tuple(crossed),
    )


def _crossed(account: Account, before: Decimal) -> list[Crossing]:
    budget = account.budget
    return [
        Crossing(
            budget_id=budget.id,
            tenant_id=budget.tenant_id,
            scope=budget.scope,
            scope_id=budget.scope_id,
            dimension=budget.dimension,
            percent=percent,
            window_start=account.window.start,
            limit=budget.limit,
            spent=account.spent,
        )
        for percent in crossings(before=before, after=account.spent, limit=budget.limit)
    ]


def _repeated(event: Event, cost: Decimal) -> Settled:
    attempt_id, source_event = event
    return Settled(
        attempt_id=attempt_id,
        source_event=source_event,
        cost=cost,
        repeated=True,
        overrun=_ZERO,
    )
