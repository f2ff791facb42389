"""Levers on how much of the capacity a tenant and its workspaces may have at once.

A cap bounds running jobs: what runs above a new cap runs on, what waits stands aside until it may
start and blocks nobody meanwhile. A workspace's weight shares out its tenant's turns, no others'.
"""

import uuid

from django.db import transaction

from tenants.controls import MAX_WEIGHT, ControlRefused, record_change
from tenants.models import Tenant, Workspace

MAX_CAP = 1_000_000


def cap_check(max_running: int | None) -> None:
    """Raise `ControlRefused` for a running cap that is none; None means no cap."""
    if max_running is not None and not 1 <= max_running <= MAX_CAP:
        sentence = (
            f"A cap is 1 to {MAX_CAP} running jobs, or null for none, not {max_running}; "
            "to let nothing start, hold the tenant or pause the jobs."
        )
        raise ControlRefused("max_running", sentence)


@transaction.atomic
def tenant_limit(
    *, tenant_id: uuid.UUID, max_running: int | None, acting_user: str, reason: str
) -> int:
    """Cap how many of a tenant's jobs run at once (None: no cap); returns the change's number.

    Raises `ControlRefused` and `Tenant.DoesNotExist`.
    """
    cap_check(max_running)
    tenant = Tenant.objects.select_for_update(no_key=True).get(id=tenant_id)
    before, tenant.max_running = tenant.max_running, max_running
    tenant.save(update_fields=["max_running"])
    return record_change(
        actor=acting_user,
        action="tenant_limit",
        tenant=tenant,
        target=("tenant", tenant.id),
        change=({"max_running": before}, {"max_running": max_running}),
        reason=reason,
    )


@transaction.atomic
def workspace_limit(
    *, workspace_id: uuid.UUID, max_running: int | None, acting_user: str, reason: str
) -> int:
    """Cap how many of a workspace's jobs run at once (None: no cap); returns the change's number.

    Raises `ControlRefused` and `Workspace.DoesNotExist`.
    """
    cap_check(max_running)
    workspace = _locked(workspace_id)
    before, workspace.max_running = workspace.max_running, max_running
    workspace.save(update_fields=["max_running"])
    return record_change(
        actor=acting_user,
        action="workspace_limit",
        tenant=workspace.tenant,
        target=("workspace", workspace.id),
        change=({"max_running": before}, {"max_running": max_running}),
        reason=reason,
    )


@transaction.atomic
def workspace_weight(*, workspace_id: uuid.UUID, weight: int, acting_user: str, reason: str) -> int:
    """Set a workspace's share of its tenant's turns; returns the change's number.

    Raises `ControlRefused` for a weight out of 1..1000 and `Workspace.DoesNotExist`.
    """
    if not 1 <= weight <= MAX_WEIGHT:
        sentence = (
            f"A workspace's weight is 1 to {MAX_WEIGHT}, not {weight}; only a tenant can be held."
        )
        raise ControlRefused("weight", sentence)
    workspace = _locked(workspace_id)
    before, workspace.weight = workspace.weight, weight
    workspace.save(update_fields=["weight"])
    return record_change(
        actor=acting_user,
        action="workspace_weight",
        tenant=workspace.tenant,
        target=("workspace", workspace.id),
        change=({"weight": before}, {"weight": weight}),
        reason=reason,
    )


def _locked(workspace_id: uuid.UUID) -> Workspace:
    rows = Workspace.objects.select_related("tenant")
    return rows.select_for_update(of=("self",), no_key=True).get(id=workspace_id)
