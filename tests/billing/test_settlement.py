"""Booking usage exactly once, in the right window, at the right price."""

import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from msgspec.structs import replace

from billing.core.pricing import Usage
from billing.models import Balance, BudgetAlert, LedgerEntry, Reservation
from billing.services import prices
from billing.services.checks import balances_differ
from billing.services.prices import UnpricedModel
from billing.services.reservations import release, reserve
from billing.services.usage import UsageConflict
from tests.billing.conftest import NOW, Shop, settle, sums

pytestmark = pytest.mark.django_db
D = Decimal
THOUSAND = Usage(input_total=1000, output_total=200)  # 0.004 USD at the shop's prices


def held(shop: Shop, spend: str, **more: Any) -> uuid.UUID:
    ask = shop.ask(spend, **more)
    reserve(requests=[ask], now=NOW)
    return ask.job_id


def test_a_final_settlement_books_the_cost_and_gives_back_the_hold(shop):
    budget, tokens = shop.budget("10"), shop.budget("9000", dimension="tokens")
    job = held(shop, "0.9", tokens=5000)
    (settled,) = settle(settlements=[shop.used(job, THOUSAND)])
    assert (settled.cost, settled.repeated, settled.overrun) == (D("0.004"), False, D(0))
    assert (sums(budget), sums(tokens)) == (("0.004", "0"), ("1200", "0"))
    assert Reservation.objects.get(job_id=job).state == "settled"


def test_three_settled_below_their_estimate_make_room_for_two_more(shop):
    budget = shop.budget("10.00")
    settle(settlements=[shop.used(uuid.uuid4(), Usage(output_total=700_000))])
    jobs = [held(shop, "0.90") for _ in range(3)]
    assert sums(budget) == ("7", "2.7")
    settle(settlements=[shop.used(job, Usage(output_total=40_000)) for job in jobs])
    assert sums(budget) == ("8.2", "0")
    answers = reserve(requests=[shop.ask("0.90") for _ in range(3)], now=NOW)
    assert [type(a).__name__ for a in answers] == ["Reserved", "Reserved", "Refused"]


def test_a_retry_keeps_the_hold_until_the_job_ends(shop):
    budget = shop.budget("10")
    job = held(shop, "1")
    settle(settlements=[shop.used(job, THOUSAND, final=False, kind="wasted")])
    assert sums(budget) == ("0.004", "1")
    settle(settlements=[shop.used(job, THOUSAND)])
    assert sums(budget) == ("0.008", "0")


def test_failed_attempts_stay_on_the_bill(shop):
    job = held(shop, "1")
    failed = shop.used(job, Usage(input_total=1000, output_total=50), final=False,
                       kind="wasted", failure_class="provider_error")  # fmt: skip
    limited = shop.used(job, final=False, kind="wasted", failure_class="rate_limited")
    settled = settle(settlements=[failed, limited, shop.used(job, THOUSAND)])
    assert [s.cost for s in settled] == [D("0.0025"), 0, D("0.004")]
    wasted = LedgerEntry.objects.filter(kind="wasted", failure_class="provider_error")
    assert sum(row.amount for row in wasted) == D("0.0025")


def test_an_attempt_without_usage_writes_one_row_of_zero(shop):
    settle(settlements=[shop.used(held(shop, "1"))])
    row = LedgerEntry.objects.get()
    assert (row.meter, row.quantity, row.amount, row.source_event) == (
        "worker_seconds", D(0), D(0), "attempt",
    )  # fmt: skip


@pytest.mark.parametrize("failure", ["provider_5xx", "connection", "auth", "timeout", "killed"])
def test_early_failures_leave_nothing_held(shop, failure):
    budget = shop.budget("5.00")
    for _ in range(10):
        job = held(shop, "0.50")
        settle(settlements=[shop.used(job, kind="wasted", failure_class=failure)])
    assert sums(budget) == ("0", "0")
    assert type(reserve(requests=[shop.ask("0.50")], now=NOW)[0]).__name__ == "Reserved"
    assert Reservation.objects.filter(state="settled").count() == 10


def test_a_repeat_changes_nothing(shop):
    budget = shop.budget("10")
    one = shop.used(held(shop, "1"), THOUSAND)
    first, inside = settle(settlements=[one, one])
    (again,) = settle(settlements=[one])
    assert [s.repeated for s in (first, inside, again)] == [False, True, True]
    assert {s.cost for s in (first, inside, again)} == {D("0.004")}
    assert sums(budget) == ("0.004", "0")
    assert LedgerEntry.objects.count() == 3  # input, output, and the marker


def test_a_repeat_does_not_close_a_later_reservation(shop):
    ask = shop.ask("1")
    reserve(requests=[ask], now=NOW)
    one = shop.used(ask.job_id, THOUSAND)
    settle(settlements=[one])
    reserve(requests=[ask], now=NOW)
    settle(settlements=[one])
    assert Reservation.objects.filter(job_id=ask.job_id, state="open").count() == 1


@pytest.mark.parametrize(
    "body",
    [{"usage": Usage(input_total=1000, output_total=900)}, {"kind": "wasted"}, {"model": "n"}],
)
def test_another_body_of_the_same_event_is_a_conflict_and_changes_nothing(shop, make_rule, body):
    make_rule("n")
    budget = shop.budget("10")
    one = shop.used(uuid.uuid4(), THOUSAND, source_event="e-1", final=False)
    settle(settlements=[one])
    rows = LedgerEntry.objects.count()
    with pytest.raises(UsageConflict, match="'e-1'"), transaction.atomic():
        settle(settlements=[replace(one, **body)])
    assert (sums(budget), LedgerEntry.objects.count()) == (("0.004", "0"), rows)


