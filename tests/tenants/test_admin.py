"""The admin: what may be changed there is audited, and nothing else can be changed."""

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from scheduling.models import Pool
from tenants.controls import control_number
from tenants.keys import key_authenticate
from tenants.models import AuditEntry, Tenant, Workspace

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff(client: Client) -> Client:
    user = get_user_model().objects.create_superuser("root", "root@example.org", "a long secret")
    client.force_login(user)
    return client


def test_a_tenant_made_and_edited_in_the_admin_is_audited(staff):
    fields = {"slug": "acme", "name": "Acme", "weight": "2", "timezone": "UTC"}
    assert staff.post(reverse("admin:tenants_tenant_add"), fields).status_code == 302
    tenant = Tenant.objects.get(slug="acme")
    before = control_number()
    change = reverse("admin:tenants_tenant_change", args=[tenant.pk])
    assert staff.post(change, fields | {"weight": "5"}).status_code == 302
    entry = AuditEntry.objects.get(number=control_number())
    assert control_number() == before + 1
    assert (entry.actor, entry.action, entry.tenant) == ("root", "tenant_edit", tenant)
    assert (entry.before["weight"], entry.after["weight"]) == ("2", "5")


def test_a_pool_can_be_made_but_not_with_a_reserve_above_its_budget(staff):
    add = reverse("admin:scheduling_pool_add")
    fields = {"slug": "gpu", "name": "GPU", "budget": "4", "reserve": "5"}
    assert "violated" in staff.post(add, fields).text
    assert staff.post(add, fields | {"reserve": "1"}).status_code == 302
    assert Pool.objects.get(slug="gpu").reserve == 1


@pytest.mark.parametrize("name", ["auditentry", "apikey"])
def test_audit_and_keys_cannot_be_added_by_hand(staff, name):
    assert staff.get(reverse(f"admin:tenants_{name}_add")).status_code == 403
    assert staff.get(reverse(f"admin:tenants_{name}_changelist")).status_code == 200


@pytest.mark.parametrize("name", ["job", "attempt", "decision", "policyversion"])
def test_the_rows_of_scheduling_can_be_looked_at(staff, name):
    assert staff.get(reverse(f"admin:scheduling_{name}_changelist")).status_code == 200
    assert staff.get(reverse(f"admin:scheduling_{name}_add")).status_code == 403


def test_a_key_issued_on_the_console_opens_its_workspace(capsys):
    tenant = Tenant.objects.create(slug="acme", name="Acme")
    workspace = Workspace.objects.create(tenant=tenant, slug="main", name="Main")
    call_command("key_issue", "acme/main", "laptop")
    secret = capsys.readouterr().out.strip()
    from_secret = key_authenticate(secret, tenant.created_at)
    assert from_secret is not None
    assert from_secret.workspace == workspace
    with pytest.raises(CommandError, match="acme/other"):
        call_command("key_issue", "acme/other", "laptop")
