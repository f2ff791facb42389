"""Levers of a tenant's workflows and missions."""

import math
from dataclasses import dataclass

from django.db import transaction

from scheduling.events import nudge_on_commit
from scheduling.models import Mission, Pool, Workflow
from tenants.controls import ControlRefused, record_change
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
    if not 1 <= cost <= MAX_COST:
        sentence = f"A cost is 1 to {MAX_COST} units, not {cost}."
        raise ControlRefused("cost", sentence)
    if expected_s is not None and not 0 < expected_s < math.inf:
        raise ControlRefused(
            "expected_s", "Expected seconds are above 0; leave them out if unknown."
        )
    wanted = {"pool": settings.pool.slug, "cost": cost, "expected_s": expected_s}
    row = Workflow.objects.select_for_update().filter(tenant=tenant, slug=slug).first()
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
