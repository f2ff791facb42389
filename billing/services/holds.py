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

from billing.services.accounts import Place
from billing.services.sets import array
from tenants.prepared import prepared

# The order is the ids' own, written so that no index holds it: else the server may walk all
# reservations in that order and pick the wanted ones out.
# The lines are locked with their reservations, for a move changes them: what is read is the newest.
# A row without a start is a closed reservation, the others are what is to be given back.
_CLOSE = """
WITH due AS MATERIALIZED (
    SELECT id FROM billing_reservation WHERE id = ANY(%s::uuid[]) AND state = 'open'
    ORDER BY id::text COLLATE "C" FOR UPDATE
), line AS MATERIALIZED (
    SELECT l.budget_id, l.window_start, l.amount
    FROM due CROSS JOIN LATERAL (
        SELECT budget_id, window_start, amount FROM billing_reservationline
        WHERE reservation_id = due.id OFFSET 0 FOR UPDATE
    ) l
), closed AS (
    UPDATE billing_reservation r
    SET state = %s, closed_at = coalesce(%s::timestamptz, statement_timestamp())
    WHERE r.id = ANY(ARRAY(SELECT id FROM due)) RETURNING r.job_id, r.spend
)
SELECT job_id, NULL::timestamptz, spend FROM closed
UNION ALL SELECT budget_id, window_start, sum(amount) FROM line GROUP BY budget_id, window_start
"""
_CLOSE_OF_JOBS = _CLOSE.replace("WHERE id = ANY", "WHERE job_id = ANY")


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

    The caller takes the holds off their balances.
    """
    return _closed(_CLOSE_OF_JOBS, job_ids, state, now)


def closed_of(ids: Collection[uuid.UUID], state: str, now: datetime | None) -> Closed:
    """Close the open reservations of these ids, and return what they held."""
    return _closed(_CLOSE, ids, state, now)


def _closed(statement: str, ids: Collection[uuid.UUID], state: str, now: datetime | None) -> Closed:
    if not ids:
        return Closed()
    closed = Closed()
    with prepared() as cursor:
        cursor.execute(statement, [array(ids), state, now])
        for key, start, amount in cursor.fetchall():
            if start is None:
                closed.spend[key] = amount
            else:
                closed.holds[key, start] = amount
    return closed
