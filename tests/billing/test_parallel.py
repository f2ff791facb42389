"""Many connections at once: no overshoot, no deadlock, nothing booked twice."""

import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from billing.core.pricing import Usage
from billing.models import Balance, LedgerEntry
from billing.services.checks import balances_differ
from billing.services.moves import reservations_move
from billing.services.reservations import release, reserve
from billing.services.usage import UsageConflict
from billing.services.verdicts import ReserveRequest
from tests.billing.conftest import NOW, Shop, rule, settle, sums
from tests.locks import wait_until_waited_for

pytestmark = pytest.mark.django_db(transaction=True)
D = Decimal
CLIENTS = 8


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run the calls at one barrier, each in a transaction on a connection of its own."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=20)
            with transaction.atomic():
                return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def one_race(name: str) -> None:
    """Limit 10.00, spent 7.00, eight submissions of 0.90: three get in."""
    shop = Shop(name)
    budget = shop.budget("10.00")
    settle(settlements=[shop.used(uuid.uuid4(), Usage(output_total=700_000))])
    asks = [shop.ask("0.90") for _ in range(CLIENTS)]
    seen: list[Decimal] = []

    def submit(ask: ReserveRequest) -> object:
        answer = reserve(requests=[ask], now=NOW)[0]
        balance = Balance.objects.get(budget=budget)
        seen.append(balance.spent + balance.held)
        return answer

    answers = at_once([partial(submit, ask) for ask in asks])
    names = [type(answer).__name__ for answer in answers]
    assert sorted(names) == ["Refused"] * 5 + ["Reserved"] * 3
    assert {a.scope for a in answers if hasattr(a, "scope")} == {"tenant"}
    assert max(seen) == D("9.7")
    assert sums(budget) == ("7", "2.7")
    settle(
        settlements=[
            shop.used(a.job_id, Usage(output_total=40_000))
            for a in answers
            if not hasattr(a, "scope")
        ]
    )
    assert sums(budget) == ("8.2", "0")
    with transaction.atomic():
        more = reserve(requests=[shop.ask("0.90") for _ in range(3)], now=NOW)
    assert [type(answer).__name__ for answer in more] == ["Reserved", "Reserved", "Refused"]
    assert sums(budget) == ("8.2", "1.8")


def test_parallel_submissions_never_overshoot_a_limit():
    rule()
    for number in range(5):
        one_race(f"race-{number}")


@pytest.mark.slow
def test_fifty_races_end_the_same():
    rule()
    for number in range(50):
        one_race(f"race-{number}")


def test_first_requests_of_a_window_make_one_balance():
    shop = Shop()
    budgets = [shop.budget("100", window=window) for window in ("none", "day", "hour")]
    at_once([lambda: reserve(requests=[shop.ask("1")], now=NOW)] * CLIENTS)
    assert [sums(budget) for budget in budgets] == [("0", str(CLIENTS))] * 3


def test_the_same_usage_event_at_once_is_booked_once():
    rule()
    shop = Shop()
    budget = shop.budget("10")
    usage = Usage(input_total=1000, output_total=100)
    event = shop.used(uuid.uuid4(), usage, source_event="e-1", final=False)
    settled = at_once([lambda: settle(settlements=[event])] * CLIENTS)
    assert sorted(one.repeated for (one,) in settled) == [False] + [True] * (CLIENTS - 1)
    assert {one.cost for (one,) in settled} == {D("0.003")}
    assert LedgerEntry.objects.count() == 3
    assert sums(budget) == ("0.003", "0")


def test_two_bodies_of_one_event_at_once_book_one_of_them():
    rule()
    shop = Shop()
    attempt = uuid.uuid4()

    def book(tokens: int) -> str:
        usage = Usage(output_total=tokens)
        try:
            settle(settlements=[shop.used(JOB, usage, attempt_id=attempt, final=False)])
        except UsageConflict:
            return "conflict"
        return "booked"

    answers = at_once([partial(book, 100 + n) for n in range(4)])
    assert sorted(answers) == ["booked"] + ["conflict"] * 3
    assert LedgerEntry.objects.count() == 2


JOB = uuid.uuid4()


def round_trip(own: list[Shop]) -> None:
    """Reserve for all, settle two and release two, five times, each in its own transaction."""
    for _ in range(5):
        asks = [shop.ask("0.5", tokens=10) for shop in own]
        with transaction.atomic():
            reserve(requests=asks, now=NOW)
        pairs = list(zip(own, asks, strict=True))
        used = [shop.used(ask.job_id, Usage(input_total=7)) for shop, ask in pairs[:2]]
        with transaction.atomic():
            settle(settlements=used)
        with transaction.atomic():
            release(job_ids=[ask.job_id for _, ask in pairs[2:]], now=NOW)


def test_sets_that_overlap_in_opposite_orders_do_not_deadlock():
    rule()
    shops = [Shop(f"tenant-{n}") for n in range(4)]
    for shop in shops:
        shop.budget("1000")
        shop.budget("1000", scope="workflow", window="day")
        shop.budget("1000000", dimension="tokens", scope="workspace")

    def client(number: int) -> None:
        turned = shops[number % 4 :] + shops[: number % 4]
        try:
            round_trip(turned if number % 2 else turned[::-1])
        finally:
            connection.close()

    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(client, range(CLIENTS)))
    assert balances_differ() == []
    assert set(Balance.objects.values_list("held", flat=True)) == {0}
    assert LedgerEntry.objects.filter(meter="worker_seconds").count() == CLIENTS * 5 * 2


def test_what_a_move_changed_while_a_release_waited_is_given_back_where_it_is_now():
    shop = Shop()
    budget = shop.budget("10", window="day")
    ask = shop.ask("1")
    tomorrow = NOW + timedelta(days=1)
    with transaction.atomic():
        reserve(requests=[ask], now=NOW)

    def give_back() -> list[uuid.UUID]:
        try:
            return release(job_ids=[ask.job_id], now=tomorrow)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            assert reservations_move(job_ids=[ask.job_id], now=tomorrow) == []
            released = threads.submit(give_back)
            wait_until_waited_for()
        assert released.result(timeout=20) == [ask.job_id]
    assert list(Balance.objects.filter(budget=budget).values_list("held", flat=True)) == [0, 0]
    assert balances_differ() == []
