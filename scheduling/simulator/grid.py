"""Quantities over the whole time of a run in a fixed number of bins, however long the run is.

The run's end is not known while it is watched, so the bins begin narrow; when the time passes the
last of them, each two neighbours are folded into one of twice the width. Memory is bins x series,
and each series keeps its exact integral.
"""

from array import array
from collections.abc import Hashable, Iterator

BINS = 240
_FIRST_WIDTH_S = 1 / 64


class Grid:
    """Series over time: levels that step (a depth) and amounts that fall at instants (a charge)."""

    __slots__ = ("_levels", "_series", "_since", "width")

    def __init__(self) -> None:
        """Begin at time 0 with every level 0."""
        self.width = _FIRST_WIDTH_S
        self._series: dict[Hashable, array[float]] = {}
        self._levels: dict[Hashable, float] = {}
        self._since: dict[Hashable, float] = {}

    def step(self, key: Hashable, at: float, by: float) -> None:
        """Change a level by `by` at a time (seconds); times of one key never go back."""
        level = self._levels.get(key, 0.0)
        if level:
            self._spread(key, self._since[key], at, level)
        self._levels[key] = level + by
        self._since[key] = at

    def level(self, key: Hashable) -> float:
        """Return the level as it stands."""
        return self._levels.get(key, 0.0)

    def pulse(self, key: Hashable, at: float, amount: float) -> None:
        """Add an amount at an instant."""
        self._reach(at)
        self._of(key)[min(int(at / self.width), BINS - 1)] += amount

    def close(self, at: float) -> None:
        """Carry every level on to the run's end."""
        for key in tuple(self._levels):
            self.step(key, at, 0)

    def keys(self, kind: str) -> Iterator[str]:
        """Yield the second parts of the keys ("kind", name), as they came in."""
        for key in self._series:
            if isinstance(key, tuple) and key[0] == kind:
                yield key[1]

    def sums(self, key: Hashable) -> list[float]:
        """Return the amount (or level x seconds) that fell into each bin."""
        return list(self._series.get(key) or [0.0] * BINS)

    def _of(self, key: Hashable) -> "array[float]":
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = array("d", bytes(8 * BINS))
        return series

    def _spread(self, key: Hashable, start: float, end: float, level: float) -> None:
        if end <= start:
            return
        self._reach(end)
        series, width = self._of(key), self.width
        first, last = int(start / width), min(int(end / width), BINS - 1)
        if first == last:
            series[first] += level * (end - start)
            return
        series[first] += level * ((first + 1) * width - start)
        for index in range(first + 1, last):
            series[index] += level * width
        series[last] += level * (end - last * width)

    def _reach(self, at: float) -> None:
        while at > self.width * BINS:
            self.width *= 2
            for key, old in self._series.items():
                folded = array("d", bytes(8 * BINS))
                for index in range(BINS // 2):
                    folded[index] = old[2 * index] + old[2 * index + 1]
                self._series[key] = folded
