"""Roles are groups with object permissions, in step with memberships, and gone with their object."""

from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.core.management.sql import emit_post_migrate_signal
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse
from guardian.models import GroupObjectPermission, UserObjectPermission
from guardian.shortcuts import assign_perm, get_objects_for_user, get_perms, remove_perm

from tenants.models import (
    AuditEntry,
    Membership,
    RoleGroup,
    Tenant,
    TenantGroupPermission,
    TenantUserPermission,
    Workspace,
    WorkspaceGroupPermission,
    WorkspaceUserPermission,
)
from tenants.rbac import Permission, principal_of_user, reach
from tenants.roles import DECLARED, JOB_TYPES, LEVELS, ROLE_PERMISSIONS, ROLES

pytestmark = pytest.mark.django_db
ROWS = (
    TenantGroupPermission, TenantUserPermission, WorkspaceGroupPermission,
    WorkspaceUserPermission, GroupObjectPermission, UserObjectPermission,
)  # fmt: skip
IN_TENANTS = [role for role in ROLES if role != "operator"]


@pytest.fixture
def acme():
    return Tenant.objects.create(slug="acme", name="Acme")


@pytest.fixture
def web(acme):
    return Workspace.objects.create(tenant=acme, slug="web", name="Web")


@pytest.fixture
def ann(django_user_model):
    return django_user_model.objects.create_user("ann")


def rows() -> int:
    return sum(model._default_manager.count() for model in ROWS)


def codenames(role: str) -> set[str]:
    return {permission.codename for permission in ROLE_PERMISSIONS[role]}


def test_every_permission_is_declared_and_no_role_of_a_tenant_operates():
    assert [name for name, _ in DECLARED] == [permission.codename for permission in Permission]
    beyond = {Permission.OPERATE, Permission.ASK_OPERATOR}
    assert not any(beyond & ROLE_PERMISSIONS[role] for role in IN_TENANTS)
    assert ROLE_PERMISSIONS["submitter"] >= JOB_TYPES
    assert set(LEVELS.values()) == {"submitter", "tenant_admin", "operator"}


@pytest.mark.parametrize("role", IN_TENANTS)
def test_a_role_is_the_permissions_of_its_group_on_its_object_alone(ann, acme, web, role):
    sister = Workspace.objects.create(tenant=acme, slug="ops", name="Ops")
    Membership.objects.create(user=ann, tenant=acme, workspace=web, role=role)
    assert set(get_perms(ann, web)) == codenames(role)
    assert get_perms(ann, acme) == get_perms(ann, sister) == []
    Membership.objects.create(user=ann, tenant=acme, role=role)
    assert set(get_perms(ann, acme)) == codenames(role)
    assert [ann.has_perm(name, acme) for name, _ in DECLARED] == [
        name in codenames(role) for name, _ in DECLARED
    ]


def test_an_operator_has_every_permission_everywhere(ann, acme, web, django_user_model):
    Membership.objects.create(user=ann, role="operator")
    someone = django_user_model.objects.create_user("bob")
    for name, _ in DECLARED:
        assert list(get_objects_for_user(ann, name, Tenant)) == [acme]
        assert list(get_objects_for_user(ann, name, Workspace)) == [web]
        assert not get_objects_for_user(someone, name, Tenant)
    assert principal_of_user(ann).is_operator


def test_the_permission_to_operate_on_one_tenant_makes_no_operator(ann, acme):
    assign_perm("operate", ann, acme)
    assert not principal_of_user(ann).is_operator
    assert not reach(principal_of_user(ann), Permission.VIEW).tenants


def test_a_permission_given_apart_from_a_role_counts(ann, acme, web):
    assign_perm("chat_use", ann, web)
    assign_perm("costs", ann, acme)
    principal = principal_of_user(ann)
    assert principal.permissions(acme.id, web.id) == {Permission.CHAT_USE, Permission.COSTS}
    remove_perm("chat_use", ann, web)
    assert principal_of_user(ann).permissions(acme.id, web.id) == {Permission.COSTS}


def test_a_person_is_read_in_one_query(ann, acme, web, django_assert_num_queries):
    Membership.objects.create(user=ann, tenant=acme, role="viewer")
    Membership.objects.create(user=ann, tenant=acme, workspace=web, role="submitter")
    with django_assert_num_queries(1):
        principal = principal_of_user(ann)
    assert len(principal.grants) == 2


def test_an_edited_membership_gives_the_new_role_and_takes_the_old(ann, acme, django_user_model):
    bob = django_user_model.objects.create_user("bob")
    membership = Membership.objects.create(user=ann, tenant=acme, role="tenant_admin")
    membership.role = "viewer"
    membership.save()
    assert get_perms(ann, acme) == ["view"]
    membership.user = bob
    membership.save()
    assert (get_perms(ann, acme), get_perms(bob, acme)) == ([], ["view"])


