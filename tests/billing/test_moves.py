"""A job that waited into a new window is funded there, or not run."""

import uuid
from datetime import timedelta
from decimal import Decimal

import pytest

from billing.models import Balance, Budget, Reservation
from billing.services.checks import balances_differ
from billing.services.moves import reservations_move
from billing.services.reservations import release, reserve
from tests.billing.conftest import NOW, Shop

pytestmark = pytest.mark.django_db
TOMORROW = NOW + timedelta(days=1)


def held(budget: Budget) -> list[str]:
    """What the budget's balances hold, oldest window first."""
    balances = Balance.objects.filter(budget=budget).order_by("window_start")
    return [f"{balance.held.normalize():f}" for balance in balances]


def waiting(shop: Shop, spend: str) -> uuid.UUID:
    ask = shop.ask(spend)
    reserve(requests=[ask], now=NOW)
    return ask.job_id


def test_what_is_held_moves_to_the_present_window(shop):
    daily, ever = shop.budget("1", window="day"), shop.budget("9")
    job = waiting(shop, "0.6")
    assert reservations_move(job_ids=[job], now=TOMORROW) == []
    assert (held(daily), held(ever)) == (["0", "0.6"], ["0.6"])
    assert balances_differ() == []
    release(job_ids=[job], now=TOMORROW)
    assert (held(daily), held(ever)) == (["0", "0"], ["0"])


def test_a_second_move_changes_nothing(shop):
    daily = shop.budget("1", window="day")
    job = waiting(shop, "0.6")
    for _ in range(2):
        reservations_move(job_ids=[job], now=TOMORROW)
    assert held(daily) == ["0", "0.6"]


def test_a_job_that_does_not_fit_the_new_window_loses_its_reservation(shop):
    weekly, daily = shop.budget("9", window="week"), shop.budget("1", window="day")
    first, second = waiting(shop, "0.6"), waiting(shop, "0.4")
    reserve(requests=[shop.ask("0.5")], now=TOMORROW)
    (refused,) = reservations_move(job_ids=[first, second], now=TOMORROW)
    assert (refused.job_id, refused.window, refused.remaining) == (first, "day", Decimal("0.5"))
    assert (held(daily), held(weekly)) == (["0", "0.9"], ["0.9"])
    assert Reservation.objects.get(job_id=first).state == "released"
    assert Reservation.objects.get(job_id=second).state == "open"
    assert balances_differ() == []


def test_a_job_in_its_own_window_is_left_alone(shop, django_assert_num_queries):
    daily = shop.budget("1", window="day")
    job = waiting(shop, "0.6")
    with django_assert_num_queries(4):  # a savepoint, two reads
        assert reservations_move(job_ids=[job, uuid.uuid4()], now=NOW) == []
    assert held(daily) == ["0.6"]


def test_the_only_job_may_be_the_one_that_does_not_fit(shop):
    daily = shop.budget("1", window="day")
    job = waiting(shop, "0.6")
    reserve(requests=[shop.ask("0.5")], now=TOMORROW)
    assert [r.job_id for r in reservations_move(job_ids=[job], now=TOMORROW)] == [job]
    assert held(daily) == ["0", "0.5"]


def test_a_job_without_budgets_has_nothing_to_move(shop):
    job = waiting(shop, "0.6")
    assert reservations_move(job_ids=[job], now=TOMORROW) == []
