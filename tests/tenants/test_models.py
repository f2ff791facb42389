"""The rows of tenants hold their rules in the database."""

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from tenants.controls import ControlRefused, control_number, tenant_weight
from tenants.models import AuditEntry, Tenant

pytestmark = pytest.mark.django_db


def test_weight_zero_holds_a_tenant_and_keeps_its_last_weight():
    tenant = Tenant.objects.create(slug="a", name="A", weight=3)
    number = tenant_weight(tenant_id=tenant.id, weight=0, acting_user="op", reason="late bills")
    tenant.refresh_from_db()
    assert (tenant.held, tenant.weight) == (True, 3)
    assert control_number() == number
    tenant_weight(tenant_id=tenant.id, weight=2, acting_user="op", reason="paid")
    tenant.refresh_from_db()
    assert (tenant.held, tenant.weight) == (False, 2)
    entry = AuditEntry.objects.get(number=number)
    assert (entry.before, entry.after) == (
        {"weight": 3, "held": False},
        {"weight": 3, "held": True},
    )


@pytest.mark.parametrize("weight", [-1, 1001])
def test_a_weight_out_of_range_is_refused_by_name(weight):
    tenant = Tenant.objects.create(slug="a", name="A")
    with pytest.raises(ControlRefused, match=str(weight)) as caught:
        tenant_weight(tenant_id=tenant.id, weight=weight, acting_user="op", reason="x")
    assert caught.value.field == "weight"


def test_a_change_without_a_reason_changes_nothing():
    tenant = Tenant.objects.create(slug="a", name="A")
    with pytest.raises(ControlRefused), transaction.atomic():
        tenant_weight(tenant_id=tenant.id, weight=5, acting_user="op", reason=" ")
    tenant.refresh_from_db()
    assert tenant.weight == 1


def test_the_database_refuses_a_weight_of_zero():
    with pytest.raises(IntegrityError), transaction.atomic():
        Tenant.objects.create(slug="a", name="A", weight=0)


def test_the_audit_cannot_be_rewritten():
    tenant = Tenant.objects.create(slug="a", name="A")
    tenant_weight(tenant_id=tenant.id, weight=5, acting_user="op", reason="x")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        AuditEntry.objects.update(reason="y")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        AuditEntry.objects.all().delete()
