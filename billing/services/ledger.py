"""The rows of the ledger: written in sets, each usage event once."""

import uuid
from collections.abc import Sequence
from decimal import Decimal

from billing.core.pricing import MeterCharge
from billing.models import LedgerEntry
from billing.services.sets import columns, json_text
from billing.services.usage import Priced, UsageConflict
from tenants.ids import new_id
from tenants.prepared import prepared

Event = tuple[uuid.UUID, str]
"""(attempt, source event)"""

_COLUMNS = {
    "id": "uuid",
    "dispatched_at": "timestamptz",
    "tenant_id": "uuid",
    "workspace_id": "uuid",
    "member_id": "text",
    "workflow_id": "uuid",
    "mission_id": "uuid",
    "job_id": "uuid",
    "attempt_id": "uuid",
    "executor_id": "uuid",
    "provider": "text",
    "model": "text",
    "kind": "text",
    "meter": "text",
    "quantity": "numeric",
    "amount": "numeric",
    "rule_id": "uuid",
    "source_event": "text",
    "failure_class": "text",
    "flags": "jsonb",
}
_NAMES = ", ".join(_COLUMNS)
_UNNEST = ", ".join(f"%s::{kind}[]" for kind in _COLUMNS.values())
# The marker rows go in first, in the order of their events (so that two sets wait for each other in
# one direction), and only the events whose marker went in bring their other rows.
_BOOK = f"""
WITH rows AS MATERIALIZED (
    SELECT * FROM unnest({_UNNEST}) AS t({_NAMES})
), marker AS (
    INSERT INTO billing_ledgerentry ({_NAMES})
    SELECT {_NAMES} FROM rows WHERE meter = 'worker_seconds' ORDER BY attempt_id, source_event
    ON CONFLICT (attempt_id, meter, source_event) DO NOTHING
    RETURNING attempt_id, source_event
), rest AS (
    INSERT INTO billing_ledgerentry ({_NAMES})
    SELECT {_NAMES} FROM rows JOIN marker USING (attempt_id, source_event)
    WHERE meter <> 'worker_seconds'
)
SELECT attempt_id, source_event FROM marker
"""  # noqa: S608  (the names are the constants above)


def events_book(priced: Sequence[Priced]) -> set[Event]:
    """Write the rows of the events that are new; returns those events."""
    if not priced:
        return set()
    rows = [_row(one, charge) for one in priced for charge in one.charges]
    with prepared() as cursor:
        cursor.execute(_BOOK, columns(rows))
        return set(cursor.fetchall())


def events_check(repeats: Sequence[Priced]) -> dict[Event, Decimal]:
    """Compare repeated events with what was booked; returns the booked cost of each.

    Raises `UsageConflict` for the first whose quantities, kind or model differ.
    """
    if not repeats:
        return {}
    rows = LedgerEntry.objects.filter(
        attempt_id__in={one.settlement.attempt_id for one in repeats},
        source_event__in={one.settlement.source_event for one in repeats},
    )
    bodies: dict[Event, dict[str, Decimal]] = {}
    costs: dict[Event, Decimal] = {}
    labels: dict[Event, tuple[str, str, str]] = {}
    for row in rows:
        event = (row.attempt_id, row.source_event)
        bodies.setdefault(event, {})[row.meter] = row.quantity
        costs[event] = costs.get(event, Decimal(0)) + row.amount
        labels[event] = (row.kind, row.provider, row.model)
    for one in repeats:
        settlement = one.settlement
        label = (settlement.kind, settlement.provider, settlement.model)
        same = bodies[settlement.event] == {c.meter: c.quantity for c in one.charges}
        if not same or labels[settlement.event] != label:
            raise UsageConflict(*settlement.event)
    return costs


def _row(one: Priced, charge: MeterCharge) -> tuple[object, ...]:
    settlement = one.settlement
    return (
        new_id(),
        settlement.dispatched_at,
        settlement.tenant_id,
        settlement.workspace_id,
        dict(settlement.chain).get("member", ""),
        settlement.workflow_id,
        settlement.mission_id,
        settlement.job_id,
        settlement.attempt_id,
        settlement.executor_id,
        settlement.provider,
        settlement.model,
        settlement.kind,
        charge.meter,
        charge.quantity,
        charge.amount,
        one.rule_id,
        settlement.source_event,
        settlement.failure_class,
        json_text(one.flags),
    )
