"""What is free in a pool, and what a walk measures jobs against (DESIGN 4.2).

Units. A pool has `budget` units; what is in use is the sum of the live jobs' costs. `reserve` of
them serve only classes that may use the reserve. Free for such a job is budget - in use; for any
other the lesser of that and budget - reserve - in use by the others. Free may be negative when the
dial was turned down; nothing is killed, and nothing starts before it has drained.

Backfill ("easy"). EASY backfilling (Lifka 1995; Mu'alem and Feitelson 2001): the first job that is
stopped for units has a planned start, the shadow time, at which enough live jobs will have ended.
A job behind it may start if it will have ended by then, or if it takes no more than the extra units
that are free at that time beyond the head's cost. Only the first stopped head is protected. Planned
ends come from estimates; that of an overdue job is now.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct, field

from scheduling.core.types import Executor, LimitKey, Live, Pool


class Use(Struct):
    """The units in use, counted apart: by jobs that may use the reserve, and by the others."""

    reserved: int = 0
    general: int = 0

    @property
    def total(self) -> int:
        """The units in use in all."""
        return self.reserved + self.general

    def add(self, units: int, *, uses_reserve: bool) -> None:
        """Count `units` more (fewer when negative) for a job of that part."""
        if uses_reserve:
            self.reserved += units
        else:
            self.general += units


def free_units(pool: Pool, use: Use, *, uses_reserve: bool) -> int:
    """Return the units that are free for a job of that part; negative when overdrawn."""
    general = pool.budget - use.general
    free = general - use.reserved
    return free if uses_reserve else min(free, general - pool.reserve)


def ceiling(pool: Pool, *, uses_reserve: bool) -> int:
    """Return the most units that a job of that part can ever have."""
    return pool.budget if uses_reserve else pool.budget - pool.reserve


def never_fits(cost: int, pool: Pool, *, uses_reserve: bool) -> bool:
    """Tell whether a job of that cost could not start even in an empty pool."""
    return cost > ceiling(pool, uses_reserve=uses_reserve)


class Gate(Protocol):
    """A rate window as the walk asks it."""

    def has_room(self, tokens: int, now: float) -> bool:
        """Tell whether one more job of `tokens` may start at `now`."""

    def opens_at(self, tokens: int, now: float) -> float:
        """Return when such a job has room."""


class Budget(Protocol):
    """A provider's retry budget as the walk asks it."""

    def has_room(self, now: float) -> bool:
        """Tell whether one more retry may start at `now`."""

    def opens_at(self, now: float) -> float:
        """Return when a retry may start, if nothing else happens."""


class Room(Struct, frozen=True, kw_only=True):
    """What a walk measures jobs against.

    The mappings and `use` are those of the pool's state itself: a placement counts at once.
    `busy` counts live jobs per executor id, `manned` those of them that our workers run (None: all);
    `counts` counts live jobs per limit key; a key without a cap has no limit, and one without a
    window no rate. `by_provider` tells whether any provider has a limit or a rate. `retries` are the
    providers' retry budgets, by provider; `probes` whether any circuit is half-open, and `on_model`
    the live jobs by (executor id, model). `backfill` lets jobs pass the first stopped head by the
    easy rule.
    """

    now: float
    pool: Pool
    use: Use
    live: Mapping[str, Live]
    busy: Mapping[str, int]
    counts: Mapping[LimitKey, int]
    caps: Mapping[LimitKey, int]
    reserve_classes: frozenset[str]
    backfill: bool = False
    windows: Mapping[LimitKey, Gate] = field(default_factory=dict)
    by_provider: bool = False
    manned: Mapping[str, int] | None = None
    retries: Mapping[str, Budget] = field(default_factory=dict)
    probes: bool = False
    on_model: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def has_seat(self, executor: Executor) -> bool:
        """Tell whether one more job may run there, whoever runs it."""
        return self.busy.get(executor.id, 0) < executor.most

    def takes(self, executor: Executor, *, by_worker: bool) -> bool:
        """Tell whether the executor has a free slot, and a free worker for a job that needs one."""
        if not self.has_seat(executor):
            return False
        manned = self.busy if self.manned is None else self.manned
        return not by_worker or manned.get(executor.id, 0) < executor.slots

    def free(self, *, uses_reserve: bool) -> int:
        """Return the units free now for a job of that part."""
        return free_units(self.pool, self.use, uses_reserve=uses_reserve)

    def full(self, keys: Iterable[LimitKey]) -> list[LimitKey]:
        """Return those of `keys` whose cap is reached."""
        caps, counts = self.caps, self.counts
        return [key for key in keys if key in caps and counts.get(key, 0) >= caps[key]]


class Shadow(Struct, frozen=True, kw_only=True):
    """The protected head's planned start, and the units free then beyond its cost."""

    at: float
    extra: int


def planned_end(live: Live, now: float) -> float:
    """Return when `live` should end by its estimate; now when it is overdue."""
    return max(now, live.started_at + live.expected_s)


def shadow_of(cost: int, room: Room, *, uses_reserve: bool) -> Shadow:
    """Return the planned start of a head of `cost` that does not fit now.

    All that ends at one instant is given back before the head is tried. A head within its ceiling
    fits at the latest when the pool is empty.
    """
    use = Use(room.use.reserved, room.use.general)
    ends = sorted((planned_end(live, room.now), job_id) for job_id, live in room.live.items())
    at, free = room.now, free_units(room.pool, use, uses_reserve=uses_reserve)
    for end, job_id in ends:
        if free >= cost and end > at:
            break
        live = room.live[job_id]
        use.add(-live.cost, uses_reserve=live.class_name in room.reserve_classes)
        at, free = end, free_units(room.pool, use, uses_reserve=uses_reserve)
    return Shadow(at=at, extra=free - cost)
