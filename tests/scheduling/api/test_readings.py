"""Readings that are kept: read by one at a time, by everybody where nothing can be kept."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from scheduling.selectors.foresight import readings
from scheduling.selectors.foresight.readings import FRESH_S, reading

KEY = "telemachus:test:reading"
MARK = f"{KEY}:being_read"
NOW = 1_000_000.0


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    at: float
    by: str


def by(name: str, at: float = NOW) -> Callable[[], Seen]:
    return lambda: Seen(at=at, by=name)


def asked(name: str, now: float = NOW) -> str:
    return reading(KEY, now, Seen, by(name, now)).by


@pytest.fixture(autouse=True)
def _empty(valkey: redis.Redis) -> None:
    """Nothing is kept."""


def test_a_reading_is_good_for_some_minutes(valkey: redis.Redis) -> None:
    assert asked("first") == "first"
    assert asked("second", NOW + FRESH_S - 1) == "first"
    assert asked("third", NOW + FRESH_S) == "third"
    assert not valkey.exists(MARK)


def test_who_comes_while_one_reads_takes_the_last_one(valkey: redis.Redis) -> None:
    asked("first")
    valkey.set(MARK, b"1")
    assert asked("second", NOW + FRESH_S) == "first"


def test_who_finds_nothing_kept_waits_for_the_one_who_reads() -> None:
    reads, go, told = threading.Event(), threading.Event(), []

    def slowly() -> Seen:
        reads.set()
        assert go.wait(10)
        return Seen(at=NOW, by="first")

    first = threading.Thread(target=lambda: told.append(reading(KEY, NOW, Seen, slowly).by))
    second = threading.Thread(target=lambda: told.append(asked("second")))
    first.start()
    assert reads.wait(10)
    second.start()
    second.join(0.3)
    assert second.is_alive()
    go.set()
    for one in (first, second):
        one.join(10)
    assert told == ["first", "first"]


def test_who_has_waited_long_enough_reads(
    valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "WAIT_S", 0.2)
    valkey.set(MARK, b"1")
    assert asked("second") == "second"


def test_a_reader_that_fails_keeps_nobody_off(valkey: redis.Redis) -> None:
    def fails() -> Seen:
        raise ValueError("the rows")

    with pytest.raises(ValueError, match="the rows"):
        reading(KEY, NOW, Seen, fails)
    assert not valkey.exists(MARK)
    assert asked("second") == "second"


def test_where_nothing_can_be_kept_everybody_reads(
    monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    gone = redis.Redis(port=1, retry=Retry(NoBackoff(), 0))
    monkeypatch.setattr(readings, "valkey_client", lambda: gone)
    assert [asked("first"), asked("second")] == ["first", "second"]
    assert "reading not kept: ConnectionError" in caplog.text
