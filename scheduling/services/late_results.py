"""Results that come after their attempt was given up as lost: kept in the job's story as evidence.

They change no state. The event tells once how the attempt ended after all, with its text cut short;
what it used is booked by settling.
"""

import json
from collections.abc import Sequence
from typing import Any

from scheduling.core.types import Reason
from scheduling.executors.contract import Outcome
from scheduling.models import JobEvent
from scheduling.services.settlement_rows import Locked
from scheduling.services.stories import Told, events_write

LATE_RESULT = "late_result"
TEXT_LENGTH = 2000


def late_results_tell(late: Sequence[tuple[Locked, Outcome]]) -> None:
    """Tell each late result in its job's story, unless it was told before.

    Call it in the transaction that has locked the attempts.
    """
    if not late:
        return
    ids = [locked.attempt_id for locked, _ in late]
    jobs = [locked.id for locked, _ in late]
    events = JobEvent.objects.filter(job__in=jobs, event=LATE_RESULT, attempt_id__in=ids)
    told = set(events.values_list("attempt_id", flat=True))
    events_write(
        _told(locked, outcome) for locked, outcome in late if locked.attempt_id not in told
    )


def _told(locked: Locked, outcome: Outcome) -> Told:
    facts: dict[str, Any] = {"fence": locked.attempt_fence, "outcome": outcome.status}
    text = outcome.partial_text if outcome.result is None else json.dumps(outcome.result)
    if text:
        facts |= {"text": text[:TEXT_LENGTH], "shortened": len(text) > TEXT_LENGTH}
    if outcome.error_class is not None:
        facts |= {"error": outcome.error_class, "message": outcome.message}
    return Told(
        job_id=locked.id,
        tenant_id=locked.tenant_id,
        attempt_id=locked.attempt_id,
        event=LATE_RESULT,
        reason=Reason.WORKER_LOST,
        data=facts,
    )
