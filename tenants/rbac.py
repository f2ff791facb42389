"""Who may see and do what: the one place that every view, list, count and socket asks.

A principal is a person or a key with its permissions on objects. One held on a tenant reaches all
of its workspaces; one held on a workspace reaches that workspace alone. What a principal cannot see
does not exist for it (`Hidden`, shown as 404); what it sees but may not do is `Forbidden` (403).
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import F, Model, Q, QuerySet, UUIDField, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast

from tenants.models import (
    ApiKey,
    TenantGroupPermission,
    TenantUserPermission,
    WorkspaceGroupPermission,
    WorkspaceUserPermission,
)
from tenants.roles import JOB_TYPES, LEVELS, ROLE_PERMISSIONS
from tenants.roles import Permission as Permission

_BY_CODENAME = {permission.codename: permission for permission in Permission}


class Hidden(Exception):
    """The thing does not exist for this principal; the answer is that of an unknown id."""

    def __init__(self, what: str = "thing") -> None:
        """Keep what was looked for ("job", "workspace" ...); never its name or id."""
        super().__init__(f"There is no such {what}, or you may not see it.")


class Forbidden(Exception):
    """The principal sees the thing but lacks `permission` on it."""

    def __init__(self, permission: Permission) -> None:
        """Keep the permission that is missing."""
        super().__init__(f"This needs the permission {permission} here; ask a tenant admin for it.")
        self.permission = permission


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Permissions on a whole tenant (`workspace` None) or on one workspace of it."""

    tenant: uuid.UUID
    workspace: uuid.UUID | None
    permissions: frozenset[Permission]


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks: its name in records, and its grants; `key_workspace` is set for an API key."""

    name: str
    is_operator: bool = False
    grants: frozenset[Grant] = frozenset()
    key_workspace: uuid.UUID | None = None

    def permissions(
        self, tenant: uuid.UUID, workspace: uuid.UUID | None = None
    ) -> frozenset[Permission]:
        """Return what it may do on a workspace, or on the tenant as a whole (None)."""
        if self.is_operator:
            return frozenset(Permission)
        held = (
            grant.permissions
            for grant in self.grants
            if grant.tenant == tenant and grant.workspace in (None, workspace)
        )
        return frozenset[Permission]().union(*held)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where a principal has a permission: everywhere, in whole tenants, in single workspaces."""

    everywhere: bool
    tenants: frozenset[uuid.UUID]
    workspaces: frozenset[uuid.UUID]

    def covers(self, tenant: uuid.UUID, workspace: uuid.UUID) -> bool:
        """Tell whether something of that workspace is within reach."""
        return self.everywhere or tenant in self.tenants or workspace in self.workspaces

    def rows(self) -> Q:
        """Return the filter for rows that have a `tenant` and a `workspace`."""
        if self.everywhere:
            return Q()
        return Q(tenant__in=self.tenants) | Q(workspace__in=self.workspaces)


_Held: TypeAlias = tuple[uuid.UUID | None, uuid.UUID | None, list[str]]
"""A tenant, a workspace of it (None: the tenant as a whole), the codenames held there."""


def principal_of_user(user: AbstractBaseUser | AnonymousUser) -> Principal:
    """Return a person's principal; one who is not logged in or not active may do nothing.

    One query reads what it holds on objects, by its groups or itself.
    """
    if not user.is_authenticated or not user.is_active:
        return Principal(name="")
    held = list(_held(user.pk))
    return Principal(
        name=user.get_username(),
        is_operator=bool(getattr(user, "is_superuser", False))
        or any(
            tenant is None and Permission.OPERATE.codename in codes for tenant, _, codes in held
        ),
        grants=frozenset(
            Grant(
                tenant=tenant,
                workspace=workspace,
                permissions=frozenset(_BY_CODENAME[one] for one in codes),
            )
            for tenant, workspace, codes in held
            if tenant is not None
        ),
    )


