"""Signals: best effort, and never a reason for their sender to fail."""

import threading
import time
from typing import Any

import pytest
import redis
from django.conf import settings

from scheduling import events
from scheduling.events import TickPublisher, nudge, nudge_channel, valkey_client
from scheduling.governor.loop import Clock, Nudges


def dead() -> redis.Redis:
    return redis.Redis.from_url("redis://127.0.0.1:1/0", retry=None)


def test_a_nudge_wakes_who_waits() -> None:
    nudges = Nudges()
    nudges.wait(0.01)
    threading.Timer(0.2, nudge).start()
    began = time.monotonic()
    nudges.wait(5)
    assert time.monotonic() - began < 3
    assert nudges._subscription is not None
    nudges._subscription.close()


def test_many_nudges_are_one_waking() -> None:
    nudges = Nudges()
    nudges.wait(0.01)
    for _ in range(50):
        nudge()
    nudges.wait(5)
    began = time.monotonic()
    nudges.wait(0.3)
    assert time.monotonic() - began >= 0.29
    assert nudges._subscription is not None
    nudges._subscription.close()


def test_without_a_nudge_the_wait_ends_by_its_time() -> None:
    nudges = Nudges()
    nudges.wait(0.01)
    began = time.monotonic()
    nudges.wait(0.2)
    assert 0.19 <= time.monotonic() - began < 2
    assert nudges._subscription is not None
    nudges._subscription.close()


def test_while_the_broker_is_away_waiting_is_sleeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.governor.loop.valkey_client", dead)
    nudges = Nudges()
    began = time.monotonic()
    nudges.wait(0.1)
    assert 0.09 <= time.monotonic() - began < 2
    assert nudges._subscription is None


def test_a_nudge_into_a_dead_broker_is_logged_and_fails_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(events, "valkey_client", dead)
    nudge()
    assert "governor not nudged" in caplog.text


def test_the_client_of_a_process_is_one_and_does_not_decode() -> None:
    assert valkey_client() is valkey_client()
    assert valkey_client().echo("x") == b"x"


def test_a_nudge_carries_nothing() -> None:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        subscription = client.pubsub(ignore_subscribe_messages=True)
        subscription.subscribe(nudge_channel())
        subscription.get_message(timeout=1)
        nudge()
        message = subscription.get_message(timeout=2)
        subscription.close()
    assert message is not None
    assert message["data"] == b"1"


class Layer:
    """A channel layer that keeps, or breaks, what it is sent."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self.fault = fault
        self.told = threading.Event()

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self.told.set()
        if self.fault:
            raise self.fault
        self.sent.append({"group": group} | message)


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> Layer:
    layer = Layer()
    monkeypatch.setattr(events, "get_channel_layer", lambda: layer)
    return layer


def sent(ticks: TickPublisher) -> None:
    """Wait until no tick is under way."""
    end = time.monotonic() + 5
    while ticks._busy.is_set() and time.monotonic() < end:
        time.sleep(0.005)
    ticks.close()
    ticks._loop.close()


def test_a_tick_names_pool_epoch_and_version_and_nothing_else(layer: Layer) -> None:
    ticks = TickPublisher()
    ticks.tick("p", 3, 7)
    sent(ticks)
    assert layer.sent == [{"group": "live", "type": "live.tick", "pool": "p", "epoch": 3, "seq": 7}]


def test_a_tick_that_fails_is_logged_and_the_next_one_goes(
    layer: Layer, caplog: pytest.LogCaptureFixture
) -> None:
    ticks = TickPublisher()
    layer.fault = ConnectionError()
    ticks.tick("p", 1, 1)
    assert layer.told.wait(5)
    while ticks._busy.is_set():
        time.sleep(0.005)
    assert "boards not ticked: ConnectionError" in caplog.text
    layer.fault = None
    ticks.tick("p", 1, 2)
    sent(ticks)
    assert [one["seq"] for one in layer.sent] == [2]


def test_each_pool_of_a_version_is_ticked_and_of_one_pool_the_newest(layer: Layer) -> None:
    ticks = TickPublisher()
    for seq in (1, 2, 3):
        for pool in ("a", "b", "c"):
            ticks.tick(pool, 1, seq)
    sent(ticks)
    newest = {one["pool"]: one["seq"] for one in layer.sent}
    assert newest == {"a": 3, "b": 3, "c": 3}


def test_a_clock_runs_each_duty_at_once_and_then_when_it_is_due() -> None:
    ran: list[str] = []
    clock = Clock([(0.05, lambda: ran.append("often")), (60, lambda: ran.append("rarely"))])
    clock.run()
    clock.run()
    assert ran == ["often", "rarely"]
    assert 0 < clock.next_in() <= 0.05
    time.sleep(0.06)
    clock.run()
    assert ran == ["often", "rarely", "often"]
