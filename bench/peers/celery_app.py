"""Celery alone: acks late, prefetch 1, no result backend, on the bench's Valkey."""

import os
import time
from collections.abc import Sequence

from celery import Celery, group

from bench.client import Row
from bench.stamps import stamp, stamp_end

app = Celery("celery_app", broker=os.environ["BENCH_BROKER_URL"])
app.conf.update(
    task_ignore_result=True,
    result_backend=None,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")  # type: ignore[untyped-decorator]
def noop(number: int, submitted_at: float, seconds: float) -> None:
    """Do nothing, or sleep."""
    stamp(number, submitted_at)
    if seconds:
        time.sleep(seconds)
        stamp_end(number, submitted_at)


class Sender:
    """Celery's own client."""

    def __init__(self) -> None:
        """Connect."""
        with app.producer_or_acquire() as producer:
            producer.connection.ensure_connection(max_retries=3)

    def send(self, row: Row) -> None:
        """`Task.delay`, a message."""
        noop.delay(*row)

    def send_many(self, rows: Sequence[Row]) -> None:
        """A group: Celery has no other bulk call."""
        group(noop.s(*row) for row in rows).apply_async()

    def close(self) -> None:
        """Close the pool of connections."""
        app.close()


def connect() -> Sender:
    """Return the client."""
    return Sender()


def prepare() -> None:
    """Empty the queue."""
    app.control.purge()
