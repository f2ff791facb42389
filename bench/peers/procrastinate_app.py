"""procrastinate on the bench's PostgreSQL; the submitting process takes its synchronous connector."""

import asyncio
import os
from collections.abc import Sequence

import procrastinate  # type: ignore[import-not-found]

from bench.client import Row
from bench.stamps import stamp, stamp_end

_CONNECTOR = (
    procrastinate.SyncPsycopgConnector
    if os.environ.get("BENCH_ROLE") == "client"
    else procrastinate.PsycopgConnector
)
app = procrastinate.App(connector=_CONNECTOR(conninfo=os.environ["BENCH_DATABASE_URL"]))


@app.task(name="noop", queue="default")  # type: ignore[untyped-decorator]
async def noop(number: int, submitted_at: float, seconds: float) -> None:
    """Do nothing, or sleep."""
    stamp(number, submitted_at)
    if seconds:
        await asyncio.sleep(seconds)
        stamp_end(number, submitted_at)


class Sender:
    """procrastinate's own client."""

    def __init__(self) -> None:
        """Connect."""
        app.open()

    def send(self, row: Row) -> None:
        """Defer one job."""
        noop.defer(**_arguments(row))

    def send_many(self, rows: Sequence[Row]) -> None:
        """Defer a set in one statement."""
        noop.batch_defer(*[_arguments(row) for row in rows])

    def close(self) -> None:
        """Close the pool of connections."""
        app.close()


def _arguments(row: Row) -> dict[str, float]:
    number, submitted_at, seconds = row
    return {"number": number, "submitted_at": submitted_at, "seconds": seconds}


def connect() -> Sender:
    """Return the client."""
    return Sender()


def prepare() -> None:
    """Make the schema in an empty database."""
    with app.open():
        app.schema_manager.apply_schema()
