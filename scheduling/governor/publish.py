"""Publishing the read model from a thread beside the loop, one version at a time.

The loop copies its state out and goes on dispatching; the thread orders, forecasts and writes. The
pause between versions grows with what a version costs, so that a large backlog never starves the
dispatching, and shrinks to `SHORTEST_S` for a small one.
"""

import logging
import threading
import time
from collections.abc import Sequence

import redis

from scheduling.core.eta.calibration import calibrated, score
from scheduling.events import TickPublisher, valkey_client
from scheduling.governor.book import Book
from scheduling.governor.view import View, build
from scheduling.snapshot import write

log = logging.getLogger(__name__)

SHORTEST_S = 0.2
COST_FACTOR = 5.0
"""A version that took n seconds is followed by a pause of at least n times this."""


class Publisher:
    """Turns copies of the leader's memory into published versions."""

    def __init__(self, epoch: int, every_s: float) -> None:
        """Publish for the leader of `epoch`, at the latest every `every_s` seconds."""
        self._epoch = epoch
        self._every_s = every_s
        self._seq = 0
        self._due = 0.0
        self._dirty = True
        self._thread: threading.Thread | None = None
        self._ticks = TickPublisher()

    def touch(self) -> None:
        """Say that something changed, so that the next version comes as soon as it may."""
        self._dirty = True

    def offer(self, book: Book, now: float) -> bool:
        """Begin a version if one is due and none is under way."""
        if self._thread is not None and self._thread.is_alive():
            return False
        clock = time.monotonic()
        if clock < self._due and not (self._dirty and clock >= self._due - self._every_s):
            return False
        self._dirty = False
        views = self._views(book, now)
        self._thread = threading.Thread(
            target=self._publish, args=(views, book, clock), name="publish", daemon=True
        )
        self._thread.start()
        return True

    def close(self) -> None:
        """Wait for the version under way and stop."""
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._ticks.close()

    def _views(self, book: Book, now: float) -> list[View]:
        self._seq += 1
        ratios = [
            one.actual_s / one.predicted_s for one in list(book.checked) if one.predicted_s > 0
        ]
        expected = {job_id: book.expected(row) for job_id, row in book.rows.items()}
        return [
            View(
                pool=pool,
                now=now,
                epoch=self._epoch,
                seq=self._seq,
                config=book.config,
                state=state.first(len(state.order)),
                rows=book.rows,
                parked=[
                    (book.rows[job_id], reason)
                    for job_id, reason in book.parked.items()
                    if book.rows[job_id].pool == pool
                ],
                attempts=dict(book.attempts),
                expected=expected,
                served=dict(book.served),
                calibration=calibrated(ratios),
                score=score(list(book.checked)),
            )
            for pool, state in book.states.items()
        ]

    def _publish(self, views: Sequence[View], book: Book, began: float) -> None:
        for view in views:
            try:
                built = build(view)
                for job_id, eta in built.etas.items():
                    book.first_etas.setdefault(job_id, eta)
                write(valkey_client(), built.header, built.rows)
                self._ticks.tick(view.pool, view.epoch, view.seq)
            except redis.RedisError as error:
                log.warning("read model not published: %s", type(error).__name__)
            except Exception:  # a fault of one picture must not end the governor
                log.exception("read model of pool %s could not be built", view.pool)
        took = time.monotonic() - began
        self._due = began + max(SHORTEST_S, took * COST_FACTOR) + self._every_s
