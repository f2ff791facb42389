"""A role's group: made when the role is first held, and kept in step with what it stands for.

A membership is the record that people edit; its user is in the role's group exactly while it
stands. The group's permission rows are those of the table of roles: they are set when the group is
made, and for all groups after each migration, so that a new release's table takes effect.
"""

import uuid
from collections.abc import Iterable
from typing import Any

from django.apps import AppConfig
from django.apps import apps as installed
from django.apps.registry import Apps
from django.contrib.auth.models import Permission as PermissionRow
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models.signals import post_delete, post_migrate, post_save, pre_save
from django.dispatch import receiver

from tenants.models import (
    Membership,
    RoleGroup,
    Tenant,
    TenantGroupPermission,
    Workspace,
    WorkspaceGroupPermission,
)
from tenants.roles import ROLE_PERMISSIONS


@transaction.atomic
def role_group(
    role: str, tenant_id: uuid.UUID | None = None, workspace_id: uuid.UUID | None = None
) -> RoleGroup:
    """Return the group of a role on a tenant, on a workspace of it or (None) everywhere."""
    place: dict[str, Any] = {"tenant_id": tenant_id, "workspace_id": workspace_id}
    where = f"workspace {workspace_id}" if workspace_id else f"tenant {tenant_id}"
    name = role if tenant_id is None else f"{role} of {where}"
    group, fresh = RoleGroup.objects.get_or_create(role=role, **place, defaults={"name": name})
    if fresh:
        permissions_set(group)
    return group


@transaction.atomic
def permissions_set(group: RoleGroup) -> None:
    """Give a role's group the permissions of its role, and take all others."""
    codenames = {permission.codename for permission in ROLE_PERMISSIONS[group.role]}
    if group.workspace_id is not None:
        wanted = _rows((Workspace,), codenames)
        _replace(WorkspaceGroupPermission, group, group.workspace_id, wanted)
    elif group.tenant_id is not None:
        _replace(TenantGroupPermission, group, group.tenant_id, _rows((Tenant,), codenames))
    else:
        group.permissions.set(_rows((Tenant, Workspace), codenames))


def _rows(
    models: tuple[type[Tenant] | type[Workspace], ...], codenames: Iterable[str]
) -> list[PermissionRow]:
    types = ContentType.objects.get_for_models(*models).values()
    return list(PermissionRow.objects.filter(content_type__in=types, codename__in=codenames))


def _replace(
    model: type[TenantGroupPermission] | type[WorkspaceGroupPermission],
    group: RoleGroup,
    object_id: uuid.UUID,
    wanted: list[PermissionRow],
) -> None:
    model._default_manager.filter(group=group).exclude(permission__in=wanted).delete()
    rows = [model(group=group, permission=one, content_object_id=object_id) for one in wanted]
    model._default_manager.bulk_create(rows, ignore_conflicts=True)


@receiver(pre_save, sender=Membership)
def _moving(instance: Membership, **_: object) -> None:
    """Take what an edited membership gave before."""
    if not instance._state.adding:
        for before in Membership.objects.filter(pk=instance.pk):
            _leave(before)


@receiver(post_save, sender=Membership)
def _given(instance: Membership, **_: object) -> None:
    group = role_group(instance.role, instance.tenant_id, instance.workspace_id)
    group.user_set.add(instance.user_id)


@receiver(post_delete, sender=Membership)
def _taken(instance: Membership, **_: object) -> None:
    _leave(instance)


def _leave(membership: Membership) -> None:
    groups = RoleGroup.objects.filter(
        role=membership.role, tenant=membership.tenant_id, workspace=membership.workspace_id
    )
    for group in groups:
        group.user_set.remove(membership.user_id)


@receiver(post_migrate, dispatch_uid="tenants.groups")
def _migrated(sender: AppConfig, apps: Apps = installed, **_: object) -> None:
    """Set all groups by the table, once the permissions that it names have their rows."""
    if sender.name != "tenants" or "rolegroup" not in apps.all_models["tenants"]:
        return  # another app, or a migration back to before there were groups
    for group in RoleGroup.objects.all():
        permissions_set(group)
