"""Levers of a tenant's workflows and missions."""

import math
import uuid
from dataclasses import dataclass

from django.db import transaction

from scheduling.events import nudge_on_commit
from scheduling.models import Mission, Pool, Workflow
from tenants.controls import ControlRefused, record_change
from tenants.limits import cap_check
from tenants.models import Tenant

MAX_COST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSettings:
    """Where a workflow's jobs run, their cost in units, and how long they should take, if known."""

    pool: Pool
    cost: int = 1
    expected_s: float | None = None


@transaction.atomic
def workflow_put(
    *, tenant: Tenant, slug: str, settings: WorkflowSettings, acting_user: str, reason: str
) -> Workflow:
    """Make a workflow of a tenant, or change an existing one's pool, cost and expected seconds.

    A new cost acts on the backlog that is there; what runs is not stopped. Raises `ControlRefused`.
    """
    cost, expected_s = settings.cost, settings.expected_s
    _check_cost(cost)
    if expected_s is not None and not 0 < expected_s < math.inf:
        raise ControlRefused(
            "expected_s", "Expected seconds are above 0; leave them out if unknown."
        )
    wanted = {"pool": settings.pool.slug, "cost": cost, "expected_s": expected_s}
    row = Workflow.objects.select_for_update(no_key=True).filter(tenant=tenant, slug=slug).first()
    before = {"pool": row.pool.slug, "cost": row.cost, "expected_s": row.expected_s} if row else {}
    row = row or Workflow(tenant=tenant, slug=slug, name=slug)
    row.pool, row.cost, row.expected_s = settings.pool, cost, expected_s
    row.save()
    if before != wanted:
        record_change(
            actor=acting_user,
            action="workflow_put",
            tenant=tenant,
            target=("workflow", row.id),
            change=(before, wanted),
            reason=reason,
        )
    nudge_on_commit()
    return row


@transaction.atomic
def workflow_cost(*, workflow_id: uuid.UUID, cost: int, acting_user: str, reason: str) -> int:
    """Set the units that each job of a tenant's workflow occupies; returns the change's number.

    It acts on what waits and on what runs without a cost of its own; nothing is stopped. Raises
    `ControlRefused` and `Workflow.DoesNotExist`.
    """
    _check_cost(cost)
    return _set(workflow_id, "cost", cost, ("workflow_cost", acting_user, reason))


@transaction.atomic
def workflow_limit(
    *, workflow_id: uuid.UUID, max_running: int | None, acting_user: str, reason: str
) -> int:
    """Cap how many jobs of a workflow run at once (None: no cap of its own); returns the number.

    What runs above a new cap runs on. Raises `ControlRefused` and `Workflow.DoesNotExist`.
    """
    cap_check(max_running)
    return _set(workflow_id, "max_running", max_running, ("workflow_limit", acting_user, reason))


def _set(workflow_id: uuid.UUID, column: str, value: int | None, pull: tuple[str, str, str]) -> int:
    """Set one column of a workflow; `pull` is the action, who acts and why."""
    rows = Workflow.objects.select_related("tenant").select_for_update(of=("self",), no_key=True)
    row = rows.get(id=workflow_id)
    before = {column: getattr(row, column)}
    setattr(row, column, value)
    row.save(update_fields=[column])
    nudge_on_commit()
    return record_change(
        actor=pull[1],
        action=pull[0],
        tenant=row.tenant,
        target=("workflow", row.id),
        change=(before, {column: value}),
        reason=pull[2],
    )


def _check_cost(cost: int) -> None:
    if not 1 <= cost <= MAX_COST:
        sentence = f"A cost is 1 to {MAX_COST} units, not {cost}."
        raise ControlRefused("cost", sentence)


@transaction.atomic
def mission_create(
    *, tenant: Tenant, slug: str, name: str, acting_user: str, reason: str
) -> Mission:
    """Make a mission of a tenant; raises `ControlRefused` for a taken slug."""
    if Mission.objects.filter(tenant=tenant, slug=slug).exists():
        sentence = f"Tenant {tenant.slug} has a mission {slug!r} already."
        raise ControlRefused("slug", sentence)
    mission = Mission.objects.create(tenant=tenant, slug=slug, name=name)
    record_change(
        actor=acting_user,
        action="mission_create",
        tenant=tenant,
        target=("mission", mission.id),
        change=({}, {"slug": slug, "name": name}),
        reason=reason,
    )
    return mission