def test_a_membership_deleted_in_a_set_takes_its_role_and_leaves_the_other(ann, acme):
    for role in ("viewer", "submitter"):
        Membership.objects.create(user=ann, tenant=acme, role=role)
    Membership.objects.filter(role="submitter").delete()
    assert get_perms(ann, acme) == ["view"]


def test_two_members_share_a_group_and_one_may_go(ann, acme, django_user_model):
    bob = django_user_model.objects.create_user("bob")
    for user in (ann, bob):
        Membership.objects.create(user=user, tenant=acme, role="viewer")
    assert RoleGroup.objects.count() == 1
    Membership.objects.get(user=ann).delete()
    assert (get_perms(ann, acme), get_perms(bob, acme)) == ([], ["view"])


def by_row(thing):
    thing.delete()


def by_set(thing):
    type(thing)._default_manager.filter(pk=thing.pk).delete()


def by_owner(thing):
    getattr(thing, "tenant", thing).delete()


@pytest.mark.parametrize("delete", [by_row, by_set, by_owner])
@pytest.mark.parametrize("kind", ["tenant", "workspace"])
def test_permissions_go_with_their_object_and_none_come_to_its_heir(ann, acme, web, kind, delete):
    thing = acme if kind == "tenant" else web
    in_web = {"workspace": web} if kind == "workspace" else {}
    for role in IN_TENANTS:
        Membership.objects.create(user=ann, tenant=acme, role=role, **in_web)
    friends = Group.objects.create(name="friends")
    ann.groups.add(friends)
    assign_perm("manage", ann, thing)
    assign_perm("manage", friends, thing)
    assert rows() > len(IN_TENANTS)
    key = thing.pk
    delete(thing)
    assert (rows(), RoleGroup.objects.count(), Membership.objects.count()) == (0, 0, 0)
    assert list(Group.objects.all()) == [friends]
    beta = Tenant.objects.create(slug="beta", name="Beta", **({"id": key} if not in_web else {}))
    heir = Workspace.objects.create(tenant=beta, id=key, slug="x", name="X") if in_web else beta
    assert get_perms(ann, heir) == []
    assert principal_of_user(ann).grants == frozenset()


def test_the_database_refuses_to_leave_permissions_behind(ann, web):
    assign_perm("view", ann, web)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM tenants_workspace")
        with pytest.raises(IntegrityError, match="violates foreign key"):
            connection.check_constraints()
        transaction.set_rollback(True)


def test_permissions_go_with_their_user(ann, acme, web):
    Membership.objects.create(user=ann, tenant=acme, role="viewer")
    assign_perm("manage", ann, web)
    ann.delete()
    assert rows() == TenantGroupPermission.objects.count() == 1
    assert not RoleGroup.objects.get().user_set.exists()


def test_after_a_migration_the_groups_are_as_the_table_says(ann, acme):
    Membership.objects.create(user=ann, tenant=acme, role="submitter")
    group = RoleGroup.objects.get()
    assign_perm("manage", group, acme)
    remove_perm("submit", group, acme)
    emit_post_migrate_signal(0, interactive=False, db="default")
    assert set(get_perms(ann, acme)) == codenames("submitter")


def test_the_migration_lets_earlier_members_into_their_groups(ann, acme, web):
    held = [{"role": "operator"}, {"role": "viewer", "tenant": acme}]
    held.append({"role": "submitter", "tenant": acme, "workspace": web})
    for one in held:
        Membership.objects.create(user=ann, **one)
    named = set(RoleGroup.objects.values_list("name", flat=True))
    Group.objects.all().delete()
    assert principal_of_user(ann).grants == frozenset()
    import_module("tenants.migrations.0002_roles").join(apps, None)
    emit_post_migrate_signal(0, interactive=False, db="default")
    assert set(RoleGroup.objects.values_list("name", flat=True)) == named
    assert principal_of_user(ann).is_operator
    assert get_perms(ann, acme) == ["view"]
    assert set(get_perms(ann, web)) == codenames("submitter")


def test_a_role_is_taken_in_the_admin_one_by_one_or_in_a_set(
    ann, acme, client: Client, django_user_model
):
    root = django_user_model.objects.create_superuser("root")
    client.force_login(root, backend="django.contrib.auth.backends.ModelBackend")
    one = Membership.objects.create(user=ann, tenant=acme, role="submitter")
    url = reverse("admin:tenants_membership_delete", args=[one.pk])
    assert client.post(url, {"post": "yes"}).status_code == 302
    two = Membership.objects.create(user=ann, tenant=acme, role="viewer")
    chosen = {"action": "delete_selected", "_selected_action": [str(two.pk)], "post": "yes"}
    assert client.post(reverse("admin:tenants_membership_changelist"), chosen).status_code == 302
    assert get_perms(ann, acme) == []
    assert AuditEntry.objects.filter(action="member_remove", actor="root").count() == 2
