"""The starts of what must not be done twice, written down before it is done."""

import uuid

from django.db import transaction

from scheduling.core.states import JobState
from scheduling.models import Job, JobEvent
from scheduling.services.children import Superseded
from scheduling.services.stories import Told, events_write

EVENT = "tool_begun"


@transaction.atomic
def tool_begin(*, job_id: uuid.UUID, fence: int, step: int, said: str) -> bool:
    """Write down that the job's present attempt begins a tool; False if its step has before.

    `said` is what the call says in full: the tool and its arguments. Raises `Superseded` when
    another attempt has taken over, or the job is to stop.
    """
    job = Job.objects.select_for_update(of=("self",)).only(*_COLUMNS).get(id=job_id)
    if job.fence != fence or job.state != JobState.RUNNING or job.cancel_requested:
        raise Superseded
    facts = {"step": step, "call": said}
    if JobEvent.objects.filter(job=job, event=EVENT, data=facts).exists():
        return False
    events_write([Told(job_id=job.id, tenant_id=job.tenant_id, event=EVENT, data=facts)])
    return True


_COLUMNS = ("id", "tenant_id", "fence", "state", "cancel_requested")
