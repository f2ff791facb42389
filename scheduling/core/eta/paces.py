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

from scheduling.core.types import REVIEWS, Job, Live

LAST_RUNS = 20
"""So many of the last runs of a workflow speak for it."""
LAST_OF_ALL = 200
"""So many of the last runs of all speak for a workflow that has none."""
_ALL = None


class Paces:
    """The last runs by workflow, and the run times and ends that follow from them (seconds)."""

    def __init__(self) -> None:
        """Know nothing: every estimate stands as it is."""
        self._runs: dict[str | None, deque[tuple[float, float]]] = {_ALL: deque(maxlen=LAST_OF_ALL)}
        self._tables: dict[str | None, tuple[list[float], list[float]]] = {}

    def learn(self, workflow: str, expected_s: float, ran_s: float) -> None:
        """Count one complete run; one of which nothing was expected says nothing."""
        if expected_s <= 0 or ran_s < 0:
            return
        own = self._runs.setdefault(workflow, deque(maxlen=LAST_RUNS))
        for runs in (own, self._runs[_ALL]):
            runs.append((expected_s, ran_s))
        self._tables.pop(workflow, None)
        self._tables.pop(_ALL, None)

    def run_s(self, one: Job | Live) -> float:
        """Return the seconds that a run should take in all, before anything is known of it."""
        factors = self._table(one)[1]
        return one.expected_s * factors[0] if factors else one.expected_s

    def end(self, live: Live, now: float) -> float:
        """Return when a run under way should end (epoch seconds), never before `now`."""
        if live.expected_s <= 0:
            return max(now, live.started_at)
        ratios, factors = self._table(live)
        passed = bisect_right(ratios, (now - live.started_at) / live.expected_s)
        factor = factors[passed] if passed < len(factors) else 1.0
        return max(now, live.started_at + live.expected_s * factor)

    def _table(self, one: Job | Live) -> tuple[list[float], list[float]]:
        """Return the ratios that speak for a run, in order, and the factor of each and all above.

        How long a workflow's work takes says nothing of how long its review does.
        """
        if one.class_name == REVIEWS.name:
            return [], []
        key = one.workflow if one.workflow in self._runs else _ALL
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = _tabled(self._runs[key])
        return found


def _tabled(runs: deque[tuple[float, float]]) -> tuple[list[float], list[float]]:
    by_ratio = sorted((ran / expected, expected, ran) for expected, ran in runs)
    factors: list[float] = []
    expected_sum = ran_sum = 0.0
    for _, expected, ran in reversed(by_ratio):
        expected_sum += expected
        ran_sum += ran
        factors.append(ran_sum / expected_sum)
    return [ratio for ratio, _, _ in by_ratio], factors[::-1]
