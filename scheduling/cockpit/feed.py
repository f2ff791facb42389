"""What the boards show that is not in the order snapshot: the newest events, the money of today.

Both come from the database, so they are read here once for all sockets of the process, at most
every quarter of a second (events) and every ten seconds (spend), in two threads that hold the only database
connections of the live path. Events commit late at times, so each read goes back over the last
numbers and drops those it has.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeVar

from django.db import DatabaseError

from billing.reports import tenant_costs
from scheduling.cockpit.board import Viewer
from scheduling.cockpit.viewers import with_connections_closed
from scheduling.cockpit.window import Row
from scheduling.selectors.events import EventLine, events_after

log = logging.getLogger(__name__)

T = TypeVar("T")

KEPT = 500
BACK = 200
EVENTS_EVERY_S = 0.25
SPEND_EVERY_S = 10.0
CENT = Decimal("0.01")


class Feed:
    """The newest events of all tenants, newest first, and each tenant's spend of the UTC day."""

    def __init__(self) -> None:
        """Begin with nothing; the first refresh reads the newest."""
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="feed")
        self._lock = threading.Lock()
        self._load: Future[None] | None = None
        self._lines: list[EventLine] = []
        self._rows: dict[Hashable, tuple[Row, ...]] = {}
        self._spend: dict[str, tuple[Decimal, Decimal]] | None = None
        self._events_at = self._spend_at = -SPEND_EVERY_S
        self.seq = 0
        self.version = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Run a socket's database work in the feed's threads."""
        job = self._threads.submit(with_connections_closed, work)
        return await asyncio.wrap_future(job)

    async def refresh(self) -> None:
        """Return when a read that began after this call is done; callers share the reads."""
        called = time.monotonic()
        began = -SPEND_EVERY_S
        while began < called:
            load, began = self._begin()
            if load is None:
                await asyncio.sleep(began + EVENTS_EVERY_S - time.monotonic())
            else:
                await asyncio.wrap_future(load)

    def _begin(self) -> tuple[Future[None] | None, float]:
        """Return the read under way, begun if it is time for one, and when the last one began."""
        with self._lock:
            now = time.monotonic()
            load = None if self._load is None or self._load.done() else self._load
            if load is None and now >= self._events_at + EVENTS_EVERY_S:
                self._events_at = now
                load = self._load = self._threads.submit(with_connections_closed, self.load)
            return load, self._events_at

    def load(self) -> None:
        """Read what is new; a database that does not answer leaves what there is."""
        now = time.monotonic()
        try:
            self._load_events()
            if now - self._spend_at >= SPEND_EVERY_S:
                self._spend_at = now
                self._load_spend(datetime.now(UTC))
        except DatabaseError as error:
            log.warning("events and spend not read, the last stay: %s", type(error).__name__)

    def _load_events(self) -> None:
        known = {line.id for line in self._lines}
        newest = max(known, default=0)
        fresh = events_after(max(0, newest - BACK), KEPT, known)
        if fresh:
            merged = sorted([*fresh, *self._lines], key=lambda line: line.id, reverse=True)
            self._lines = merged[:KEPT]
            self._rows = {}
            self.seq += 1
            self.version += 1

    def _load_spend(self, now: datetime) -> None:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        rows = tenant_costs(tenants=None, since=midnight, until=now, by="tenant")
        spend = {row.key: (row.total, row.wasted) for row in rows}
        if spend != self._spend:
            self._spend = spend
            self.version += 1

    def spend(self, viewer: Viewer) -> dict[str, str]:
        """Return today's spend of the tenants whose costs the viewer sees, as text of dollars.

        Less than a dollar is told to a hundredth of a cent: small models cost that little.
        """
        if self._spend is None or viewer.costs == frozenset():
            return {}
        seen = [
            amounts
            for tenant, amounts in self._spend.items()
            if viewer.costs is None or tenant in viewer.costs
        ]
        total = sum((amounts[0] for amounts in seen), Decimal(0))
        wasted = sum((amounts[1] for amounts in seen), Decimal(0))
        exactness = CENT if total >= 1 or not total else CENT / 100
        return {
            "spend": str(total.quantize(exactness)),
            "wasted": str(wasted.quantize(exactness)),
        }

    def rows(self, viewer: Viewer) -> tuple[Row, ...]:
        """Return the events of the viewer's tenants, newest first; made once a scope."""
        rows = self._rows
        if viewer.scope not in rows:
            rows[viewer.scope] = self._seen(viewer)
        return rows[viewer.scope]

    def _seen(self, viewer: Viewer) -> tuple[Row, ...]:
        return tuple(
            (
                line.id,
                round(line.at.timestamp()),
                line.tenant_slug,
                str(line.job),
                line.event,
                line.reason,
                line.note,
            )
            for line in self._lines
            if viewer.sees_work(str(line.tenant), str(line.workspace))
        )
