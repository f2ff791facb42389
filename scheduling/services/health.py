"""The executors' health, as probes find it."""

import uuid

from django.db import transaction

from scheduling.events import nudge_on_commit
from scheduling.models import Executor


@transaction.atomic
def executor_health_set(*, executor_id: uuid.UUID, health: str) -> bool:
    """Store a probe's finding; returns whether it changed anything."""
    changed = Executor.objects.filter(id=executor_id).exclude(health=health).update(health=health)
    if changed:
        nudge_on_commit()
    return bool(changed)
