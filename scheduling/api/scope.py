"""Finding what a call names, for who calls: the workspace to submit to, tenants of filters."""

import uuid

from scheduling.api.problems import invalid
from scheduling.services.drafts import FieldError
from tenants.ids import uuid_or_none
from tenants.models import Tenant, Workspace
from tenants.rbac import (
    Hidden,
    Permission,
    Principal,
    reach,
    require,
    visible_tenants,
)

NAME_IT = "Name the workspace to submit to: its id, or tenant/workspace."


def workspace_for(principal: Principal, named: str | None, permission: Permission) -> Workspace:
    """Return the workspace that is named, or the key's own; check the permission on it.

    Raises `Hidden` for an unknown or foreign workspace, and for one that is not the key's;
    `Forbidden` without the permission; a 400 `Problem` when a person names none.
    """
    if named is None and principal.key_workspace is None:
        raise invalid(FieldError(field="workspace", sentence=NAME_IT))
    workspace = _find(named or str(principal.key_workspace))
    if workspace is None or principal.key_workspace not in (None, workspace.id):
        raise Hidden("workspace")
    try:
        require(principal, permission, tenant=workspace.tenant_id, workspace=workspace.id)
    except Hidden:
        raise Hidden("workspace") from None
    return workspace


def workspace_visible(principal: Principal, named: str) -> uuid.UUID:
    """Return the id of a workspace that a filter names; raise `Hidden` when out of reach."""
    found = _find(named)
    within = reach(principal, Permission.VIEW)
    if found is None or not within.covers(found.tenant_id, found.id):
        raise Hidden("workspace")
    return found.id


def tenant_visible(
    principal: Principal, named: str, permission: Permission = Permission.VIEW
) -> uuid.UUID:
    """Return the id of a tenant that a filter names (id or slug); raise `Hidden`."""
    key = uuid_or_none(named)
    found = Tenant.objects.filter(id=key) if key else Tenant.objects.filter(slug=named)
    tenant = found.values_list("id", flat=True).first()
    visible = visible_tenants(principal, permission)
    if tenant is None or (visible is not None and tenant not in visible):
        raise Hidden("tenant")
    return tenant


def _find(named: str) -> Workspace | None:
    rows = Workspace.objects.select_related("tenant")
    key = uuid_or_none(named)
    if key is not None:
        return rows.filter(id=key).first()
    tenant, _, slug = named.partition("/")
    return rows.filter(tenant__slug=tenant, slug=slug).first()
