"""Gates: what lets only so many jobs run at once beside the units, by when its places come free.

A gate is a limit that has a cap, or the slots of the executors that may run a job. Each is a
queue with as many servers as it has places (as `lanes`, one place a job), and a job starts when the
last of its gates has a place. Where two sets of executors overlap, each is taken to be alone.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace, nlargest
from typing import TypeAlias

from scheduling.core.capacity.room import planned_end
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Executor, Job, LimitKey, Live

_Set: TypeAlias = tuple[frozenset[str], int]
"""The ids of some executors and the slots that they have together."""


class Gates:
    """The gates of a pool, with what is live in them at an instant (epoch seconds)."""

    __slots__ = ("_at", "_live", "_places", "_state")

    def __init__(self, state: PoolState, live: Sequence[Live], at: float) -> None:
        """Take the caps and executors of `state`; gates are filled as they are asked for."""
        self._state = state
        self._live = live
        self._at = at
        self._places: dict[LimitKey | _Set, list[float]] = {}

    def are_open(self, job: Job) -> bool:
        """Tell whether every gate of a job has a place at all."""
        return all(self._of(job))

    def enter(self, job: Job, start: float, seconds: float) -> float:
        """Return when a job starts that has its units from `start`; it keeps its places so long.

        All its gates must have a place (`are_open`).
        """
        gates = self._of(job)
        start = max(start, *(places[0] for places in gates))
        for places in gates:
            heapreplace(places, start + seconds)
        return start

    def _of(self, job: Job) -> list[list[float]]:
        """Return the times at which places come free, soonest first, of each gate of a job."""
        serving = [one for one in self._state.candidates(job) if one.available]
        found = [self._of_executors(serving)]
        for key in (*job.limits, *job.shared):
            cap = self._state.limits.cap(key)
            if cap is not None:
                found.append(self._of_limit(key, cap))
        return found

    def _of_executors(self, serving: Sequence[Executor]) -> list[float]:
        ids = frozenset(one.id for one in serving)
        slots = sum(one.slots for one in serving)
        if (ids, slots) not in self._places:
            inside = (one for one in self._live if one.executor in ids)
            self._places[ids, slots] = self._filled(inside, slots)
        return self._places[ids, slots]

    def _of_limit(self, key: LimitKey, cap: int) -> list[float]:
        if key not in self._places:
            inside = (one for one in self._live if key in one.limits or key in one.shared)
            self._places[key] = self._filled(inside, cap)
        return self._places[key]

    def _filled(self, inside: Iterable[Live], most: int) -> list[float]:
        """Return when each place is free; of more jobs than places those that end last hold them."""
        ends = nlargest(most, (planned_end(one, self._at) for one in inside))
        places = [*ends, *[self._at] * (most - len(ends))]
        heapify(places)
        return places
