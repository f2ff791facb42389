"""Job events in sets: the story of each job, written with the change that it tells of."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scheduling.models import JobEvent
from scheduling.services.rows import rows_copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One event to be written: what happened to which job, why, and the facts."""

    job_id: uuid.UUID
    tenant_id: uuid.UUID
    event: str
    reason: str = ""
    attempt_id: uuid.UUID | None = None
    data: dict[str, Any] = field(default_factory=dict)


def events_write(told: Iterable[Told]) -> None:
    """Insert the events in the order given; call it in the transaction of the change."""
    rows_copy(
        [
            JobEvent(
                job_id=one.job_id,
                tenant_id=one.tenant_id,
                attempt_id=one.attempt_id,
                event=one.event,
                reason=one.reason,
                data=one.data,
            )
            for one in told
        ]
    )
