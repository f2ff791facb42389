"""Roles: who sees and may do what, and what a stranger is told."""

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from tenants.controls import ControlRefused
from tenants.keys import key_issue
from tenants.models import AuditEntry, Membership
from tenants.rbac import (
    Forbidden,
    Hidden,
    Permission,
    asking_levels,
    principal_of_key,
    principal_of_user,
    reach,
    require,
    visible_tenants,
)
from tenants.roles import ROLE_PERMISSIONS, ROLES
from tenants.services import member_add, member_remove, tenant_create, workspace_create

pytestmark = pytest.mark.django_db
WHY: dict[str, Any] = {"acting_user": "root", "reason": "set-up"}


@pytest.fixture
def acme():
    return tenant_create(slug="acme", name="Acme", **WHY)


@pytest.fixture
def web(acme):
    return workspace_create(tenant=acme, slug="web", name="Web", **WHY)


@pytest.fixture
def ops(acme):
    return workspace_create(tenant=acme, slug="ops", name="Ops", **WHY)


@pytest.fixture
def other():
    tenant = tenant_create(slug="other", name="Other", **WHY)
    return workspace_create(tenant=tenant, slug="main", name="Main", **WHY)


@pytest.fixture
def ann(django_user_model):
    return django_user_model.objects.create_user("ann")


def test_every_role_has_a_row_in_the_permission_table():
    assert set(ROLE_PERMISSIONS) == set(ROLES)


def test_a_stranger_finds_nothing_and_is_told_nothing(ann, web):
    principal = principal_of_user(ann)
    assert visible_tenants(principal) == frozenset()
    with pytest.raises(Hidden):
        require(principal, Permission.VIEW, tenant=web.tenant_id, workspace=web.id)
    with pytest.raises(Hidden):
        require(principal, Permission.VIEW, tenant=uuid.uuid4())


def test_a_tenant_role_reaches_every_workspace_of_the_tenant_and_no_other(ann, acme, web, other):
    member_add(user=ann, tenant=acme, role="submitter", **WHY)
    principal = principal_of_user(ann)
    require(principal, Permission.SUBMIT, tenant=acme.id, workspace=web.id)
    assert visible_tenants(principal) == {acme.id}
    assert reach(principal, Permission.VIEW).covers(acme.id, web.id)
    assert not reach(principal, Permission.VIEW).covers(other.tenant_id, other.id)
    with pytest.raises(Hidden):
        require(principal, Permission.VIEW, tenant=other.tenant_id, workspace=other.id)


def test_a_workspace_role_does_not_reach_its_sister(ann, acme, web, ops):
    member_add(user=ann, tenant=acme, workspace=web, role="submitter", **WHY)
    principal = principal_of_user(ann)
    require(principal, Permission.CANCEL, tenant=acme.id, workspace=web.id)
    with pytest.raises(Hidden):
        require(principal, Permission.VIEW, tenant=acme.id, workspace=ops.id)
    with pytest.raises(Forbidden):
        require(principal, Permission.MANAGE, tenant=acme.id)


def test_a_viewer_is_forbidden_and_not_hidden_what_it_sees(ann, acme, web):
    member_add(user=ann, tenant=acme, role="viewer", **WHY)
    with pytest.raises(Forbidden, match="submit"):
        require(principal_of_user(ann), Permission.SUBMIT, tenant=acme.id, workspace=web.id)


def test_a_billing_viewer_sees_costs_and_no_jobs(ann, acme):
    member_add(user=ann, tenant=acme, role="billing_viewer", **WHY)
    principal = principal_of_user(ann)
    assert visible_tenants(principal) == frozenset()
    assert visible_tenants(principal, Permission.COSTS) == {acme.id}


def test_an_operator_sees_all_and_may_ask_for_every_class(ann, web):
    member_add(user=ann, role="operator", **WHY)
    principal = principal_of_user(ann)
    assert visible_tenants(principal) is None
    require(principal, Permission.MANAGE, tenant=web.tenant_id, workspace=web.id)
    levels = asking_levels(principal, tenant=web.tenant_id, workspace=web.id)
    assert levels == {"submitter", "tenant_admin", "operator"}


def test_a_submitter_asks_as_a_submitter_alone(ann, acme, web):
    member_add(user=ann, tenant=acme, role="submitter", **WHY)
    levels = asking_levels(principal_of_user(ann), tenant=acme.id, workspace=web.id)
    assert levels == {"submitter"}


def test_a_key_reaches_its_workspace_alone(web, ops):
    key, _ = key_issue(workspace=web, name="ci", role="submitter", **WHY)
    principal = principal_of_key(key)
    require(principal, Permission.SUBMIT, tenant=web.tenant_id, workspace=web.id)
    with pytest.raises(Hidden):
        require(principal, Permission.VIEW, tenant=ops.tenant_id, workspace=ops.id)


def test_a_removed_member_and_an_inactive_one_have_no_roles(ann, acme):
    membership = member_add(user=ann, tenant=acme, role="viewer", **WHY)
    ann.is_active = False
    assert principal_of_user(ann).grants == frozenset()
    ann.is_active = True
    assert principal_of_user(ann).grants
    member_remove(membership_id=membership.id, **WHY)
    assert principal_of_user(ann).grants == frozenset()
    assert principal_of_user(AnonymousUser()).grants == frozenset()


def test_adding_a_member_twice_keeps_one_row_and_one_audit_entry(ann, acme):
    first = member_add(user=ann, tenant=acme, role="viewer", **WHY)
    assert member_add(user=ann, tenant=acme, role="viewer", **WHY) == first
    assert Membership.objects.count() == 1
    assert AuditEntry.objects.filter(action="member_add").count() == 1


def test_a_role_that_does_not_fit_is_refused(ann, acme, other):
    for wrong, field in (
        ({"tenant": acme, "role": "operator"}, "tenant"),
        ({"role": "viewer"}, "tenant"),
        ({"tenant": acme, "workspace": other, "role": "viewer"}, "workspace"),
        ({"tenant": acme, "role": "king"}, "role"),
    ):
        with pytest.raises(ControlRefused) as caught:
            member_add(user=ann, **wrong, **WHY)
        assert caught.value.field == field


@pytest.mark.parametrize("slug", ["", "a b", "a/b", "x" * 64, "acme"])
def test_a_bad_or_taken_slug_is_refused(acme, slug):
    with pytest.raises(ControlRefused, match=r"slug|tenant"):
        tenant_create(slug=slug, name="X", **WHY)
