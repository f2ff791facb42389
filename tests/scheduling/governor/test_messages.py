"""What is placed is told to the broker in lists, over a connection that is kept."""

from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection
from kombu.exceptions import OperationalError

from scheduling.events import valkey_client
from scheduling.governor.messages import LIST_MOST, Messages, Sent, lists
from telemachus.celery import app

NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture
def messages() -> Iterator[Messages]:
    valkey_client().flushdb()
    messages = Messages()
    yield messages
    messages.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """Return the connections that are opened from now on."""
    opened: list[Connection] = []
    usual = app.connection_for_write

    def open_one(**options: Any) -> Connection:
        opened.append(usual(**options))
        return opened[-1]

    monkeypatch.setattr(app, "connection_for_write", open_one)
    return opened


def waiting(*queues: str) -> list[tuple[str, Any]]:
    """Take what waits in the queues, each message with the first argument of its task."""
    found = []
    with app.connection_for_read() as link:
        for queue in queues:
            while (message := link.default_channel.basic_get(queue, no_ack=True)) is not None:
                found.append((queue, message.decode()[0][0]))
    return found


def sent(*seconds: float) -> list[Sent]:
    return [Sent(str(number), 1, "q", one) for number, one in enumerate(seconds)]


@pytest.mark.parametrize(
    ("seconds", "sizes"),
    [
        ((), []),
        ((60,), [1]),
        ((60, 60), [1, 1]),
        ((0.05,) * 8, [4, 4]),
        ((0.05,) * 20, [5, 5, 5, 5]),
        ((0.2, 0.2, 0.05, 0.05), [1, 2, 1]),
        ((60, 0.1, 0.1, 0.1), [1, 2, 1]),
        ((0.0,) * 200, [LIST_MOST] * 3 + [8]),
    ],
)
def test_messages_carry_a_quarter_second_of_work_or_one_attempt(
    seconds: tuple[float, ...], sizes: list[int]
) -> None:
    cut = lists(sent(*seconds))
    assert [len(one) for one in cut] == sizes
    assert [one for message in cut for one in message] == sent(*seconds)


def test_each_queue_has_messages_of_its_own(messages: Messages) -> None:
    messages.send([Sent("a", 1, "x", 9), Sent("b", 2, "y", 0.1), Sent("c", 3, "y", 0.1)])
    assert waiting("x", "y") == [("x", [["a", 1]]), ("y", [["b", 2]]), ("y", [["c", 3]])]


def test_one_connection_serves_all_messages(messages: Messages, opened: list[Connection]) -> None:
    messages.send([])
    assert opened == []
    for number in range(3):
        messages.send([Sent("a", number, "x", 9), Sent("b", number, "y", 9)])
    assert len(opened) == 1
    assert len(waiting("x", "y")) == 6


def test_a_message_makes_no_client_of_its_own(
    messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages.send([Sent("a", 1, "x", 9)])
    producer = messages._producer
    assert producer is not None
    monkeypatch.setattr(producer.channel, "_create_client", None)  # a call would fail
    messages.send([Sent("b", 1, "x", 9)])
    monkeypatch.undo()
    assert len(waiting("x")) == 2


def test_while_the_broker_is_away_it_is_said_at_once_and_the_next_message_finds_it_again(
    messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.conf, "broker_write_url", NOWHERE)
    monkeypatch.setattr("kombu.utils.functional.sleep", None)  # a pause would fail
    for _ in range(3):
        with pytest.raises(OperationalError):
            messages.send([Sent("a", 1, "x", 9)])
    monkeypatch.undo()
    messages.send([Sent("a", 1, "x", 9)])
    assert waiting("x") == [("x", [["a", 1]])]


def test_a_connection_that_the_broker_has_closed_costs_no_more_than_one_message(
    messages: Messages,
) -> None:
    messages.send([Sent("a", 1, "x", 9)])
    valkey_client().execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    for number in (2, 3):
        try:
            messages.send([Sent("a", number, "x", 9)])
        except OperationalError:
            assert number == 2
    assert ("x", [["a", 3]]) in waiting("x")
