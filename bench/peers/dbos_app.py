"""DBOS on the bench's PostgreSQL, its queue polled every 50 ms (1 s is its default).

DBOS has no bulk call; a set is enqueued in one transaction of the caller's.
"""

import os
import time
from collections.abc import Sequence

import sqlalchemy  # type: ignore[import-not-found]
from dbos import DBOS, DBOSClient, DBOSConfig  # type: ignore[import-not-found]

from bench.client import Row
from bench.stamps import stamp, stamp_end

POLL_S = 0.05
QUEUE, VERSION = "life", "1"
_URL = os.environ["BENCH_DATABASE_URL"].replace("postgres://", "postgresql+psycopg://", 1)
_OPTIONS = {"queue_name": QUEUE, "workflow_name": "noop", "app_version": VERSION}
_CONFIG = DBOSConfig(
    name="bench",
    system_database_url=_URL,
    log_level="ERROR",
    application_version=VERSION,
    executor_id=os.environ.get("BENCH_EXECUTOR", "client"),
)


@DBOS.workflow(name="noop")  # type: ignore[untyped-decorator]
def noop(number: int, submitted_at: float, seconds: float) -> None:
    """Do nothing, or sleep."""
    stamp(number, submitted_at)
    if seconds:
        time.sleep(seconds)
        stamp_end(number, submitted_at)


class Sender:
    """DBOS's own client, and an engine of ours for sets."""

    def __init__(self) -> None:
        """Connect."""
        self._client = DBOSClient(system_database_url=_URL)
        self._engine = sqlalchemy.create_engine(_URL)
        with self._engine.connect():
            pass

    def send(self, row: Row) -> None:
        """Enqueue one workflow."""
        self._client.enqueue(_OPTIONS, *row)

    def send_many(self, rows: Sequence[Row]) -> None:
        """Enqueue a set in one transaction."""
        with self._engine.begin() as session:
            for row in rows:
                self._client.enqueue_in_transaction(session, _OPTIONS, *row)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()
        self._client.destroy()


def connect() -> Sender:
    """Return the client."""
    return Sender()


def prepare() -> None:
    """Make the schema and the queue in an empty database."""
    DBOS(config=_CONFIG)
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=POLL_S)
    DBOS.destroy()


def work() -> None:
    """Be a worker process."""
    DBOS(config=_CONFIG)
    DBOS.launch()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    work()
