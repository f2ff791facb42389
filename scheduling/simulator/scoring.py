"""How good the estimates were, and the range that the next ones get.

The range is that of `core.eta.calibration` over the last `LAST_CHECKED` ratios of actual to predicted
time, of all jobs together, moved by how often the ranges told before were missed.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, inf
from typing import Any

from scheduling.core.eta.calibration import bounds
from scheduling.simulator.runs import Estimate

LAST_CHECKED = 1000
MISSED = 0.1
MOVED_BY = 0.003
MOST_MOVED = 1.5


@dataclass(slots=True)
class Errors:
    """The estimates of one workflow, or of all, that came due."""

    count: int = 0
    error_s: float = 0.0
    bias_s: float = 0.0
    naive_s: float = 0.0
    hits: int = 0

    def add(self, one: Estimate, actual_s: float) -> None:
        """Score an estimate."""
        self.count += 1
        self.error_s += abs(one.finish_s - actual_s)
        self.bias_s += one.finish_s - actual_s
        self.naive_s += abs(one.naive_s - actual_s)
        self.hits += one.low_s <= actual_s <= one.high_s

    @classmethod
    def of_all(cls, parts: Iterable["Errors"]) -> "Errors":
        """Return those of several together."""
        whole = cls()
        for one in parts:
            whole.count += one.count
            whole.error_s += one.error_s
            whole.bias_s += one.bias_s
            whole.naive_s += one.naive_s
            whole.hits += one.hits
        return whole

    def told(self) -> dict[str, Any]:
        """Return the score; of none nothing but the count."""
        count = self.count
        if not count:
            return {"count": 0}
        return {
            "count": count,
            "mean_error_s": round(self.error_s / count, 6),
            "bias_s": round(self.bias_s / count, 6),
            "hit_rate": round(self.hits / count, 6),
            "naive_mean_error_s": round(self.naive_s / count, 6),
        }


class Ranges:
    """The recent ratios of actual to predicted time, and the range that they make.

    Where a queue grows or shrinks for hours, what will come true drifts away from the last ratios
    that are known, so each side is moved after each outcome: out by much when it was missed, else in
    by little, such that in the long run each is missed by a tenth of all (conformal inference that
    tracks a quantile; Gibbs and Candes 2021, Angelopoulos, Candes and Tibshirani 2023).
    """

    __slots__ = ("_above", "_below", "_ordered", "_ratios")

    def __init__(self) -> None:
        """Start with none."""
        self._ratios: deque[float] = deque()
        self._ordered: list[float] = []
        self._below = self._above = 0.0

    def add(self, one: Estimate, actual_s: float) -> None:
        """Take in an outcome."""
        ratio = actual_s / one.finish_s if one.finish_s > 0 else inf
        if not 0 < ratio < inf:
            return
        self._below = _moved(self._below, missed=actual_s < one.low_s)
        self._above = _moved(self._above, missed=actual_s > one.high_s)
        self._ratios.append(ratio)
        insort(self._ordered, ratio)
        if len(self._ratios) > LAST_CHECKED:
            del self._ordered[bisect_left(self._ordered, self._ratios.popleft())]

    def around(self, eta_s: float) -> tuple[float, float]:
        """Return the range of an estimate, as seconds from now."""
        low, high = bounds(self._ordered)
        low_s = eta_s * min(1.0, low * exp(-self._below))
        return low_s, eta_s * max(1.0, high * exp(self._above))


def _moved(side: float, *, missed: bool) -> float:
    """Return by what a side is moved out now, as a logarithm."""
    moved = side + MOVED_BY * (missed - MISSED)
    return moved if -MOST_MOVED <= moved <= MOST_MOVED else side
