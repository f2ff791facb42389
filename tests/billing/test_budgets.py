"""Setting a ceiling is audited, and acts on the next verdict."""

import uuid
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from billing.models import Budget
from billing.services.budgets import Ceiling, budget_set
from billing.services.reservations import reserve
from tenants.controls import ControlRefused
from tenants.models import AuditEntry
from tests.billing.conftest import NOW, Shop

pytestmark = pytest.mark.django_db


def put(shop: Shop, limit: str, reason: str = "plan", **more: Any) -> uuid.UUID:
    fields: dict[str, Any] = {
        "tenant_id": shop.tenant.id,
        "scope": "tenant",
        "scope_id": str(shop.tenant.id),
        "dimension": "spend",
    }
    return budget_set(
        acting_user="olga",
        reason=reason,
        ceiling=Ceiling(**(fields | more)),
        limit=Decimal(limit),
    )


def test_a_budget_is_made_then_changed_and_both_are_audited(shop):
    made = put(shop, "5")
    assert put(shop, "7.50") == made
    first, second = AuditEntry.objects.order_by("number")
    assert (first.before, first.after["limit"]) == ({}, "5")
    assert (second.before, second.after["limit"]) == ({"limit": "5"}, "7.5")
    assert second.tenant == shop.tenant


def test_a_raised_limit_lets_the_next_job_in(shop):
    put(shop, "1")
    ask = shop.ask("2")
    assert type(reserve(requests=[ask], now=NOW)[0]).__name__ == "Refused"
    put(shop, "2")
    assert type(reserve(requests=[ask], now=NOW)[0]).__name__ == "Reserved"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"scope": "planet"}, "scope"),
        ({"dimension": "hugs"}, "dimension"),
        ({"window": "year"}, "window"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"timezone": "../etc"}, "timezone"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "NaN"}, "limit"),
        ({"limit": "1E-13"}, "limit"),
        ({"limit": "1E24"}, "limit"),
        ({"window": "week", "anchor": 8}, "anchor"),
        ({"window": "month", "anchor": 29}, "anchor"),
        ({"window": "day", "anchor": 2}, "anchor"),
        ({"scope_id": "x" * 201}, "scope_id"),
        ({"scope_id": ""}, "scope_id"),
        ({"scope": "attempt", "window": "day"}, "window"),
        ({"reason": ""}, "reason"),
    ],
)
def test_a_senseless_budget_is_refused_by_field(shop, wrong, field):
    limit = wrong.pop("limit", "1")
    with pytest.raises(ControlRefused) as error, transaction.atomic():
        put(shop, limit, **wrong)
    assert error.value.field == field
    assert not Budget.objects.exists()


def test_the_anchor_of_a_budget_does_not_change(shop):
    put(shop, "5", window="month", anchor=5)
    with pytest.raises(ControlRefused, match="counts in 5") as error:
        put(shop, "6", window="month", anchor=6)
    assert error.value.field == "anchor"


def test_a_budget_of_byte_hours_may_be_as_large_as_a_data_centre(shop):
    put(shop, "123456789012345678.5", dimension="storage_byte_hours")
    ask = shop.ask("0", other={"storage_byte_hours": Decimal("123456789012345678.5")})
    assert type(reserve(requests=[ask], now=NOW)[0]).__name__ == "Reserved"
    again = shop.ask("0", other={"storage_byte_hours": Decimal(1)})
    assert type(reserve(requests=[again], now=NOW)[0]).__name__ == "Refused"


def test_the_zone_of_a_budget_does_not_change(shop):
    put(shop, "5")
    with pytest.raises(ControlRefused, match="counts in UTC") as error:
        put(shop, "6", timezone="Asia/Tokyo")
    assert error.value.field == "timezone"
