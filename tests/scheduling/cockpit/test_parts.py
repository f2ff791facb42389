"""Subscriptions, messages, limits, origins: the small rules of the socket."""

import json

import pytest

from scheduling.cockpit import messages
from scheduling.cockpit.board import Viewer
from scheduling.cockpit.limits import FRAMES_A_SECOND, SOCKETS_A_USER, FrameRate, SocketCount
from scheduling.cockpit.origin import is_own_origin
from scheduling.cockpit.subscriptions import Subscription
from scheduling.cockpit.topics import Ask, Source, order
from scheduling.cockpit.window import View
from tests.scheduling.cockpit.boards import job_id, mixed

OPERATOR = Viewer(user_id=1, name="olga", tenants=None)
ASK = Ask(topic="order")


def view_of(count: int, seq: int, epoch: int = 1) -> View:
    story = mixed(count, at=1_000_000.0, epoch=epoch)
    return order(Source(board=story.board(seq)), OPERATOR, ASK)


def test_a_reader_that_acknowledges_nothing_gets_one_frame_and_then_the_newest() -> None:
    sub = Subscription(id="q", ask=ASK)
    first = sub.frame(view_of(3, 1), now=0.0)
    assert first is not None
    assert first["t"] == "snap"
    assert not sub.ready
    sub.acknowledge(1)
    frame = sub.frame(view_of(20, 150), now=1.0)
    assert frame is not None
    assert (frame["t"], frame["prev"], frame["seq"], frame["total"]) == ("d", 1, 150, 20)
    assert len(frame["ins"]) == 17


def test_an_old_acknowledgement_frees_nothing() -> None:
    sub = Subscription(id="q", ask=ASK)
    sub.frame(view_of(3, 5), now=0.0)
    sub.acknowledge(4)
    assert not sub.ready


def test_a_new_epoch_is_answered_by_a_whole_window() -> None:
    sub = Subscription(id="q", ask=ASK)
    sub.frame(view_of(3, 5), now=0.0)
    sub.acknowledge(5)
    frame = sub.frame(view_of(3, 1, epoch=2), now=1.0)
    assert frame is not None
    assert (frame["t"], frame["epoch"]) == ("snap", 2)


def test_a_resync_is_answered_by_a_whole_window() -> None:
    sub = Subscription(id="q", ask=ASK)
    sub.frame(view_of(3, 5), now=0.0)
    sub.forget()
    frame = sub.frame(view_of(3, 5), now=1.0)
    assert frame is not None
    assert frame["rows"][0][0] == job_id(0)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "bad_json"),
        ("[]", "bad_message"),
        ('{"t":"write","id":"q"}', "bad_message"),
        ('{"t":"sub","id":"q","topic":"order","n":201}', "bad_message"),
        ('{"t":"sub","id":"q","topic":"order","off":-1}', "bad_message"),
        ('{"t":"sub","id":"q","topic":"order","colour":"red"}', "bad_message"),
        ('{"t":"sub","id":"","topic":"order"}', "bad_message"),
        ('{"t":"ack","id":"q","seq":"7"}', "bad_message"),
    ],
)
def test_a_message_that_cannot_be_read_is_refused(text: str, code: str) -> None:
    with pytest.raises(messages.Refused) as refusal:
        messages.read(text)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("more", "code"),
    [({"topic": "jobs"}, "unknown_topic"), ({"topic": "order", "filter": "x:y"}, "bad_filter")],
)
def test_a_subscription_that_cannot_be_had_is_refused(more: dict[str, str], code: str) -> None:
    message = messages.read(json.dumps({"t": "sub", "id": "q", **more}))
    assert isinstance(message, messages.Sub)
    with pytest.raises(messages.Refused) as refusal:
        messages.ask_of(message)
    assert (refusal.value.code, refusal.value.sub_id) == (code, "q")


def test_more_frames_than_a_second_allows_are_refused_and_the_next_second_allows_again() -> None:
    rate = FrameRate(now=0.0)
    assert [rate.allows(0.0) for _ in range(FRAMES_A_SECOND + 1)].count(False) == 1
    assert rate.allows(1.0)


def test_a_user_has_a_bounded_number_of_sockets() -> None:
    count = SocketCount()
    assert all(count.take(7) for _ in range(SOCKETS_A_USER))
    assert not count.take(7)
    assert count.take(8)
    count.give_back(7)
    assert count.take(7)


@pytest.mark.parametrize(
    ("origin", "host", "secure", "own"),
    [
        ("http://board.example:8000", "board.example:8000", False, True),
        ("http://board.example:9000", "board.example:8000", False, False),
        ("http://board.example", "board.example:8000", False, False),
        ("https://board.example", "board.example", False, False),
        ("https://board.example", "board.example", True, True),
        ("https://evil.example", "board.example", True, False),
        ("https://good.example", "board.example", True, True),
        ("https://x.wild.example", "board.example", True, True),
        ("null", "board.example", False, False),
        ("", "board.example", False, False),
    ],
)
def test_only_the_very_origin_or_a_trusted_one_may_open_a_socket(
    origin: str, host: str, secure: bool, own: bool
) -> None:
    trusted = ["https://good.example", "https://*.wild.example"]
    assert is_own_origin(origin, host, secure=secure, trusted=trusted) is own
