"""How many jobs should come in each of the next hours, from those that came before.

A profile of the week, smoothed: the count of an hour is foreseen as what its hour of the day has
been, times what its day of the week has been beside the mean, plus how its own hour of the week has
departed from that. Each part is a mean with weights that halve every `HALF_LIFE_WEEKS`, drawn to
the part above it by `PRIOR` observations' worth (empirical Bayes shrinkage; James and Stein 1961),
so that few weeks of history make a flat profile and many a sharp one. Only whole parts are used: the
week's from two weeks on, the day's from two days on, else the plain mean.

The 80 % range is that of split conformal prediction (see `calibration`): a profile of the older part
is asked for the newest, and the quantiles of how far it was off, in square roots of the mean (counts
spread in that measure), are laid around the forecast.

On the logs KTH-SP2, LLNL Atlas and NASA iPSC, a day ahead, it errs less than the same hour of the
week before, than STL and MSTL decompositions and about as much as Holt-Winters (bench/README.md).
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

DAY = 24
WEEK = 7 * DAY
HOUR_S = 3600
FEWEST_HOURS = 2 * DAY
"""With less history than this only a plain mean is foreseen, and its range is a guess."""
FEWEST = 9
"""The least number of values that has a tenth."""
HALF_LIFE_WEEKS = 3.0
PRIOR = 2.0
_TAIL = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The arrivals of hour after hour: the mean, and the 80 % range of each hour's count."""

    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What was learnt: the mean by hour of the week, and how the counts spread around it.

    `basis` is what it rests on: week, day or mean; `hours` of history are behind it. `low` and `high`
    are the quantiles of the spread, in square roots of the mean; `dispersion` its variance over that
    of a Poisson process (1: arrivals independent of each other).
    """

    by_hour: Floats
    low: float
    high: float
    dispersion: float
    basis: str
    hours: int

    def ahead(self, first_hour: int, hours: int) -> Expected:
        """Return what is expected from `first_hour` (whole hours since the epoch) on."""
        mean = self.by_hour[(first_hour + np.arange(hours)) % WEEK]
        spread = np.sqrt(mean + 1.0)
        return Expected(
            mean=mean,
            low=np.maximum(0.0, mean + self.low * spread),
            high=np.maximum(mean, mean + self.high * spread),
        )


def learnt(counts: Floats, first_hour: int) -> Pattern:
    """Return the pattern of hourly `counts`, the first of them in `first_hour` since the epoch."""
    size = len(counts)
    by_hour, basis = _profile(counts, first_hour)
    newest = min(2 * WEEK, size // 2)
    cut = size - newest if size >= FEWEST_HOURS else 0
    asked = _profile(counts[:cut], first_hour)[0] if cut else by_hour
    of_week = (first_hour + np.arange(cut, size)) % WEEK
    off = (counts[cut:] - asked[of_week]) / np.sqrt(asked[of_week] + 1.0)
    low, high = _bounds(off)
    return Pattern(
        by_hour=by_hour,
        low=low,
        high=high,
        dispersion=max(1.0, float(np.mean(off * off))) if size else 1.0,
        basis=basis,
        hours=size,
    )


def _bounds(off: Floats) -> tuple[float, float]:
    """Return the 10 % and 90 % quantiles; with too few values for any, those of a wide guess."""
    if len(off) < FEWEST:
        return -2.0, 2.0
    ranked = np.sort(off)
    rank = int((len(ranked) + 1) * _TAIL)
    return min(0.0, float(ranked[rank - 1])), max(0.0, float(ranked[-rank]))


def _profile(counts: Floats, first_hour: int) -> tuple[Floats, str]:
    """Return the mean by hour of the week, and what it rests on."""
    hours = first_hour + np.arange(len(counts))
    weights = 0.5 ** (np.arange(len(counts))[::-1] / (WEEK * HALF_LIFE_WEEKS))
    level = float(np.average(counts, weights=weights)) if len(counts) else 0.0
    if len(counts) < FEWEST_HOURS or not level:
        return np.full(WEEK, level), "mean"
    of_day = _shrunk(counts, weights, hours % DAY, np.full(DAY, level))
    if len(counts) < 2 * WEEK:
        return np.tile(of_day, 7), "day"
    by_day = _shrunk(counts, weights, hours // DAY % 7, np.full(7, level), PRIOR * DAY) / level
    base = np.tile(of_day, 7) * np.repeat(by_day, DAY)
    return np.maximum(0.0, _shrunk(counts, weights, hours % WEEK, base)), "week"


def _shrunk(
    counts: Floats, weights: Floats, key: Ints, towards: Floats, prior: float = PRIOR
) -> Floats:
    """Return the weighted mean by `key`, drawn to `towards` by so many observations' worth."""
    sums = np.bincount(key, weights * counts, len(towards))
    seen = np.bincount(key, weights, len(towards))
    shrunk: Floats = (sums + prior * towards) / (seen + prior)
    return shrunk
