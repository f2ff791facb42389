"""Where a new job will stand and when it will be done, read off the last order snapshot.

The new job joins the end of its tenant's line. Its turn is that of the tenant's last waiting job
plus the charges that follow, or the class's present turn where the tenant has none; its place is behind every job of a higher class, and behind those of
its class with a smaller or equal turn. This is a first answer at submission, before the governor
has seen the job; the order itself answers exactly a moment later.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import redis

from scheduling.snapshot import Header, Rows, read_header, read_rows

FRESH_S = 15.0


@dataclass(slots=True)
class Foresight:
    """A pool's last snapshot with what a call has added to it so far."""

    header: Header | None
    rows: Rows | None
    _added: dict[tuple[str, str], int] = field(default_factory=dict)
    _taken: int = 0
    _started: int = 0

    @classmethod
    def read(cls, client: redis.Redis, pool: str, now: float) -> "Foresight":
        """Return the pool's snapshot; empty when there is none, or only an old one."""
        try:
            header = read_header(client, pool)
            fresh = header is not None and now - header.at < FRESH_S
            rows = read_rows(client, header) if header is not None and fresh else None
        except redis.RedisError:
            return cls(None, None)
        return cls(header, rows) if fresh and rows is not None else cls(None, None)

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
        if self.header is None or self.rows is None or job_class not in self.header.classes:
            return None, None
        ahead = self._ahead(tenant, job_class, charge)
        start = self._start(ahead, expected_s)
        return ahead + 1, None if np.isnan(start) else start + expected_s

    def _start(self, ahead: int, expected_s: float) -> float:
        """Return when the job with so many ahead starts: NaN where nothing tells.

        It starts when the one whose place it takes would have, or else when the last lanes become
        free; those which this call has put behind the queue go before it.
        """
        header, rows = self.header, self.rows
        if header is None or rows is None or not header.startable:
            return math.nan
        queue = rows[: header.startable]
        if ahead < len(queue):
            return float(queue["start"][ahead])
        lanes = max(1, len(header.running))
        free = float(np.sort(queue["finish"])[-min(lanes, len(queue))])
        return free + (ahead - len(queue)) // lanes * expected_s

    def _ahead(self, tenant: str, job_class: str, charge: int) -> int:
        header, rows = self.header, self.rows
        if header is None or rows is None:
            return 0
        queue = rows[: header.startable]
        number = header.classes.index(job_class)
        index = next((i for i, row in enumerate(header.tenants) if row.id == tenant), None)
        same = queue[queue["job_class"] == number]
        higher = int(np.count_nonzero(queue["job_class"] < number))
        own = same[same["tenant"] == index] if index is not None else same[:0]
        weight = header.tenants[index].weight if index is not None else 1
        key = (tenant, job_class)
        before = self._added.get(key, 0)
        self._added[key] = before + charge
        turn = _turn(own, same, charges=(before, charge), weight=weight)
        others = same if index is None else same[same["tenant"] != index]
        behind = int(np.count_nonzero(others["turn"] <= turn))
        return higher + behind + len(own) + before // max(charge, 1)


def _turn(own: Rows, same: Rows, *, charges: tuple[int, int], weight: int) -> int:
    """Return the turn of a new job behind its tenant's `own` jobs of the class, of all `same`.

    `charges` are what this call has added to the line before, and the new job's own.
    """
    before, charge = charges
    if len(own):
        return int(own["turn"][-1]) + (before + charge) // weight
    present = int(same["turn"].min()) if len(same) else 0
    return present + before // weight
