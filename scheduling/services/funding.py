"""The funding of a job's next step, asked when it begins: see `billing.services.room`."""

import uuid
from datetime import datetime

from billing.services.room import step_refused
from scheduling.executors.contract import Unfunded
from scheduling.models import Job
from scheduling.services.scopes import chain_of


def step_unfunded(*, job_id: uuid.UUID, now: datetime) -> Unfunded | None:
    """Return why, and until when, the job's next step is not paid for; None: it is."""
    job = Job.objects.only("tenant", "workspace", "workflow", "mission", "submitted_by").get(
        id=job_id
    )
    refused = step_refused(job_id=job.id, tenant_id=job.tenant_id, chain=chain_of(job), now=now)
    if refused is None:
        return None
    until = refused.retry_at.timestamp() if refused.retry_at else None
    sentence = (
        f"The {refused.scope}'s {refused.dimension} budget has no room for another step "
        f"({refused.spent.normalize():f} of {refused.limit.normalize():f} spent)."
    )
    return Unfunded(sentence=sentence, until=until)
