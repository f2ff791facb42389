"""The admin shows billing's rows and changes none."""

import uuid

import pytest
from django.apps import apps
from django.contrib import admin

from billing.core.pricing import Usage
from billing.models import Balance, LedgerEntry, Reservation
from billing.services.reservations import reserve
from tests.billing.conftest import NOW, settle

MODELS = [
    model for model in apps.get_app_config("billing").get_models() if model in admin.site._registry
]


@pytest.mark.parametrize("model", MODELS)
def test_nothing_can_be_changed(model, rf):
    shown = admin.site.get_model_admin(model)
    request = rf.get("/")
    assert not shown.has_add_permission(request)
    assert not shown.has_change_permission(request)
    assert not shown.has_delete_permission(request)


@pytest.mark.parametrize("term", ["acme", "no uuid", str(uuid.UUID(int=1)), "%_"])
@pytest.mark.parametrize("model", MODELS)
def test_any_search_is_answered(model, term, rf, db):
    shown = admin.site.get_model_admin(model)
    found, _ = shown.get_search_results(rf.get("/"), model.objects.all(), term)
    assert list(found) == []


@pytest.mark.parametrize("model", [Balance, LedgerEntry, Reservation])
def test_rows_are_found_and_named(model, rf, shop):
    shop.budget("9")
    ask = shop.ask("1")
    reserve(requests=[ask], now=NOW)
    settle(settlements=[shop.used(ask.job_id, Usage(input_total=1000))])
    shown = admin.site.get_model_admin(model)
    term = str(ask.job_id) if model is Reservation else "acme"
    found, _ = shown.get_search_results(rf.get("/"), model.objects.all(), term)
    assert found
    assert all(str(row.pk) not in str(row) for row in found)