def _held(user_id: int) -> QuerySet[Any, _Held]:
    """Read what a user holds; rows without a tenant are held everywhere, by operators' groups."""
    none, on = Cast(Value(None), UUIDField()), F("content_object")
    by_group, by_user = {"group__user": user_id}, {"user": user_id}
    return _codes(Group.permissions.through, by_group, none, none).union(
        _codes(TenantGroupPermission, by_group, on, none),
        _codes(TenantUserPermission, by_user, on, none),
        _codes(WorkspaceGroupPermission, by_group, F("content_object__tenant"), on),
        _codes(WorkspaceUserPermission, by_user, F("content_object__tenant"), on),
        all=True,
    )


def _codes(
    model: type[Model], held_by: dict[str, int], tenant: Combinable, workspace: Combinable
) -> QuerySet[Any, _Held]:
    rows = model._default_manager.filter(
        **held_by,
        permission__content_type__app_label="tenants",
        permission__codename__in=list(_BY_CODENAME),
    )
    placed = rows.order_by().values(in_tenant=tenant, in_workspace=workspace)
    return placed.values_list("in_tenant", "in_workspace", ArrayAgg("permission__codename"))


def principal_of_key(key: ApiKey) -> Principal:
    """Return a key's principal: its role on its workspace. `key.workspace` must be loaded."""
    grant = Grant(
        tenant=key.workspace.tenant_id,
        workspace=key.workspace_id,
        permissions=ROLE_PERMISSIONS[key.role],
    )
    return Principal(
        name=f"key:{key.prefix}", grants=frozenset({grant}), key_workspace=key.workspace_id
    )


def reach(principal: Principal, permission: Permission) -> Reach:
    """Return where the principal has the permission."""
    granted = list(_with(principal, permission))
    return Reach(
        everywhere=principal.is_operator,
        tenants=frozenset(one.tenant for one in granted if one.workspace is None),
        workspaces=frozenset(one.workspace for one in granted if one.workspace is not None),
    )


def visible_tenants(
    principal: Principal, permission: Permission = Permission.VIEW
) -> frozenset[uuid.UUID] | None:
    """Return the tenants in which the principal has the permission anywhere; None means all."""
    if principal.is_operator:
        return None
    return frozenset(one.tenant for one in _with(principal, permission))


def _with(principal: Principal, permission: Permission) -> Iterator[Grant]:
    return (one for one in principal.grants if permission in one.permissions)


def require(
    principal: Principal,
    permission: Permission,
    *,
    tenant: uuid.UUID,
    workspace: uuid.UUID | None = None,
) -> None:
    """Pass if the principal has the permission on the workspace, or on the whole tenant (None).

    Raises `Hidden` when it has none at all there, so that the thing reads like an unknown id, and
    `Forbidden` when it has some but not this one.
    """
    held = principal.permissions(tenant, workspace)
    if permission in held:
        return
    inside = workspace is None and any(grant.tenant == tenant for grant in principal.grants)
    if not held and not inside:
        raise Hidden
    raise Forbidden(permission)


def asking_levels(
    principal: Principal, *, tenant: uuid.UUID, workspace: uuid.UUID
) -> frozenset[str]:
    """Return the levels ("submitter", "tenant_admin", "operator") at which it may ask for classes.

    The policy's class table names the least level of each class (`ClassRule.asked_by`).
    """
    return _levels(principal.permissions(tenant, workspace))


def asking_levels_anywhere(principal: Principal) -> frozenset[str]:
    """Return the levels at which it may ask for classes in one place or another."""
    if principal.is_operator:
        return frozenset(LEVELS.values())
    return _levels(frozenset[Permission]().union(*(one.permissions for one in principal.grants)))


def _levels(held: frozenset[Permission]) -> frozenset[str]:
    return frozenset(level for permission, level in LEVELS.items() if permission in held)


def job_types(principal: Principal, *, tenant: uuid.UUID, workspace: uuid.UUID) -> frozenset[str]:
    """Return the permissions on types of job ("chat:use" ...) that it has on a workspace."""
    return frozenset(map(str, principal.permissions(tenant, workspace) & JOB_TYPES))
