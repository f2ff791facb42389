"""What is to happen at a known time: the ends of tries, and everything else that time brings.

At one instant ends come first, in the order in which their jobs arrived, then the rest in the order
in which it was planned.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import TypeAlias

from scheduling.simulator.runs import Run

Action: TypeAlias = Callable[[], None]


class Agenda:
    """Ends by (time, arrival number), timers by (time, number)."""

    __slots__ = ("_ends", "_number", "_timers")

    def __init__(self) -> None:
        """Start with nothing planned."""
        self._ends: list[tuple[float, int, int, Run]] = []
        self._timers: list[tuple[float, int, Action]] = []
        self._number = 0

    def end(self, at: float, run: Run) -> None:
        """Plan the end of a job's present placement."""
        heappush(self._ends, (at, run.seq, run.fence, run))

    def plan(self, at: float, action: Action) -> None:
        """Plan something else."""
        self._number += 1
        heappush(self._timers, (at, self._number, action))

    def next_at(self) -> float:
        """Return when the next thing happens; infinity: nothing does."""
        end = self._ends[0][0] if self._ends else inf
        return min(end, self._timers[0][0]) if self._timers else end

    def ends(self, now: float) -> list[Run]:
        """Take out the placements that end at `now`, those that ended otherwise left out."""
        found: list[Run] = []
        while self._ends and self._ends[0][0] <= now:
            _, _, fence, run = heappop(self._ends)
            if run.fence == fence:
                found.append(run)
        return found

    def timers(self, now: float) -> list[Action]:
        """Take out what else is due at `now`."""
        found: list[Action] = []
        while self._timers and self._timers[0][0] <= now:
            found.append(heappop(self._timers)[2])
        return found
