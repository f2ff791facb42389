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
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from billing.core.headroom import crossings
from billing.core.pricing import total
from billing.core.windows import Window
from billing.models import Budget
from billing.services.accounts import (
    Place,
    balances_ensure,
    budgets_of,
    budgets_on,
    require_transaction,
    window_of,
)
from billing.services.alerts import alerts_raise
from billing.services.balances import Move, balances_move
from billing.services.holds import Closed, reservations_close
from billing.services.ledger import Event, events_book, events_check
from billing.services.prices import prices_load
from billing.services.usage import Crossing, Priced, Settled, Settlement, priced_of
from tenants.controls import Version

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """What stands in the ledger, by settlement in the order given, and how balances are to move."""

    settled: list[Settled]
    places: dict[Place, tuple[Budget, Window]]
    moves: dict[Place, Move]


def book(
    *,
    settlements: Sequence[Settlement],
    version: Version | None = None,
    released: Collection[uuid.UUID] = (),
) -> Booked:
    """Write the ledger of a set and close its reservations, in the caller's transaction.

    The caller ends that transaction with `balances_follow`. `UnpricedModel` and `UsageConflict`
    undo it (settle alone what may be at fault).
    `version` is where the control clock stands, if the transaction has read it already.
    `released` are jobs that end unrun with the set: what they hold is given back with it, for two
    calls in one transaction could lock their budgets in a circle with another's.
    """
    require_transaction("book")
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
    costs = events_check(repeats)
    new = [priced[event] for event in priced if event in fresh]
    given_back = reservations_close(job_ids=released, state="released", now=None)
    ended = {one.settlement.job_id for one in new if one.settlement.final}
    closed = reservations_close(job_ids=ended, state="settled", now=None)
    done = {one.settlement.event: _settled(one, closed) for one in new}
    answers: list[Settled] = []
    for settlement in settlements:
        event = settlement.event
        answers.append(done.pop(event) if event in done else _repeated(event, costs[event]))
    moves = _moves(new, drawn, places, (closed, given_back))
    return Booked(settled=answers, places=places, moves=moves)


def balances_follow(booked: Booked) -> None:
    """Move the balances as booked and raise the alerts of the marks that they pass.

    The last act of its transaction: the balances are what everybody else waits for.
    """
    spent = balances_move(booked.moves)
    alerts_raise(
        crossing
        for place, after in spent.items()
        if place in booked.places and booked.moves[place].spent
        for crossing in _crossed(booked.places[place], after - booked.moves[place].spent, after)
    )


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


def _moves(
    fresh: Sequence[Priced],
    drawn: dict[Event, list[Place]],
    places: dict[Place, tuple[Budget, Window]],
    closed: Sequence[Closed],
) -> dict[Place, Move]:
    """Sum up what the new events add to each balance, and what the closed reservations held."""
    moves: defaultdict[Place, Move] = defaultdict(Move)
    for one in fresh:
        spent = one.spent()
        for place in drawn[one.settlement.event]:
            added = spent.get(places[place][0].dimension)
            if added:
                moves[place].spent += added
    for some in closed:
        for place, held in some.holds.items():
            moves[place].held += held
    return moves


def _settled(one: Priced, closed: Closed) -> Settled:
    cost, settlement = total(one.charges), one.settlement
    reserved = closed.spend.get(settlement.job_id, cost) if settlement.final else cost
    return Settled(
        attempt_id=settlement.attempt_id,
        source_event=settlement.source_event,
        cost=cost,
        repeated=False,
        overrun=max(_ZERO, cost - reserved),
    )


def _crossed(place: tuple[Budget, Window], before: Decimal, after: Decimal) -> Iterator[Crossing]:
    budget, span = place
    for percent in crossings(before=before, after=after, limit=budget.limit):
        yield Crossing(
            budget_id=budget.id,
            tenant_id=budget.tenant_id,
            percent=percent,
            window_start=span.start,
            limit=budget.limit,
            spent=after,
        )


def _repeated(event: Event, cost: Decimal) -> Settled:
    attempt_id, source_event = event
    return Settled(
        attempt_id=attempt_id,
        source_event=source_event,
        cost=cost,
        repeated=True,
        overrun=_ZERO,
    )