def test_a_conflict_inside_one_call_is_seen(shop):
    one = shop.used(uuid.uuid4(), THOUSAND)
    with pytest.raises(UsageConflict), transaction.atomic():
        settle(settlements=[one, replace(one, usage=Usage(input_total=1))])


def test_the_same_event_name_of_another_tenant_is_another_event(shop):
    other = Shop("other")
    mine = shop.used(uuid.uuid4(), THOUSAND, source_event="e-1")
    theirs = other.used(uuid.uuid4(), THOUSAND, source_event="e-1")
    assert [s.repeated for s in settle(settlements=[mine, theirs])] == [False, False]


def test_late_usage_is_booked_after_a_release(shop):
    budget = shop.budget("10")
    job = held(shop, "1")
    release(job_ids=[job], now=NOW)
    settle(settlements=[shop.used(job, THOUSAND)])
    assert sums(budget) == ("0.004", "0")
    assert Reservation.objects.get(job_id=job).state == "released"


def test_an_overrun_is_booked_in_full_and_told(shop):
    budget = shop.budget("0.003")
    job = held(shop, "0.003")
    (settled,) = settle(settlements=[shop.used(job, THOUSAND)])
    assert settled.overrun == D("0.001")
    alerts = BudgetAlert.objects.filter(budget=budget).order_by("percent")
    assert [one.percent for one in alerts] == [50, 80, 100]
    assert sums(budget) == ("0.004", "0")


def test_spending_belongs_to_the_window_of_the_dispatch(shop):
    budget = shop.budget("10", window="day")
    job = held(shop, "1")
    settle(settlements=[shop.used(job, THOUSAND, dispatched_at=NOW + timedelta(days=1))])
    balances = Balance.objects.filter(budget=budget).order_by("window_start")
    assert [(b.window_start.day, b.spent, b.held) for b in balances] == [
        (20, D(0), D(0)), (21, D("0.004"), D(0)),
    ]  # fmt: skip


def test_the_price_is_that_of_the_dispatch_and_a_start_is_inclusive(shop, make_rule):
    changes = datetime(2026, 8, 21, tzinfo=UTC)
    make_rule("opus", input="5.00", output="30.00")
    usage = Usage(input_total=100_000, output_total=10_000)
    make = {"usage": usage, "model": "opus"}
    before = shop.used(uuid.uuid4(), **make)
    assert settle(settlements=[before])[0].cost == D("0.80")
    make_rule("opus", starts_at=changes, input="4.00", output="20.00")
    prices.prices_forget()
    late = shop.used(uuid.uuid4(), **make, dispatched_at=changes - timedelta(microseconds=1))
    after = shop.used(uuid.uuid4(), **make, dispatched_at=changes)
    assert [s.cost for s in settle(settlements=[before, late, after])] == [
        D("0.80"), D("0.80"), D("0.60"),
    ]  # fmt: skip


def test_work_on_an_unpriced_model_is_not_booked_as_free(shop):
    with pytest.raises(UnpricedModel, match=r"'opus-4\.1'"), transaction.atomic():
        settle(settlements=[shop.used(uuid.uuid4(), THOUSAND, model="opus-4.1")])
    assert not LedgerEntry.objects.exists()


def test_avoided_work_is_recorded_and_not_spent(shop):
    budget = shop.budget("10")
    settle(settlements=[shop.used(uuid.uuid4(), THOUSAND, kind="avoided")])
    assert sums(budget) == ("0", "0")
    assert LedgerEntry.objects.filter(kind="avoided").count() == 3


def test_a_flows_next_step_is_no_new_attempt(shop):
    budget = shop.budget("3", dimension="attempts")
    job = uuid.uuid4()
    steps = [shop.used(job, final=False), shop.used(job, is_try=False)]
    settle(settlements=steps)
    assert sums(budget) == ("1", "0")
    assert balances_differ() == []


def test_a_budget_made_late_knows_what_was_spent(shop):
    settle(settlements=[shop.used(uuid.uuid4(), THOUSAND)])
    late = {
        "tenant": shop.budget("1"),
        "member": shop.budget("1", scope="member"),
        "workflow": shop.budget("1", scope="workflow", window="month"),
    }
    tries = shop.budget("9", dimension="attempts")
    seconds = shop.budget("9", dimension="wall_seconds")
    reserve(requests=[shop.ask("0")], now=NOW)
    assert {sums(b)[0] for b in late.values()} == {"0.004"}
    assert (sums(tries)[0], sums(seconds)[0]) == ("1", "0")


def test_a_budget_of_a_mission_name_that_is_no_id_has_spent_nothing(shop):
    budget = shop.budget("1", scope="job", scope_id="nightly")
    ask = shop.ask("0.5", chain=(("job", "nightly"),))
    reserve(requests=[ask], now=NOW)
    assert sums(budget) == ("0", "0.5")


def test_quantities_are_booked_as_the_ledger_keeps_them(shop):
    budget = shop.budget("9", dimension="wall_seconds")
    usage = Usage(worker_seconds=D("0.12345678"), other={"review_minutes": D("0.1")})
    settle(settlements=[shop.used(uuid.uuid4(), usage)])
    assert sums(budget) == ("0.123457", "0")
    assert balances_differ() == []


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"kind": "free"}, "unknown kind 'free': use one of incurred, wasted"),
        ({"workflow_id": uuid.UUID(int=1)}, "chain names workflow"),
    ],
)
def test_a_settlement_that_contradicts_itself_is_refused(shop, wrong, error):
    with pytest.raises(ValueError, match=error):
        shop.used(uuid.uuid4(), **wrong)


def test_settling_nothing_answers_nothing(shop):
    assert settle(settlements=[]) == []
