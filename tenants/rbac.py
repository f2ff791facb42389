"""Who may see and do what: the one place that every view, list, count and socket asks.

A principal is a person or a key with its roles. A role held on a tenant reaches all of its
workspaces; a role held on a workspace reaches that workspace alone. What a principal cannot see
does not exist for it (`Hidden`, shown as 404); what it sees but may not do is `Forbidden` (403).
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Q

from tenants.models import ApiKey, Membership


class Permission(StrEnum):
    """What may be done to a tenant or a workspace and what it owns."""

    VIEW = "view"
    SUBMIT = "submit"
    CANCEL = "cancel"
    REVIEW = "review"
    COSTS = "costs"
    MANAGE = "manage"


OPERATOR = "operator"
ROLE_PERMISSIONS: Mapping[str, frozenset[Permission]] = {
    OPERATOR: frozenset(Permission),
    "tenant_admin": frozenset(Permission),
    "submitter": frozenset({Permission.VIEW, Permission.SUBMIT, Permission.CANCEL}),
    "reviewer": frozenset({Permission.VIEW, Permission.REVIEW}),
    "billing_viewer": frozenset({Permission.COSTS}),
    "viewer": frozenset({Permission.VIEW}),
}
ASKING_ROLES: Mapping[str, frozenset[str]] = {
    OPERATOR: frozenset({"submitter", "tenant_admin", OPERATOR}),
    "tenant_admin": frozenset({"submitter", "tenant_admin"}),
    "submitter": frozenset({"submitter"}),
}
"""Per role, the levels that it counts as where the policy says who may ask for a class."""


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
    """One role on a whole tenant (`workspace` None) or on one workspace of it."""

    tenant: uuid.UUID
    workspace: uuid.UUID | None
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks: its name in records, and its roles; `key_workspace` is set for an API key."""

    name: str
    is_operator: bool = False
    grants: frozenset[Grant] = frozenset()
    key_workspace: uuid.UUID | None = None

    def roles(self, tenant: uuid.UUID, workspace: uuid.UUID | None = None) -> frozenset[str]:
        """Return the roles that count on a workspace, or on the tenant as a whole (None)."""
        held = {
            grant.role
            for grant in self.grants
            if grant.tenant == tenant and grant.workspace in (None, workspace)
        }
        return frozenset(held | {OPERATOR}) if self.is_operator else frozenset(held)


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


def principal_of_user(user: AbstractBaseUser | AnonymousUser) -> Principal:
    """Return a person's principal; one who is not logged in or not active has no roles."""
    if not user.is_authenticated or not user.is_active:
        return Principal(name="")
    rows: list[tuple[uuid.UUID | None, uuid.UUID | None, str]] = list(
        Membership.objects.filter(user_id=user.pk).values_list("tenant", "workspace", "role")
    )
    return Principal(
        name=user.get_username(),
        is_operator=bool(getattr(user, "is_superuser", False))
        or any(role == OPERATOR for _, _, role in rows),
        grants=frozenset(
            Grant(tenant=tenant, workspace=workspace, role=role)
            for tenant, workspace, role in rows
            if tenant is not None
        ),
    )


def principal_of_key(key: ApiKey) -> Principal:
    """Return a key's principal: its role on its workspace. `key.workspace` must be loaded."""
    grant = Grant(tenant=key.workspace.tenant_id, workspace=key.workspace_id, role=key.role)
    return Principal(
        name=f"key:{key.prefix}", grants=frozenset({grant}), key_workspace=key.workspace_id
    )


def reach(principal: Principal, permission: Permission) -> Reach:
    """Return where the principal has the permission."""
    granted = [one for one in principal.grants if permission in ROLE_PERMISSIONS[one.role]]
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
    return frozenset(
        one.tenant for one in principal.grants if permission in ROLE_PERMISSIONS[one.role]
    )


def require(
    principal: Principal,
    permission: Permission,
    *,
    tenant: uuid.UUID,
    workspace: uuid.UUID | None = None,
) -> None:
    """Pass if the principal has the permission on the workspace, or on the whole tenant (None).

    Raises `Hidden` when it has no role there, so that the thing reads like an unknown id, and
    `Forbidden` when it has one that does not include the permission.
    """
    roles = principal.roles(tenant, workspace)
    if any(permission in ROLE_PERMISSIONS[role] for role in roles):
        return
    inside = workspace is None and any(grant.tenant == tenant for grant in principal.grants)
    if not roles and not inside:
        raise Hidden
    raise Forbidden(permission)


def asking_levels(
    principal: Principal, *, tenant: uuid.UUID, workspace: uuid.UUID
) -> frozenset[str]:
    """Return the levels ("submitter", "tenant_admin", "operator") at which it may ask for classes.

    The policy's class table names the least level of each class (`ClassRule.asked_by`).
    """
    roles = principal.roles(tenant, workspace)
    return frozenset[str]().union(*(ASKING_ROLES.get(role, frozenset()) for role in roles))
