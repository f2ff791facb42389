"""The lever on limits: what it keeps, what it refuses, what the table itself refuses."""

import uuid

import pytest
from django.db import IntegrityError, transaction

from scheduling.controls.limits import MAX_RATE, limit_set
from scheduling.models import Limit
from tenants.controls import ControlRefused, control_number
from tenants.models import AuditEntry
from tests.scheduling.factories import WHO, make_executor, make_pool, make_price, make_tenant

pytestmark = pytest.mark.django_db


def set_to(value: int | None, scope: str = "key", scope_id: str = "repo", measure: str = "") -> int:
    measure = measure or ("running" if scope not in ("tenant", "provider") else "tokens_a_minute")
    return limit_set(scope=scope, scope_id=scope_id, measure=measure, value=value, **WHO)


def test_a_limit_is_one_row_however_often_it_is_set_and_none_when_lifted() -> None:
    set_to(2)
    number = set_to(3)
    assert Limit.objects.get().value == 3
    entry = AuditEntry.objects.get(number=number)
    assert (entry.before["running"], entry.after["running"]) == (2, 3)
    assert (entry.target_type, entry.target_id) == ("key", "repo")
    set_to(None)
    assert set_to(None) == control_number() == number + 2
    assert not Limit.objects.exists()


def test_a_rate_is_of_a_tenant_or_a_provider_that_there_is() -> None:
    make_price()
    pool = make_pool()
    make_executor(pool)
    tenant = str(make_tenant("acme", pool).tenant_id)
    number = set_to(MAX_RATE, "tenant", tenant)
    assert str(AuditEntry.objects.get(number=number).tenant_id) == tenant
    set_to(5, "provider", "simulated")
    for scope, wrong in (("tenant", "acme"), ("tenant", str(uuid.uuid4())), ("provider", "none")):
        with pytest.raises(ControlRefused) as refused:
            set_to(5, scope, wrong)
        assert refused.value.field == "scope_id"


def test_a_rate_has_its_own_bounds() -> None:
    with pytest.raises(ControlRefused, match="1 to 1000000000000"):
        set_to(MAX_RATE + 1, "tenant", "x")


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": 0},
        {"scope": "moon"},
        {"scope": "tenant", "measure": "running"},
        {"scope": "key", "measure": "tokens_a_minute"},
    ],
)
def test_the_table_takes_no_limit_that_means_nothing(wrong: dict[str, object]) -> None:
    fields = {"scope": "key", "scope_id": "k", "measure": "running", "value": 1} | wrong
    with pytest.raises(IntegrityError), transaction.atomic():
        Limit.objects.create(**fields)
