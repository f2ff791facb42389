"""The Celery application: acks early and in memory, no prefetch, no result backend.

The broker carries messages, never truth: leases and fences live in PostgreSQL, so a redelivered
or lost message changes nothing, an attempt that nobody claims is sent again, and what the governor sends by
its clock comes again. So Valkey keeps no books of messages that are not acknowledged (`ack_emulation` of
kombu's Redis transport is off), which takes two calls a message. Late acks would add nothing, and they
cost: when the broker's connection is lost while tasks run, a late ack to the closed channel ends the whole
worker (seen with Celery 5.7 and kombu 5.7: AttributeError in kombu's Redis transport), and with it work
that was fine. A worker fetches a message only when a thread is free for it, so none is hoarded while
another worker is idle; the threads are those of `telemachus.threads`.
"""

import os

from celery import Celery, concurrency
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")

concurrency.ALIASES["threads"] = "telemachus.threads:TaskPool"  # what `-P threads` means
for scheme in ("redis", "rediss"):
    TRANSPORT_ALIASES[scheme] = "telemachus.broker:Transport"

app = Celery("telemachus")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["scheduling.tasks"], related_name="execute")
app.autodiscover_tasks(["scheduling.tasks"], related_name="control")
