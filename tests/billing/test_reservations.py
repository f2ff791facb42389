"""Holding budgets: one answer a job, first refusing scope, given back once."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import transaction

from billing.models import Balance, Reservation, ReservationLine
from billing.services.reservations import release, renew, reserve, sweep_expired
from billing.services.verdicts import Refused, Reserved, plain
from tests.billing.conftest import NOW, Shop, sums

pytestmark = pytest.mark.django_db
D = Decimal


def kinds(answers: Sequence[object]) -> list[str]:
    return [type(answer).__name__ for answer in answers]


def test_a_job_without_budgets_is_reserved_without_lines(shop):
    (answer,) = reserve(requests=[shop.ask("1", tokens=5)], now=NOW)
    assert isinstance(answer, Reserved)
    row = Reservation.objects.get(id=answer.reservation_id)
    assert (row.state, row.spend, row.tokens, row.workflow_id) == (
        "open", D(1), 5, shop.workflow_id,
    )  # fmt: skip
    assert not row.lines.exists()


def test_every_scope_of_the_chain_holds_the_estimate(shop):
    tenant, workflow = shop.budget("10"), shop.budget("9", scope="workflow")
    tokens = shop.budget("100", dimension="tokens", scope="workspace")
    reserve(requests=[shop.ask("0.5", tokens=40)], now=NOW)
    assert [sums(b) for b in (tenant, workflow, tokens)] == [
        ("0", "0.5"), ("0", "0.5"), ("0", "40"),
    ]  # fmt: skip


def test_ten_charges_of_a_tenth_fill_a_limit_of_one_exactly(shop):
    budget = shop.budget("1.00")
    answers = reserve(
        requests=[*(shop.ask("0.10") for _ in range(10)), shop.ask("0.000001")], now=NOW
    )
    assert kinds(answers) == ["Reserved"] * 10 + ["Refused"]
    assert sums(budget) == ("0", "1")


def test_the_refusal_names_the_first_scope_that_has_no_room(shop):
    shop.budget("10")
    narrow = shop.budget("1", scope="member")
    shop.budget("0", scope="job", scope_id=str(uuid.uuid4()))
    (refused,) = reserve(requests=[shop.ask("1.5")], now=NOW)
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.scope, refused.scope_id) == ("budget", "member", "7")
    assert (refused.budget_id, refused.remaining) == (narrow.id, D(1))
    assert refused.sentence == (
        "The member's spend budget of 1 has 1 left (0 spent, 0 held); this job asks for 1.5."
    )


def test_a_refused_job_holds_nothing_anywhere(shop):
    roomy = shop.budget("10")
    shop.budget("0", scope="workflow")
    reserve(requests=[shop.ask("1")], now=NOW)
    assert sums(roomy) == ("0", "0")
    assert not Reservation.objects.exists()


def test_other_tenants_budgets_of_the_same_scope_id_do_not_count(shop):
    other = Shop("other")
    other.budget("0", scope="member")
    assert kinds(reserve(requests=[shop.ask("1")], now=NOW)) == ["Reserved"]


def test_a_dimension_by_name_is_held(shop):
    budget = shop.budget("10", dimension="wall_seconds")
    reserve(requests=[shop.ask("0", other={"wall_seconds": D("2.5")})], now=NOW)
    assert sums(budget) == ("0", "2.5")


def test_waiting_for_the_next_window_is_offered_where_it_helps(shop):
    shop.budget("1", window="day", timezone="Asia/Singapore")
    soon, never = reserve(requests=[shop.ask("0.9"), shop.ask("0.9"), shop.ask("1.1")], now=NOW)[1:]
    assert isinstance(soon, Refused)
    assert isinstance(never, Refused)
    assert soon.retry_at == datetime(2026, 8, 20, 16, tzinfo=UTC)
    assert "budget of 1 per day" in soon.sentence
    assert never.retry_at is None


def test_a_new_window_is_empty_though_no_reset_ran(shop):
    budget = shop.budget("1", window="day")
    reserve(requests=[shop.ask("1")], now=NOW)
    later = NOW + timedelta(days=3)
    assert kinds(reserve(requests=[shop.ask("1")], now=later)) == ["Reserved"]
    assert Balance.objects.filter(budget=budget, held=1).count() == 2


def test_a_job_that_holds_a_reservation_keeps_it(shop):
    budget = shop.budget("1")
    ask = shop.ask("0.6")
    first, again = reserve(requests=[ask, ask], now=NOW)
    (third,) = reserve(requests=[ask], now=NOW)
    assert isinstance(first, Reserved)
    assert isinstance(again, Reserved)
    assert isinstance(third, Reserved)
    assert {first.reservation_id} == {again.reservation_id, third.reservation_id}
    assert [first.repeated, again.repeated, third.repeated] == [False, True, True]
    assert sums(budget) == ("0", "0.6")


def test_a_bulk_call_larger_than_a_chunk_is_decided_in_order(shop):
    budget = shop.budget("600")
    answers = reserve(requests=[shop.ask("1") for _ in range(700)], now=NOW)
    assert kinds(answers) == ["Reserved"] * 600 + ["Refused"] * 100
    assert (Reservation.objects.count(), ReservationLine.objects.count()) == (600, 600)
    assert sums(budget) == ("0", "600")


def test_nothing_asked_is_nothing_answered(shop):
    assert reserve(requests=[], now=NOW) == []


def test_a_release_gives_back_once(shop):
    budget = shop.budget("1")
    ask, other = shop.ask("0.4"), shop.ask("0.3")
    reserve(requests=[ask, other], now=NOW)
    assert release(job_ids=[ask.job_id], now=NOW) == [ask.job_id]
    assert release(job_ids=[ask.job_id, uuid.uuid4()], now=NOW) == []
    assert sums(budget) == ("0", "0.3")
    closed = Reservation.objects.get(job_id=ask.job_id)
    assert (closed.state, closed.closed_at) == ("released", NOW)


def test_a_release_gives_back_in_the_window_of_the_hold(shop):
    budget = shop.budget("1", window="day")
    ask = shop.ask("1")
    reserve(requests=[ask], now=NOW)
    tomorrow = NOW + timedelta(days=1)
    reserve(requests=[shop.ask("0.25")], now=tomorrow)
    release(job_ids=[ask.job_id], now=tomorrow)
    held = Balance.objects.filter(budget=budget).order_by("window_start")
    assert [b.held for b in held] == [0, D("0.25")]


def test_a_released_job_may_reserve_anew(shop):
    shop.budget("1")
    ask = shop.ask("1")
    reserve(requests=[ask], now=NOW)
    release(job_ids=[ask.job_id], now=NOW)
    (answer,) = reserve(requests=[ask], now=NOW)
    assert isinstance(answer, Reserved)
    assert not answer.repeated


def test_the_sweep_releases_what_expired_and_names_the_jobs(shop):
    budget = shop.budget("1")
    old = shop.ask("0.4", expires_at=NOW)
    young = shop.ask("0.3", expires_at=NOW + timedelta(seconds=1))
    reserve(requests=[old, young], now=NOW)
    assert sweep_expired(now=NOW) == [old.job_id]
    assert sweep_expired(now=NOW) == []
    assert sums(budget) == ("0", "0.3")


def test_the_sweep_takes_no_more_than_asked(shop):
    reserve(requests=[shop.ask("0", expires_at=NOW) for _ in range(5)], now=NOW)
    assert [len(sweep_expired(now=NOW, limit=3)) for _ in range(3)] == [3, 2, 0]


def test_a_renewed_reservation_outlives_its_expiry(shop):
    ask = shop.ask("0.4", expires_at=NOW)
    reserve(requests=[ask], now=NOW)
    assert renew(job_ids=[ask.job_id], expires_at=NOW + timedelta(hours=1)) == 1
    assert sweep_expired(now=NOW) == []


@pytest.mark.parametrize(
    ("wrong", "error"), [("-1", "at least 0, not -1"), ("NaN", "finite number")]
)
def test_a_senseless_estimate_is_refused_by_name(shop, wrong, error):
    with pytest.raises(ValueError, match=f"estimate of spend .*{error}"):
        shop.ask(wrong)


def test_a_float_estimate_is_refused(shop):
    with pytest.raises(TypeError, match="wall_seconds must be a Decimal, not float"):
        shop.ask("1", other={"wall_seconds": 1.5})


@pytest.mark.parametrize(
    ("value", "text"), [("10.000", "10"), ("100", "100"), ("1E-6", "0.000001"), ("0.50", "0.5")]
)
def test_numbers_are_said_plainly(value, text):
    assert plain(D(value)) == text


@pytest.mark.django_db(transaction=True)
def test_a_reservation_outside_a_transaction_is_a_defect(shop):
    with pytest.raises(transaction.TransactionManagementError, match="reserve must be called"):
        reserve(requests=[shop.ask("1")], now=NOW)
