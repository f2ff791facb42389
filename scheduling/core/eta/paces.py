"""How runs go beside what was expected of them, and what that says of those to come.

Who names a run time names a bound more often than a guess: on the KTH-SP2 log the requested times
are 1.5 times the run times in all, and by user that factor is fairly steady. So an estimate is kept
and put right: times the ratio of what the last runs of the workflow took to what they were expected
to take, as a ratio of sums (the classical ratio estimator, unbiased for the sum of many runs, which
is what a queue waits for; Cochran, "Sampling Techniques", 1977, chapter 6).

A run that is under way has outlived the shorter ones: only those ratios that it has not passed yet
speak for it (the conditional mean of the empirical distribution). One that has outlived them all
is expected to end by its own estimate, or now.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from scheduling.core.types import REVIEWS, Job, Live

LAST_RUNS = 20
"""So many of the last runs of a workflow speak for it."""
LAST_OF_ALL = 200
"""So many of the last runs of all speak for a workflow that has none."""
Table: TypeAlias = tuple[Sequence[float], Sequence[float]]


class _Last:
    """The last runs of a workflow, and what follows from them, found when it is asked for."""

    __slots__ = ("_expected", "_factor", "_ran", "_table")

    def __init__(self, most: int) -> None:
        self._expected: deque[float] = deque(maxlen=most)
        self._ran: deque[float] = deque(maxlen=most)
        self._factor: float | None = None
        self._table: Table | None = None

    def add(self, expected_s: float, ran_s: float) -> None:
        """Take in a run for the oldest of too many."""
        self._expected.append(expected_s)
        self._ran.append(ran_s)
        self._factor = self._table = None

    def factor(self) -> float:
        """Return the ratio of the sums.

        They are added up anew: of running sums one huge run would leave nothing but its rounding.
        """
        if self._factor is None:
            self._factor = sum(self._ran) / sum(self._expected)
        return self._factor

    def table(self) -> Table:
        """Return the ratios in order, and the factor of each with all above."""
        if self._table is None:
            self._table = _tabled(self._expected, self._ran)
        return self._table


class Paces:
    """The last runs by workflow, and the run times and ends that follow from them (seconds)."""

    def __init__(self) -> None:
        """Know nothing: every estimate stands as it is."""
        self._all = _Last(LAST_OF_ALL)
        self._by_workflow: dict[str, _Last] = {}

    def learn(self, workflow: str, expected_s: float, ran_s: float) -> None:
        """Count one complete run; one of which nothing was expected says nothing."""
        if expected_s <= 0 or ran_s < 0:
            return
        own = self._by_workflow.get(workflow)
        if own is None:
            own = self._by_workflow[workflow] = _Last(LAST_RUNS)
        own.add(expected_s, ran_s)
        self._all.add(expected_s, ran_s)

    def run_s(self, one: Job | Live) -> float:
        """Return the seconds that a run should take in all, before anything is known of it."""
        known = self._known(one)
        return one.expected_s if known is None else one.expected_s * known.factor()

    def end(self, live: Live, now: float) -> float:
        """Return when a run under way should end (epoch seconds), never before `now`."""
        if live.expected_s <= 0:
            return max(now, live.started_at)
        known = self._known(live)
        ratios, factors = ((), ()) if known is None else known.table()
        passed = bisect_right(ratios, (now - live.started_at) / live.expected_s)
        factor = factors[passed] if passed < len(factors) else 1.0
        return max(now, live.started_at + live.expected_s * factor)

    def _known(self, one: Job | Live) -> _Last | None:
        """Return the runs that speak for one.

        How long a workflow's work takes says nothing of how long its review does.
        """
        if one.class_name == REVIEWS.name:
            return None
        return self._by_workflow.get(one.workflow) or (self._all if self._by_workflow else None)


def _tabled(expected_s: Iterable[float], ran_s: Iterable[float]) -> Table:
    runs = zip(expected_s, ran_s, strict=True)
    by_ratio = sorted((ran / expected, expected, ran) for expected, ran in runs)
    factors: list[float] = []
    expected_sum = ran_sum = 0.0
    for _, expected, ran in reversed(by_ratio):
        expected_sum += expected
        ran_sum += ran
        factors.append(ran_sum / expected_sum)
    return [ratio for ratio, _, _ in by_ratio], factors[::-1]
