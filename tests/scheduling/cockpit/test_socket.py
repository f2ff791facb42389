"""The live socket end to end in one process: database, Valkey and channel layer are real."""

import asyncio
import time
from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from scheduling.cockpit import consumer, sender
from scheduling.cockpit.limits import FRAMES_A_SECOND, SOCKETS_A_USER
from scheduling.cockpit.topics import TOPICS
from scheduling.events import LIVE_GROUP
from tests.scheduling.cockpit.boards import POOL, Waiting, job_id, mixed
from tests.scheduling.cockpit.conftest import Browser, People, Publish, session_of


async def tick(seq: int, epoch: int = 1) -> None:
    message = {"type": "live.tick", "pool": POOL, "epoch": epoch, "seq": seq}
    await get_channel_layer().group_send(LIVE_GROUP, message)


async def signed_in(user: Any) -> Browser:
    return Browser(await database_sync_to_async(session_of)(user))


async def test_a_new_version_is_sent_as_a_difference(people: People, publish: Publish) -> None:
    publish(mixed(4, ids=people.ids), 1)
    browser = await signed_in(people.olga)
    assert await browser.open()
    await browser.say(t="sub", id="q", topic="order")
    first = await browser.frame("snap", "err")
    assert [row[0] for row in first["rows"]] == [job_id(n) for n in range(4)]
    await browser.ack(first)
    story = mixed(4, ids=people.ids)
    story.waiting.append(story.waiting.pop(0))
    publish(story, 2)
    await tick(2)
    frame = await browser.frame("d")
    assert (frame["prev"], frame["seq"]) == (1, 2)
    assert frame["mv"] == [[job_id(0), 3]]
    await browser.leave()


async def test_a_paused_reader_catches_up_with_one_frame_after_150_versions(
    people: People, publish: Publish
) -> None:
    """C60: the ticks of a socket that reads nothing pile up nowhere."""
    publish(mixed(2, ids=people.ids), 1)
    browser = await signed_in(people.olga)
    await browser.open()
    await browser.say(t="sub", id="q", topic="order")
    first = await browser.frame("snap")
    for seq in range(2, 151):
        publish(mixed(seq % 7 + 1, ids=people.ids), seq)
        await tick(seq)
    beat = await browser.frame("hb")
    while beat["seq"] != 150:
        beat = await browser.frame("hb")
    assert beat["subs"] == {"q": 1}
    await browser.ack(first)
    frame = await browser.frame("d")
    assert (frame["prev"], frame["seq"], frame["total"]) == (1, 150, 150 % 7 + 1)
    kinds = [text[:12] for text in browser.raw if '"id":"q"' in text]
    assert len(kinds) == 2
    await browser.leave()


async def test_a_gap_is_answered_by_a_whole_window(people: People, publish: Publish) -> None:
    publish(mixed(3, ids=people.ids), 5)
    browser = await signed_in(people.olga)
    await browser.open()
    await browser.say(t="sub", id="q", topic="order")
    await browser.frame("snap")
    await browser.say(t="resync", id="q", have=4)
    again = await browser.frame("snap")
    assert (again["seq"], len(again["rows"])) == (5, 3)
    await browser.leave()


async def test_a_version_whose_tick_was_lost_comes_with_the_heartbeat(
    people: People, publish: Publish
) -> None:
    publish(mixed(2, ids=people.ids), 1)
    browser = await signed_in(people.olga)
    await browser.open()
    await browser.say(t="sub", id="q", topic="order")
    await browser.ack(await browser.frame("snap"))
    publish(mixed(3, ids=people.ids), 2)
    assert (await browser.frame("d"))["total"] == 3
    await browser.leave()


async def test_raw_frames_hold_nothing_of_another_tenant(people: People, publish: Publish) -> None:
    """C62: a viewer of acme listens to every topic while beta's jobs come, run and go."""
    browser = await signed_in(people.vera)
    publish(mixed(6, ids=people.ids), 1)
    await browser.open()
    for number, topic in enumerate(sorted(TOPICS)):
        await browser.say(t="sub", id=f"s{number}", topic=topic)
        await browser.ack(await browser.frame("snap"))
    for seq in range(2, 8):
        story = mixed(6 + seq, ids=people.ids)
        story.running.append(Waiting(number=90, tenant="beta", workflow="secret-beta-flow"))
        publish(story, seq)
        await tick(seq)
        frame = await browser.frame("d")
        await browser.ack(frame)
    await browser.say(t="sub", id="s0", topic="order", tenant=people.ids["beta"])
    hidden = await browser.frame("err")
    await browser.say(t="sub", id="s0", topic="order", tenant="no-such-tenant")
    unknown = await browser.frame("err")
    assert hidden == unknown
    await browser.leave()
    everything = "\n".join(browser.raw).lower()
    assert job_id(0) in everything
    assert "beta" not in everything
    assert people.ids["beta"] not in everything
    for number in (1, 3, 5, 7, 90):
        assert job_id(number) not in everything


