"""Where a new job will stand and when it will be done, read off the last order snapshot.

The new job joins the end of its tenant's line. Its turn is that of the tenant's last waiting job
plus the charges that follow, or the class's present turn where the tenant has none; its place is
behind every job of a higher class, and behind those of its class with a smaller or equal turn.
This is a first answer at submission, before the governor has seen the job; the order itself
answers exactly a moment later.

A large order is megabytes, so its rows are fetched only when a place is asked for, kept by version
for the next submission, and looked through once a line of a call.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import redis

from scheduling.snapshot import ROW, Header, Rows, read_header, read_rows

FRESH_S = 15.0
KEPT_S = 0.2
"""How long a header serves the submissions that follow: the governor seldom makes a new one sooner."""

_NO_TURNS = np.empty(0, dtype=ROW["turn"])

_headers: dict[str, tuple[float, Header | None]] = {}
"""The header last read of each pool, with the time of that."""

_rows: dict[str, tuple[tuple[int, int], Rows]] = {}
"""The rows last read of each pool, with their (epoch, seq)."""


@dataclass(slots=True, kw_only=True)
class _Line:
    """A tenant's line in a class, with the jobs of a call added to it so far.

    `own` jobs of it wait, the last at turn `last` (None: none waits); `higher` wait in higher
    classes; `others` are the turns of the class's other jobs, sorted; `present` its least turn.
    """

    own: int
    last: int | None
    higher: int
    others: npt.NDArray[Any]
    present: int
    weight: int
    added: int = 0

    def ahead(self, charge: int) -> int:
        """Add a job; returns how many go before it."""
        before = self.added
        self.added += charge
        if self.last is None:
            turn = self.present + before // self.weight
        else:
            turn = self.last + (before + charge) // self.weight
        behind = int(np.searchsorted(self.others, turn, side="right")) if len(self.others) else 0
        return self.higher + behind + self.own + before // max(charge, 1)


@dataclass(slots=True)
class Foresight:
    """A pool's last snapshot with what a call has added to it so far."""

    header: Header | None
    _client: redis.Redis
    _queue: Rows | None = None
    _finish: npt.NDArray[Any] | None = None
    _lines: dict[tuple[str, str], _Line] = field(default_factory=dict)
    _taken: int = 0
    _started: int = 0

    @classmethod
    def read(cls, client: redis.Redis, pool: str, now: float) -> "Foresight":
        """Return the pool's snapshot; empty when there is none, or only an old one."""
        read_at, header = _headers.get(pool, (0.0, None))
        if not 0 <= now - read_at < KEPT_S:
            header = _header_read(client, pool)
            _headers[pool] = now, header
        return cls(header if header is not None and now - header.at < FRESH_S else None, client)

    def starts_now(self, cost: int) -> bool:
        """Tell whether nothing waits, and units and a slot are free; counts them as taken if so."""
        if self.header is None or self.header.startable:
            return False
        free = self.header.budget - self.header.reserve - self.header.in_use - self._taken
        slots = sum(
            max(0, one.slots - one.in_use)
            for one in self.header.executors
            if one.enabled and not one.draining
        )
        if cost > free or self._started >= slots:
            return False
        self._taken += cost
        self._started += 1
        return True

    def place(
        self, tenant: str, job_class: str, *, charge: int, expected_s: float
    ) -> tuple[int | None, float | None]:
        """Return (place, expected finish) of one more job of a tenant; None where unknown."""
        if self.header is None or job_class not in self.header.classes:
            return None, None
        queue = self._startable(self.header)
        if queue is None:
            return None, None
        line = self._lines.get((tenant, job_class))
        if line is None:
            line = self._lines[tenant, job_class] = _line(self.header, queue, tenant, job_class)
        ahead = line.ahead(charge)
        start = self._start(self.header, queue, ahead, expected_s)
        return ahead + 1, None if math.isnan(start) else start + expected_s

    def _startable(self, header: Header) -> Rows | None:
        """Return the rows that can start, read at the first call.

        None when they are lost; nothing is known of the pool then.
        """
        if self._queue is None:
            rows = _rows_read(self._client, header) if header.startable else np.empty(0, dtype=ROW)
            if rows is None:
                self.header = None
                return None
            self._queue = rows[: header.startable]
        return self._queue

    def _start(self, header: Header, queue: Rows, ahead: int, expected_s: float) -> float:
        """Return when the job with so many ahead starts: NaN where nothing tells.

        It starts when the one whose place it takes would have, or else when the last lanes become
        free; those which this call has put behind the queue go before it.
        """
        if ahead < len(queue):
            return float(queue["start"][ahead])
        if not len(queue):
            return math.nan
        if self._finish is None:
            self._finish = np.sort(queue["finish"])
        lanes = max(1, len(header.running))
        free = float(self._finish[-min(lanes, len(queue))])
        return free + (ahead - len(queue)) // lanes * expected_s


def _header_read(client: redis.Redis, pool: str) -> Header | None:
    try:
        return read_header(client, pool)
    except redis.RedisError:
        return None


def _rows_read(client: redis.Redis, header: Header) -> Rows | None:
    version, kept = (header.epoch, header.seq), _rows.get(header.pool)
    if kept is not None and kept[0] == version:
        return kept[1]
    try:
        rows = read_rows(client, header)
    except redis.RedisError:
        return None
    if rows is not None:
        _rows[header.pool] = (version, rows)
    return rows


def _line(header: Header, queue: Rows, tenant: str, job_class: str) -> _Line:
    index = next((i for i, row in enumerate(header.tenants) if row.id == tenant), -1)
    weight = header.tenants[index].weight if index >= 0 else 1
    if not len(queue):
        return _Line(own=0, last=None, higher=0, others=_NO_TURNS, present=0, weight=weight)
    classes, turns = queue["job_class"], queue["turn"]
    number = header.classes.index(job_class)
    same = classes == number
    own = same & (queue["tenant"] == index)
    of_class, of_tenant = turns[same], turns[own]
    return _Line(
        own=len(of_tenant),
        last=int(of_tenant[-1]) if len(of_tenant) else None,
        higher=int(np.count_nonzero(classes < number)),
        others=np.sort(turns[same & ~own]),
        present=int(of_class.min()) if len(of_class) else 0,
        weight=weight,
    )
