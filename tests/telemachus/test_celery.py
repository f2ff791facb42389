"""The queues: the broker keeps no books of messages that somebody has read."""

import pytest

from scheduling.governor.messages import Messages
from scheduling.tasks.execute import attempts_run
from telemachus.celery import app


def test_a_message_that_was_read_and_acknowledged_costs_the_broker_no_further_call(
    monkeypatch: pytest.MonkeyPatch,
):
    queue, got = "read-without-books", []
    with app.connection_for_write() as link:
        channel = link.default_channel
        consumer = app.amqp.TaskConsumer(
            channel, queues=[app.amqp.queues.new_missing(queue)], on_message=got.append
        )
        with consumer:
            for _ in range(3):
                app.send_task("a.task", queue=queue, connection=link, retry=False)
                link.drain_events(timeout=5)
                monkeypatch.setattr(channel, "conn_or_acquire", None)  # a call would fail
                got[-1].ack()
                monkeypatch.undo()
        assert [one.headers["task"] for one in got] == ["a.task"] * 3
        assert channel.client.exists("unacked", "unacked_index", queue) == 0
        assert len(channel.qos._dirty) <= 1  # what was acknowledged is forgotten at the next


def test_a_posted_list_is_the_message_that_apply_async_would_send():
    queue, got, pairs = "posted", [], [("a", 1), ("b", 2)]
    with app.connection_for_write() as link, app.amqp.Producer(link) as producer:
        consumer = app.amqp.TaskConsumer(
            link.default_channel,
            queues=[app.amqp.queues.new_missing(queue)],
            on_message=got.append,
        )
        with consumer:
            messages = Messages()
            messages._post(queue, pairs)
            messages.close()
            attempts_run.apply_async(args=(pairs,), queue=queue, producer=producer, retry=False)
            for _ in range(2):
                link.drain_events(timeout=5)
    own, usual = got
    told = {"id", "root_id", "argsrepr", "kwargsrepr"}
    assert own.decode() == usual.decode()
    assert {k: v for k, v in own.headers.items() if k not in told} == {
        k: v for k, v in usual.headers.items() if k not in told
    }
    assert own.headers["ignore_result"] is True
