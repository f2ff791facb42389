"""Moving balances by differences: what was spent is added, what was held is given back.

Theory. All jobs of a tenant share its balances, so whoever holds one locked keeps the others of the
tenant waiting. A difference needs no look at the balance before: the rows are locked (in the order
of their ids) and moved by one statement, which a transaction makes its last, so that they stay locked
for no longer than a commit takes. One call a transaction: two could lock in opposite orders.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from billing.services.accounts import Place
from billing.services.sets import columns
from tenants.prepared import prepared

_ZERO = Decimal(0)
# The order is the ids' own, written so that no index holds it: else the server may walk all balances
# in that order and pick the wanted ones out.
_MOVE = """
WITH k AS MATERIALIZED (
    SELECT b.id, x.spent, x.held FROM billing_balance b
    JOIN unnest(%s::uuid[], %s::timestamptz[], %s::numeric[], %s::numeric[])
        x(budget, start, spent, held) ON b.budget_id = x.budget AND b.window_start = x.start
    WHERE b.budget_id = ANY(%s::uuid[])
    ORDER BY b.id::text COLLATE "C" FOR UPDATE OF b
)
UPDATE billing_balance b SET spent = b.spent + k.spent, held = greatest(b.held - k.held, 0)
FROM k WHERE b.id = k.id AND b.id = ANY(ARRAY(SELECT id FROM k)) RETURNING b.budget_id, b.window_start, b.spent
"""


@dataclass(slots=True, kw_only=True)
class Move:
    """What is added to what a balance has spent, and taken off what it holds (never below 0)."""

    spent: Decimal = _ZERO
    held: Decimal = _ZERO


def balances_move(moves: Mapping[Place, Move]) -> dict[Place, Decimal]:
    """Move those of the balances that exist; return what each has spent by then."""
    rows = [(*place, move.spent, move.held) for place, move in moves.items()]
    if not rows:
        return {}
    with prepared() as cursor:
        sets = columns(rows)
        cursor.execute(_MOVE, [*sets, sets[0]])
        return {(budget, start): spent for budget, start, spent in cursor.fetchall()}
