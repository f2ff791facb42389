"""Lanes: a pool's units as groups that come free together, and jobs laid into them in order.

The seed's lane simulation: one lane per unit holds the time at which it is next free; a cost-c job
starts when the c earliest lanes are all free and holds them until it ends. With every cost 1 this
is the textbook first-come, first-served queue with several servers (Kiefer and Wolfowitz 1955).
Lanes that come free at one instant are kept as one (free_at, units) group in a heap, so a job costs
O(log lanes) whatever it weighs. No later job starts before an earlier one: the c earliest lanes are
taken, so those left are free no earlier than the job's start (head of line).
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace

_Group = tuple[float, int]


class Lanes:
    """The units of a pool by the time at which they come free (epoch seconds)."""

    __slots__ = ("_groups", "units")

    def __init__(self, units: int, *, now: float, running: Iterable[_Group] = ()) -> None:
        """Seed with `running` jobs as (end, cost); the rest of `units` is free now.

        An end in the past counts as now. When the running jobs hold more than `units` (the dial
        was turned down), the units that come free first vanish.
        """
        self.units = units
        self._groups = _seeded(units, now, running)
        heapify(self._groups)

    def take(self, cost: int, duration_s: float) -> float:
        """Lay a job into the lanes; return its start. Raise `ValueError` if it never fits."""
        return self.take_all([cost], [duration_s])[0]

    def take_all(self, costs: Sequence[int], durations_s: Sequence[float]) -> list[float]:
        """Lay jobs one after another; return their starts. Raise `ValueError` if one never fits."""
        self._check(costs)
        groups = self._groups
        starts: list[float] = []
        for cost, duration in zip(costs, durations_s, strict=True):
            missing = cost
            start, free = groups[0]
            while free < missing:
                heappop(groups)
                missing -= free
                start, free = groups[0]
            if free == missing:
                heapreplace(groups, (start + duration, cost))
            else:
                # Fewer units at the same instant: the root stays the smallest.
                groups[0] = (start, free - missing)
                heappush(groups, (start + duration, cost))
            starts.append(start)
        return starts

    def _check(self, costs: Sequence[int]) -> None:
        for cost in (min(costs), max(costs)) if costs else ():
            if not 1 <= cost <= self.units:
                message = f"A job of cost {cost} never fits {self.units} units."
                raise ValueError(message)

    def groups(self) -> list[_Group]:
        """Return the (free_at, units) groups, soonest first."""
        return sorted(self._groups)


def _seeded(units: int, now: float, running: Iterable[_Group]) -> list[_Group]:
    held = sorted((max(now, end), cost) for end, cost in running)
    excess = sum(cost for _, cost in held) - units
    groups: list[_Group] = [(now, -excess)] if excess < 0 else []
    for end, cost in held:
        vanishing = min(max(excess, 0), cost)
        excess -= vanishing
        if cost > vanishing:
            groups.append((end, cost - vanishing))
    return groups
