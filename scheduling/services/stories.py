"""Job events in sets: the story of each job, written with the change that it tells of."""

import uuid
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from scheduling.models import JobEvent
from scheduling.services.rows import table_of
from tenants.prepared import prepared


class Told(Struct, frozen=True, kw_only=True):
    """One event to be written: what happened to which job, why, and the facts."""

    job_id: uuid.UUID
    tenant_id: uuid.UUID
    event: str
    reason: str = ""
    attempt_id: uuid.UUID | None = None
    data: dict[str, Any] = field(default_factory=dict)


def events_write(told: Iterable[Told]) -> None:
    """Insert the events in the order given; call it in the transaction of the change."""
    rows = list(told)
    if not rows:
        return
    table = table_of(JobEvent)
    with prepared() as cursor:
        cursor.execute(table.insert, table.literals(rows))
