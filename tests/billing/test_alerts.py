"""A mark of a budget is told once a window, in the transaction that reached it."""

import uuid
from datetime import timedelta
from decimal import Decimal
from functools import partial

import pytest
from django.db import transaction
from django.db.models import Q

from billing.core.pricing import Usage
from billing.models import BudgetAlert, WebhookDelivery
from billing.services.alerts import alert_told, alerts_seen, alerts_standing
from billing.services.escalations import Increase, budget_escalate
from billing.services.webhooks import webhook_add
from tests.billing.conftest import NOW, Shop, rule, settle
from tests.billing.test_parallel import at_once

DAY = timedelta(days=1)


def spend(shop: Shop, dollars: str, **more: object) -> None:
    tokens = int(Decimal(dollars) * 100_000)
    settle(settlements=[shop.used(uuid.uuid4(), Usage(output_total=tokens), **more)])


def told() -> list[tuple[int, str]]:
    rows = BudgetAlert.objects.order_by("id").values_list("percent", "spent")
    return [(percent, f"{spent.normalize():f}") for percent, spent in rows]


@pytest.mark.django_db
def test_each_mark_is_told_when_it_is_reached_with_what_was_spent_then(shop):
    shop.budget("10")
    for dollars in ("4.9", "0.1", "2.9", "0.2", "5"):
        spend(shop, dollars)
    assert told() == [(50, "5"), (80, "8.1"), (100, "13.1")]


@pytest.mark.django_db
def test_a_leap_over_several_marks_tells_each(shop):
    shop.budget("10", dimension="tokens")
    spend(shop, "9")
    assert [percent for percent, _ in told()] == [50, 80, 100]


@pytest.mark.django_db
def test_a_mark_that_a_higher_limit_brings_again_is_not_told_twice(shop):
    shop.budget("10")
    spend(shop, "6")
    shop.budget("20")
    spend(shop, "5")
    assert [percent for percent, _ in told()] == [50]


@pytest.mark.django_db
def test_marks_are_shares_of_the_budgets_own_limit_whatever_raises_it(shop):
    budget = shop.budget("10")
    increase = Increase(extra=Decimal(90), ends_at=NOW + DAY)
    budget_escalate(acting_user="o", reason="r", budget_id=budget.id, increase=increase, now=NOW)
    spend(shop, "10")
    assert [percent for percent, _ in told()] == [50, 80, 100]


@pytest.mark.django_db
def test_each_window_has_marks_of_its_own_and_late_usage_tells_the_old_one(shop):
    shop.budget("10", window="day")
    spend(shop, "5")
    spend(shop, "5", dispatched_at=NOW + DAY)
    spend(shop, "4", source_event="late", final=False)
    starts = BudgetAlert.objects.order_by("id").values_list("window_start__day", "percent")
    assert list(starts) == [(20, 50), (21, 50), (20, 80)]


@pytest.mark.django_db
def test_what_is_undone_is_not_told(shop):
    shop.budget("10")
    with transaction.atomic():
        spend(shop, "9")
        transaction.set_rollback(True)
    assert told() == []


@pytest.mark.django_db(transaction=True)
def test_parallel_settlements_tell_a_mark_once():
    rule()
    shop = Shop()
    shop.budget("10")
    at_once([partial(spend, shop, "1.25")] * 8)
    assert [percent for percent, _ in told()] == [50, 80, 100]


@pytest.mark.django_db
def test_an_alert_is_due_to_each_endpoint_of_its_tenant_alone(shop):
    other = Shop("other")
    hooks = [
        webhook_add(acting_user="o", reason="r", tenant_id=owner.tenant.id, url=url).endpoint
        for owner, url in [
            (shop, "https://example.org/a"),
            (shop, "https://example.org/b"),
            (other, "https://example.org/a"),
        ]
    ]
    shop.budget("10")
    spend(shop, "5")
    due = WebhookDelivery.objects.values_list("endpoint", "state", "alert__percent")
    assert sorted(due, key=str) == sorted([(hook.id, "pending", 50) for hook in hooks[:2]], key=str)


@pytest.mark.django_db
def test_standing_alerts_are_the_highest_of_the_present_window(shop):
    day, ever = shop.budget("10", window="day"), shop.budget("20")
    spend(shop, "16")
    standing = alerts_standing(Q(), NOW)
    assert [(one.budget, one.percent) for one in standing] == [(day, 100), (ever, 80)]
    assert [one.budget for one in alerts_standing(Q(), NOW + DAY)] == [ever]
    assert alerts_standing(Q(tenant=Shop("other").tenant), NOW) == []


@pytest.mark.django_db
def test_an_alert_is_told_in_exact_text(shop):
    budget = shop.budget("10", window="day")
    spend(shop, "5.00001")
    found = alert_told(alerts_seen(Q()).get())
    assert found == {
        "id": found["id"],
        "at": found["at"],
        "tenant": "acme",
        "budget": str(budget.id),
        "scope": "tenant",
        "scope_id": str(shop.tenant.id),
        "dimension": "spend",
        "window": "day",
        "window_start": "2026-08-20T00:00:00+00:00",
        "percent": 50,
        "limit": "10",
        "spent": "5.00001",
    }
