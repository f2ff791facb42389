"""Corrections: what was booked turns out to be something else; new entries say so, none is changed.

Theory. A correction of a row is two rows of the same attempt, meter and price: one takes the amount
and the quantity back where they were booked, one books them where they belong. So every sum over
all kinds stays as it was, balances and closed bills included, and only their split moves, in the
period of the work itself. Both rows have names of their own in the ledger, so a repeat of the
correction is refused by the ledger's own rule.
"""

import uuid
from collections.abc import Collection, Iterator

from billing.models import LedgerEntry
from tenants.ids import new_id

REJECTED = "rejected"
"""The failure class of work that a review turned down."""
_KEPT = (
    "dispatched_at", "tenant_id", "workspace_id", "member_id", "workflow_id", "mission_id",
    "job_id", "attempt_id", "executor_id", "provider", "model", "meter", "rule_id",
)  # fmt: skip


def work_rejected(job_ids: Collection[uuid.UUID]) -> None:
    """Book as wasted what the jobs' work has incurred so far; call it before the review is booked."""
    rows = LedgerEntry.objects.filter(job_id__in=job_ids, kind="incurred").order_by("at", "id")
    LedgerEntry.objects.bulk_create(entry for row in rows for entry in _moved(row))


def _moved(row: LedgerEntry) -> Iterator[LedgerEntry]:
    kept = {name: getattr(row, name) for name in _KEPT}
    for kind, sign, failure in (
        ("incurred", -1, row.failure_class),
        ("wasted", 1, REJECTED),
    ):
        yield LedgerEntry(
            id=new_id(),
            **kept,
            kind=kind,
            quantity=sign * row.quantity,
            amount=sign * row.amount,
            source_event=f"{row.source_event} {REJECTED}: {kind}",
            failure_class=failure,
            flags=[*row.flags, REJECTED],
        )
