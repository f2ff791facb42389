"""The Celery application: no acks, no prefetch, no result backend.

The broker carries messages, never truth: leases and fences live in PostgreSQL, so a redelivered
or lost message changes nothing, an attempt that nobody claims is sent again, and what the governor sends by
its clock comes again. So nobody keeps books of messages that were not acknowledged: that takes two
calls of the broker a message, and when its connection is lost while tasks run, a late ack to the closed
channel ends the whole worker (seen with Celery 5.7 and kombu 5.7: AttributeError in kombu's Redis
transport), and with it work that was fine. A worker fetches a message only when a thread is free for
it, so none is hoarded while another worker is idle; the threads are those of `telemachus.threads`.

Another broker, such as RabbitMQ, sends its messages by itself, and acks (early ones) are all that keeps it
from sending them all to one worker: there they stay.
"""

import os
from urllib.parse import urlsplit

from celery import Celery, concurrency
from celery.app.amqp import AMQP
from kombu.messaging import Consumer

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")

concurrency.ALIASES["threads"] = "telemachus.threads:TaskPool"  # what `-P threads` means


class Unacknowledged(AMQP):  # type: ignore[misc]
    """Celery's queues, read without acknowledgements where they are fetched, not sent."""

    def TaskConsumer(self, *args: object, **options: object) -> Consumer:
        """Return the consumer of a worker's queues."""
        fetches = urlsplit(self.app.conf.broker_url).scheme in {"redis", "rediss"}
        consumer: Consumer = super().TaskConsumer(*args, no_ack=fetches, **options)
        return consumer


app = Celery("telemachus", amqp=Unacknowledged)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["scheduling.tasks"], related_name="execute")
app.autodiscover_tasks(["scheduling.tasks"], related_name="control")
