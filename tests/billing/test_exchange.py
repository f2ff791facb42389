"""Exchanging what a job holds: its own hold counts as free for it, and a refusal changes nothing."""

import uuid
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import Budget, Reservation
from billing.services.checks import balances_differ
from billing.services.reservations import exchange, holders, release, reserve
from billing.services.verdicts import Refused, Reserved
from tests.billing.conftest import NOW, Shop, sums

pytestmark = pytest.mark.django_db
D = Decimal
JOB = uuid.UUID(int=7)


def open_spends() -> list[Decimal]:
    return list(Reservation.objects.filter(state="open").values_list("spend", flat=True))


def test_a_job_may_use_what_it_holds_for_its_new_request(shop):
    budget, tokens = shop.budget("1"), shop.budget("9", dimension="tokens")
    reserve(requests=[shop.ask("0.9", JOB, tokens=4)], now=NOW)
    (answer,) = exchange(requests=[shop.ask("1", JOB)], now=NOW)
    assert isinstance(answer, Reserved)
    assert (answer.spend, answer.repeated) == (D(1), False)
    assert (sums(budget), sums(tokens)) == (("0", "1"), ("0", "0"))
    assert open_spends() == [D(1)]
    assert holders([JOB, uuid.uuid4()]) == {JOB}
    assert holders([]) == set()
    assert balances_differ() == []


def test_a_refused_job_keeps_what_it_holds(shop):
    budget = shop.budget("1")
    reserve(requests=[shop.ask("0.5", JOB), shop.ask("0.4")], now=NOW)
    (answer,) = exchange(requests=[shop.ask("0.7", JOB)], now=NOW)
    assert isinstance(answer, Refused)
    assert (answer.asked, answer.held) == (D("0.7"), D("0.4"))
    assert sums(budget) == ("0", "0.9")
    assert sorted(open_spends()) == [D("0.4"), D("0.5")]


@pytest.mark.parametrize(("instead", "spend"), [(("0.8", "0.5", "0.2"), "0.5"), (("0.5",), "0.5")])
def test_the_first_amount_that_fits_is_held(shop, instead, spend):
    budget = shop.budget("0.6")
    ask = shop.ask("1", JOB, instead=tuple(D(one) for one in instead))
    (answer,) = reserve(requests=[ask], now=NOW)
    assert isinstance(answer, Reserved)
    assert answer.spend == D(spend)
    assert sums(budget) == ("0", spend)


def test_where_no_amount_fits_the_last_is_told(shop):
    shop.budget("0.1")
    (answer,) = reserve(requests=[shop.ask("1", instead=(D("0.5"), D("0.2")))], now=NOW)
    assert isinstance(answer, Refused)
    assert answer.asked == D("0.2")


def test_an_amount_that_is_none_is_a_defect(shop):
    with pytest.raises(ValueError, match="estimate of spend"):
        shop.ask("1", instead=(D(-1),))


def test_what_was_held_in_an_earlier_window_is_given_back_there(shop):
    budget = shop.budget("1", window="day")
    reserve(requests=[shop.ask("0.9", JOB)], now=NOW)
    later = NOW + timedelta(days=2)
    (answer,) = exchange(requests=[shop.ask("1", JOB)], now=later)
    assert isinstance(answer, Reserved)
    held = Budget.objects.get(id=budget.id).balances.order_by("window_start")
    assert list(held.values_list("held", flat=True)) == [D(0), D(1)]
    assert balances_differ() == []


def test_a_job_that_holds_nothing_is_reserved_and_nothing_asked_is_nothing_answered(shop):
    shop.budget("1")
    assert exchange(requests=[], now=NOW) == []
    (answer,) = exchange(requests=[shop.ask("1", JOB)], now=NOW)
    assert isinstance(answer, Reserved)


@pytest.mark.django_db(transaction=True)
def test_an_exchange_outside_a_transaction_is_a_defect(shop):
    with pytest.raises(transaction.TransactionManagementError, match="exchange"):
        exchange(requests=[], now=NOW)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["reserve", "exchange", "release"]),
            st.integers(0, 2),
            st.lists(st.decimals(0, 2, places=1), min_size=1, max_size=3),
            st.integers(0, 30),
        ),
        max_size=12,
    )
)
def test_balances_equal_their_rebuilt_sums_and_no_limit_is_passed(shop, steps):
    fresh = Shop(f"shop-{uuid.uuid4()}")
    day, ever = fresh.budget("2", window="day"), fresh.budget("3", scope="workflow")
    jobs = [uuid.uuid4() for _ in range(3)]
    for kind, number, spends, hours in steps:
        now = NOW + timedelta(hours=hours)
        if kind == "release":
            release(job_ids=[jobs[number]], now=now)
            continue
        ask = fresh.ask(str(spends[0]), jobs[number], instead=tuple(spends[1:]))
        (reserve if kind == "reserve" else exchange)(requests=[ask], now=now)
    assert balances_differ(tenant_id=fresh.tenant.id) == []
    for budget in (day, ever):
        assert all(one.held <= budget.limit for one in budget.balances.all())
