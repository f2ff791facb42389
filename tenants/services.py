"""Tenants, workspaces and memberships: made and ended, each with its audit entry."""

import uuid

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import transaction

from tenants.controls import ControlRefused, record_change
from tenants.models import Membership, Tenant, Workspace
from tenants.roles import OPERATOR, ROLES


@transaction.atomic
def tenant_create(*, slug: str, name: str, acting_user: str, reason: str) -> Tenant:
    """Make a tenant; raises `ControlRefused` for a bad or taken slug."""
    _check_slug(slug)
    if Tenant.objects.filter(slug=slug).exists():
        sentence = f"There is a tenant {slug!r} already."
        raise ControlRefused("slug", sentence)
    tenant = Tenant.objects.create(slug=slug, name=name)
    record_change(
        actor=acting_user,
        action="tenant_create",
        tenant=tenant,
        target=("tenant", tenant.id),
        change=({}, {"slug": slug, "name": name}),
        reason=reason,
    )
    return tenant


@transaction.atomic
def workspace_create(
    *, tenant: Tenant, slug: str, name: str, acting_user: str, reason: str
) -> Workspace:
    """Make a workspace of a tenant; raises `ControlRefused` for a bad or taken slug."""
    _check_slug(slug)
    if Workspace.objects.filter(tenant=tenant, slug=slug).exists():
        sentence = f"Tenant {tenant.slug} has a workspace {slug!r} already."
        raise ControlRefused("slug", sentence)
    workspace = Workspace.objects.create(tenant=tenant, slug=slug, name=name)
    record_change(
        actor=acting_user,
        action="workspace_create",
        tenant=tenant,
        target=("workspace", workspace.id),
        change=({}, {"slug": slug, "name": name}),
        reason=reason,
    )
    return workspace


@transaction.atomic
def member_add(
    *,
    user: AbstractBaseUser,
    role: str,
    acting_user: str,
    reason: str,
    tenant: Tenant | None = None,
    workspace: Workspace | None = None,
) -> Membership:
    """Give a user a role on a tenant or one of its workspaces; no tenant makes an operator.

    Adding the same again changes nothing. Raises `ControlRefused` for a role that does not fit.
    """
    _check_role(role, tenant, workspace)
    membership, fresh = Membership.objects.get_or_create(
        user_id=user.pk, tenant=tenant, workspace=workspace, role=role
    )
    if fresh:
        record_change(
            actor=acting_user,
            action="member_add",
            tenant=tenant,
            target=("membership", membership.id),
            change=({}, _told(membership, user)),
            reason=reason,
        )
    return membership


@transaction.atomic
def member_remove(*, membership_id: uuid.UUID, acting_user: str, reason: str) -> None:
    """Take a role away; raises `Membership.DoesNotExist`."""
    membership = Membership.objects.select_for_update().get(id=membership_id)
    user = get_user_model().objects.get(pk=membership.user_id)
    record_change(
        actor=acting_user,
        action="member_remove",
        tenant=membership.tenant,
        target=("membership", membership.id),
        change=(_told(membership, user), {}),
        reason=reason,
    )
    membership.delete()


def _check_slug(slug: str) -> None:
    try:
        validate_slug(slug)
    except ValidationError:
        sentence = f"A slug has letters, digits, - and _ only, not {slug!r}."
        raise ControlRefused("slug", sentence) from None
    if len(slug) > 63:
        raise ControlRefused("slug", "A slug has at most 63 characters.")


def _check_role(role: str, tenant: Tenant | None, workspace: Workspace | None) -> None:
    if role not in ROLES:
        sentence = f"A role is one of {', '.join(ROLES)}, not {role!r}."
        raise ControlRefused("role", sentence)
    if (role == OPERATOR) != (tenant is None):
        raise ControlRefused("tenant", "An operator has no tenant; every other role needs one.")
    if workspace is not None and (tenant is None or workspace.tenant_id != tenant.id):
        raise ControlRefused("workspace", "The workspace is not one of that tenant.")


def _told(membership: Membership, user: AbstractBaseUser) -> dict[str, str | None]:
    return {
        "user": user.get_username(),
        "role": membership.role,
        "workspace": str(membership.workspace_id) if membership.workspace_id else None,
    }
