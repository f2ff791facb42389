"""How good the estimates were, and the range that the next ones get.

The range is that of `core.eta.calibration` over the recent ratios of actual to predicted time. That
holds its level where errors do not change with time; as a backlog grows or shrinks they do, and what
was told is judged only when its job ends, much later. So the two sides of the range are stretched
about its middle, each by a factor that grows with each end beyond that side and shrinks with each
other, slowly and for the whole run: adaptive conformal inference (Gibbs and Candes 2021). `TAIL` is
a little less than the tenth that is wanted, for what is not known yet when the factor is used.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from math import exp
from statistics import median
from typing import Any

from scheduling.core.eta.calibration import FEWEST, Calibration, calibrated
from scheduling.simulator.runs import Estimate

LAST_CHECKED = 2000
ANEW = 0.05
"""A range is drawn anew as this share of the ratios behind it is new."""
TAIL = 0.08
_STEP = 0.02
_LEAST, _MOST = 0.125, 16.0


@dataclass(slots=True)
class Stretch:
    """How far the lower and the upper side of ranges are stretched."""

    low: float = 1.0
    high: float = 1.0

    def add(self, one: Estimate, actual_s: float) -> None:
        """Take in an outcome."""
        self.low = _moved(self.low, beyond=actual_s < one.low_s)
        self.high = _moved(self.high, beyond=actual_s > one.high_s)


def _moved(factor: float, *, beyond: bool) -> float:
    return min(_MOST, max(_LEAST, factor * exp(_STEP * (beyond - TAIL))))


@dataclass(slots=True)
class Errors:
    """The estimates of one workflow, or of all, that came due."""

    count: int = 0
    error_s: float = 0.0
    bias_s: float = 0.0
    naive_s: float = 0.0
    hits: int = 0
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=LAST_CHECKED))
    _range: Calibration = field(default_factory=Calibration)
    _middle: float = 1.0
    _due: float = FEWEST

    def add(self, one: Estimate, actual_s: float) -> None:
        """Score an estimate."""
        self.count += 1
        self.error_s += abs(one.finish_s - actual_s)
        self.bias_s += one.finish_s - actual_s
        self.naive_s += abs(one.naive_s - actual_s)
        self.hits += one.low_s <= actual_s <= one.high_s
        if one.finish_s > 0 and actual_s > 0:
            self.ratios.append(actual_s / one.finish_s)
        if self.count >= self._due and len(self.ratios) >= FEWEST:
            self._calibrate()
            self._due = self.count + ANEW * len(self.ratios)

    def _calibrate(self) -> None:
        self._range = calibrated(self.ratios)
        self._middle = median(self.ratios)

    def around(self, eta_s: float, stretch: Stretch) -> tuple[float, float]:
        """Return the range of an estimate, as seconds from now."""
        known, middle = self._range, self._middle
        low = middle * (known.low / middle) ** stretch.low
        high = middle * (known.high / middle) ** stretch.high
        return replace(known, low=low, high=high).around(eta_s, 0.0)

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
