"""The queues: the broker keeps no books of messages that somebody has read."""

from telemachus.celery import app


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
