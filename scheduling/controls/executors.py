"""Levers of one executor: on and off, drain, slots. What it runs, it runs to its end.

Disabling is for good or for repair, draining for the moment before: a draining executor takes
nothing new and is shown as emptying. The two are kept apart, so that undoing one keeps the other.
Draining may also ask what may yield to stop and go on elsewhere (the governor does that).
"""

import uuid
from collections.abc import Mapping

from django.db import transaction

from scheduling.events import nudge_on_commit
from scheduling.models import Executor
from tenants.controls import ControlRefused, record_change

MAX_SLOTS = 100_000


@transaction.atomic
def executor_enable(*, executor_id: uuid.UUID, enabled: bool, acting_user: str, reason: str) -> int:
    """Switch an executor on or off; returns the change's number. Raises `Executor.DoesNotExist`."""
    return _set(executor_id, {"enabled": enabled}, ("executor_enable", acting_user, reason))


@transaction.atomic
def executor_drain(
    *, executor_id: uuid.UUID, draining: bool, acting_user: str, reason: str, stops: bool = False
) -> int:
    """Begin or end the draining; returns the change's number. Raises `Executor.DoesNotExist`.

    `stops`: what runs there and may yield is stopped and waits to run elsewhere.
    """
    to = {"draining": draining, "drain_stops": draining and stops}
    return _set(executor_id, to, ("executor_drain", acting_user, reason))


@transaction.atomic
def executor_capacity(*, executor_id: uuid.UUID, slots: int, acting_user: str, reason: str) -> int:
    """Set how many jobs it runs at once at most; returns the change's number.

    Raises `ControlRefused` for slots out of 1..100,000 and `Executor.DoesNotExist`.
    """
    if not 1 <= slots <= MAX_SLOTS:
        sentence = f"Slots are 1 to {MAX_SLOTS}, not {slots}; to give it nothing more, drain it."
        raise ControlRefused("slots", sentence)
    return _set(executor_id, {"slots": slots}, ("executor_capacity", acting_user, reason))


def _set(executor_id: uuid.UUID, to: Mapping[str, bool | int], pull: tuple[str, str, str]) -> int:
    """Set columns; of those beside the first the audit tells what changed. `pull`: action, who, why."""
    rows = Executor.objects.select_related("tenant").select_for_update(of=("self",), no_key=True)
    row = rows.get(id=executor_id)
    main = next(iter(to))
    before = {column: getattr(row, column) for column in to}
    told = [column for column in to if column == main or before[column] != to[column]]
    for column, value in to.items():
        setattr(row, column, value)
    row.save(update_fields=list(to))
    nudge_on_commit()
    return record_change(
        actor=pull[1],
        action=pull[0],
        tenant=row.tenant,
        target=("executor", row.id),
        change=({one: before[one] for one in told}, {one: to[one] for one in told}),
        reason=pull[2],
    )
