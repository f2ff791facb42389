"""The queues: the broker keeps no books of messages that somebody has read."""

import pytest
from celery import Celery
from kombu import Connection

from telemachus.celery import Unacknowledged, app


def test_a_message_that_was_read_leaves_nothing_behind_at_the_broker():
    queue = "read-without-acks"
    got = []
    with app.connection_for_write() as link:
        app.send_task("a.task", queue=queue, connection=link, retry=False)
        consumer = app.amqp.TaskConsumer(
            link.default_channel,
            queues=[app.amqp.queues.new_missing(queue)],
            on_message=got.append,
        )
        with consumer:
            link.drain_events(timeout=5)
        assert [one.headers["task"] for one in got] == ["a.task"]
        client = link.default_channel.client
        assert client.exists("unacked", "unacked_index", queue) == 0
        got[0].ack()  # what a worker says all the same


@pytest.mark.parametrize(
    ("url", "unacknowledged"),
    [("redis://h/0", True), ("rediss://h/0", True), ("amqp://h//", False)],
)
def test_a_broker_that_sends_by_itself_is_held_back_by_acks(
    url: str, *, unacknowledged: bool
) -> None:
    other = Celery("other", amqp=Unacknowledged, broker=url)
    with Connection("memory://") as link:
        assert other.amqp.TaskConsumer(link.default_channel).no_ack is unacknowledged