async def test_a_tenant_in_the_address_closes_the_socket_before_any_data(
    people: People, publish: Publish
) -> None:
    publish(mixed(2, ids=people.ids), 1)
    key = await database_sync_to_async(session_of)(people.vera)
    browser = Browser(key, query="?team=beta")
    await browser.open()
    assert await browser.close_code() == consumer.BAD_ADDRESS
    assert browser.raw == []


async def test_nobody_gets_a_socket_without_a_session(people: People) -> None:
    browser = Browser("unknown")
    await browser.open()
    assert await browser.close_code() == consumer.SIGNED_OUT


async def test_a_person_without_any_tenant_is_closed(people: People) -> None:
    await database_sync_to_async(people.seat.delete)()
    browser = await signed_in(people.vera)
    await browser.open()
    assert await browser.close_code() == consumer.NO_RIGHTS


@pytest.mark.parametrize("origin", ["http://evil.example", "http://testserver:81", ""])
async def test_a_foreign_page_is_refused_at_the_handshake(people: People, origin: str) -> None:
    browser = Browser(await database_sync_to_async(session_of)(people.olga), origin=origin)
    assert not await browser.open()


async def test_a_removed_members_socket_closes_within_five_seconds(
    people: People, publish: Publish
) -> None:
    publish(mixed(2, ids=people.ids), 1)
    browser = await signed_in(people.vera)
    await browser.open()
    await browser.say(t="sub", id="q", topic="order")
    await browser.frame("snap")
    await database_sync_to_async(people.seat.delete)()
    since = time.monotonic()
    assert await browser.close_code() == consumer.NO_RIGHTS
    assert time.monotonic() - since < 5


async def test_a_switched_off_account_loses_its_socket(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "RECHECK_S", 0.1)
    browser = await signed_in(people.vera)
    await browser.open()
    people.vera.is_active = False
    await database_sync_to_async(people.vera.save)()
    assert await browser.close_code() == consumer.SIGNED_OUT


async def test_a_reader_that_never_acknowledges_is_dropped(
    people: People, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "UNACKNOWLEDGED_S", 0.1)
    monkeypatch.setattr(sender, "HEARTBEAT_S", 0.2)
    publish(mixed(2, ids=people.ids), 1)
    browser = await signed_in(people.olga)
    await browser.open()
    await browser.say(t="sub", id="q", topic="order")
    assert await browser.close_code() == sender.SILENT


async def test_too_many_frames_a_second_close_the_socket(people: People) -> None:
    browser = await signed_in(people.olga)
    await browser.open()
    for _ in range(FRAMES_A_SECOND + 5):
        await browser.say(t="unsub", id="q")
    assert await browser.close_code() == consumer.TOO_MUCH


async def test_a_frame_that_is_too_long_closes_the_socket(people: People) -> None:
    browser = await signed_in(people.olga)
    await browser.open()
    await browser.say(t="sub", id="q", topic="x" * 5000)
    assert await browser.close_code() == consumer.TOO_LONG


async def test_a_bad_message_gets_an_answer_and_the_socket_stays(
    people: People, publish: Publish
) -> None:
    publish(mixed(2, ids=people.ids), 1)
    browser = await signed_in(people.olga)
    await browser.open()
    await browser.say(t="dance")
    assert (await browser.frame("err"))["code"] == "bad_message"
    await browser.say(t="ack", id="nope", seq=1)
    assert (await browser.frame("err"))["code"] == "unknown_sub"
    await browser.say(t="sub", id="q", topic="order")
    assert (await browser.frame("snap"))["total"] == 2
    await browser.leave()


async def test_a_socket_has_a_bounded_number_of_subscriptions(people: People) -> None:
    browser = await signed_in(people.olga)
    await browser.open()
    for number in range(9):
        await browser.say(t="sub", id=f"s{number}", topic="order")
    assert (await browser.frame("err"))["code"] == "too_many_subs"
    await browser.leave()


async def test_a_user_has_a_bounded_number_of_sockets(people: People) -> None:
    key = await database_sync_to_async(session_of)(people.olga)
    browsers = [Browser(key) for _ in range(SOCKETS_A_USER + 1)]
    for browser in browsers:
        await browser.open()
    assert await browsers[-1].close_code() == consumer.TOO_MUCH
    for browser in browsers[:-1]:
        await browser.leave()
    await asyncio.sleep(0)
    again = Browser(key)
    await again.open()
    await again.say(t="ack", id="nope", seq=1)
    assert (await again.frame("err"))["code"] == "unknown_sub"
    await again.leave()
