"""How far an ETA may be trusted: its range, its score, and the naive formula to beat.

The range of an ETA is drawn from recent experience: of each job that ended, the ratio of its actual
to its predicted wait. The 10 % and 90 % quantiles of the ratios, times the predicted wait, bound an
80 % range. The quantiles are those of split conformal prediction (Vovk, Gammerman and Shafer 2005;
Romano, Patterson and Candes 2019): with n ratios the k-th smallest, k = floor((n + 1) x 0.1) from
either end, holds its level for the next exchangeable job without any assumption on their shape.
Below `FEWEST` ratios a documented wide range is used instead.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

from msgspec import Struct

FEWEST = 20
FALLBACK = (0.5, 2.0)
SLACK_S = 1.0
_TAIL = 0.1


class Calibration(Struct, frozen=True, kw_only=True):
    """The ratios of actual to predicted wait that bound 80 % of recent jobs; `samples` behind."""

    low: float = FALLBACK[0]
    high: float = FALLBACK[1]
    samples: int = 0

    def around(self, eta: float, now: float) -> tuple[float, float]:
        """Return the range (from, to) of an `eta`, epoch seconds; it never begins before `now`.

        It reaches at least `SLACK_S` to either side: no estimate is finer than the steps in which
        work is placed and settled.
        """
        wait = max(0.0, eta - now)
        low, high = min(wait * self.low, wait - SLACK_S), max(wait * self.high, wait + SLACK_S)
        return now + max(0.0, low), now + high


def calibrated(ratios: Iterable[float]) -> Calibration:
    """Return the calibration by recent `ratios`; those that are no positive number are left out."""
    ordered = sorted(ratio for ratio in ratios if isfinite(ratio) and ratio > 0)
    low, high = bounds(ordered)
    return Calibration(low=low, high=high, samples=len(ordered))


def bounds(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the bounds of 80 % of recent ratios that are positive numbers, in order."""
    if len(ratios) < FEWEST:
        return FALLBACK
    rank = int((len(ratios) + 1) * _TAIL)
    return ratios[rank - 1], ratios[-rank]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A prediction that came due: the waits in seconds that were predicted and measured."""

    predicted_s: float
    low_s: float
    high_s: float
    actual_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How good the predictions were; `bias_s` is positive when they were too late."""

    count: int
    mean_error_s: float
    bias_s: float
    hit_rate: float


def score(checked: Sequence[Checked]) -> Score | None:
    """Return mean absolute error, bias and the share inside the range; None without any."""
    if not checked:
        return None
    errors = [one.predicted_s - one.actual_s for one in checked]
    hits = [one.low_s <= one.actual_s <= one.high_s for one in checked]
    return Score(
        count=len(checked),
        mean_error_s=fmean(map(abs, errors)),
        bias_s=fmean(errors),
        hit_rate=fmean(hits),
    )


def naive_s(pending: int, average_s: float, capacity: int) -> float:
    """Return the seconds until a backlog is done by pending x average / capacity: the bad formula.

    It knows neither order nor cost nor what runs already; it is kept to be compared with. Raise
    `ValueError` for a capacity below 1.
    """
    if capacity < 1:
        message = "The naive formula needs a capacity of at least 1."
        raise ValueError(message)
    return pending * average_s / capacity


def expectation(
    workflow_s: float | None, tenant_s: float | None, default_s: float
) -> tuple[float, str]:
    """Return the expected run time in seconds and what it is the mean of.

    The mean of the last runs of the tenant's workflow, else of the tenant, else the policy's
    default; named "workflow", "tenant" or "default".
    """
    if workflow_s is not None:
        return workflow_s, "workflow"
    if tenant_s is not None:
        return tenant_s, "tenant"
    return default_s, "default"
