"""Whatever happens, a balance is what its reservations and ledger rows add up to."""

import uuid
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.core.pricing import Usage
from billing.models import Balance, Reservation
from billing.services.accounts import balances_ensure, window_of
from billing.services.checks import balances_differ
from billing.services.moves import reservations_move
from billing.services.reservations import release, reserve, sweep_expired
from tests.billing.conftest import NOW, Shop, settle, sums

pytestmark = pytest.mark.django_db
D = Decimal
STEPS = st.tuples(
    st.sampled_from(["reserve", "step", "final", "repeat", "release", "sweep", "move"]),
    st.integers(0, 3),  # which job
    st.integers(0, 5),  # how much
    st.integers(0, 30),  # hours later
)


def budgets_of_all_kinds(shop: Shop) -> None:
    shop.budget("9")
    shop.budget("3", scope="workflow", window="day", timezone="Asia/Kathmandu")
    shop.budget("4", dimension="attempts", scope="member", window="hour")
    shop.budget("60", dimension="tokens", scope="workspace", window="week")
    shop.budget("20", dimension="wall_seconds", window="month")


def play(shop: Shop, steps: list[tuple[str, int, int, int]]) -> None:
    jobs = [uuid.uuid4() for _ in range(4)]
    booked = []
    now = NOW
    for action, which, much, hours in steps:
        now += timedelta(hours=hours)
        job = jobs[which]
        if action == "reserve":
            other = {"attempts": Decimal(1), "wall_seconds": Decimal(much)}
            ask = shop.ask(str(much), job, tokens=much * 3, other=other,
                           expires_at=now + timedelta(hours=much))  # fmt: skip
            reserve(requests=[ask], now=now)
        elif action in ("step", "final"):
            usage = Usage(input_total=much * 7, output_total=much, worker_seconds=Decimal(much) / 8)
            more: dict[str, Any] = {
                "final": action == "final",
                "is_try": which != 1,
                "dispatched_at": now,
            }
            booked.append(shop.used(job, usage, **more))
            settle(settlements=booked[-1:])
        elif action == "repeat":
            settle(settlements=booked[-2:])
        elif action == "release":
            release(job_ids=[job], now=now)
        elif action == "move":
            reservations_move(job_ids=jobs, now=now)
        else:
            sweep_expired(now=now)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(STEPS, max_size=15))
def test_balances_equal_their_rebuilt_sums_after_any_sequence(shop, steps):
    fresh = Shop(f"shop-{uuid.uuid4()}")
    budgets_of_all_kinds(fresh)
    play(fresh, steps)
    assert balances_differ(tenant_id=fresh.tenant.id) == []
    own = Reservation.objects.filter(tenant=fresh.tenant)
    release(job_ids=own.values_list("job_id", flat=True), now=NOW)
    assert not Balance.objects.filter(budget__tenant=fresh.tenant).exclude(held=0).exists()


def spoiled(shop: Shop) -> Balance:
    shop.budget("9")
    reserve(requests=[shop.ask("2")], now=NOW)
    balance = Balance.objects.get()
    Balance.objects.update(held=5, spent=1)
    return balance


def test_a_spoiled_balance_is_reported_with_both_sums(shop):
    balance = spoiled(shop)
    (found,) = balances_differ()
    assert (found.balance_id, found.held, found.held_rebuilt) == (balance.id, D(5), D(2))
    assert (found.spent, found.spent_rebuilt) == (D(1), D(0))


def test_the_check_command_fails_on_a_difference(shop):
    spoiled(shop)
    out = StringIO()
    with pytest.raises(CommandError, match="1 balances differ; --repair writes"):
        call_command("budgets_check", stdout=out)
    assert "held 5" in out.getvalue()


def test_the_check_command_repairs_when_asked(shop):
    balance = spoiled(shop)
    out = StringIO()
    call_command("budgets_check", "--repair", stdout=out)
    assert "1 balances repaired" in out.getvalue()
    balance.refresh_from_db()
    assert (balance.held, balance.spent) == (D(2), D(0))


def test_the_check_command_says_when_all_is_well(shop):
    out = StringIO()
    call_command("budgets_check", stdout=out)
    assert out.getvalue() == "all balances agree with their reservations and ledger rows\n"


def test_a_check_of_one_tenant_sees_its_balances_alone(shop):
    spoiled(shop)
    assert len(balances_differ(tenant_id=shop.tenant.id)) == 1
    assert balances_differ(tenant_id=Shop("other").tenant.id) == []


def test_a_repair_of_sound_balances_changes_nothing(shop):
    shop.budget("9")
    reserve(requests=[shop.ask("2")], now=NOW)
    out = StringIO()
    call_command("budgets_check", "--repair", stdout=out)
    assert out.getvalue().startswith("all balances agree")


def test_only_a_balance_that_was_committed_is_not_asked_for_again(
    shop, django_assert_num_queries, django_capture_on_commit_callbacks
):
    budget = shop.budget("9")
    span = window_of(budget, NOW)
    places = {(budget.id, span.start): (budget, span)}
    with django_capture_on_commit_callbacks(execute=False):  # as if it were rolled back
        balances_ensure(places)
    with django_assert_num_queries(1), django_capture_on_commit_callbacks(execute=True):
        balances_ensure(places)
    with django_assert_num_queries(0):
        balances_ensure(places)


def test_a_balance_that_is_gone_is_made_from_the_ledger_by_the_next_request(
    shop, django_capture_on_commit_callbacks
):
    budget = shop.budget("9")
    used = shop.used(uuid.uuid4(), Usage(output_total=100_000))
    with django_capture_on_commit_callbacks(execute=True):
        settle(settlements=[used])
    Balance.objects.all().delete()
    reserve(requests=[shop.ask("2")], now=NOW)
    assert sums(budget) == ("1", "2")
