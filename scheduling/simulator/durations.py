"""How long jobs should run, learnt from those that have run: for estimates alone.

Orders, budgets and backfill go by what a job was expected to take; an estimate of its finish by this.
Where jobs bring an expectation of their own it is scaled by the mean ratio of actual to expected of
the last runs that were submitted alike (the user's, else the workflow's); where they bring none the
mean of the last runs is taken. A try that has run for longer than it should is taken to run half as
long again, though not beyond what it was expected to take.
"""

from collections import deque
from dataclasses import dataclass, field

from scheduling.simulator.runs import Run

LAST_RUNS = 20


@dataclass(slots=True)
class Recent:
    """The last values of something, and their sum."""

    values: deque[float] = field(default_factory=lambda: deque(maxlen=LAST_RUNS))
    total: float = 0.0

    def add(self, value: float) -> None:
        """Take in a value for the oldest of too many."""
        values = self.values
        if len(values) == values.maxlen:
            self.total -= values[0]
        values.append(value)
        self.total += value

    def mean(self) -> float:
        """Return their mean."""
        return max(0.0, self.total) / len(self.values)


class Durations:
    """The recent ratios of actual to expected run time."""

    __slots__ = ("_recent", "count", "total_s")

    def __init__(self) -> None:
        """Start with nothing learnt."""
        self._recent: dict[tuple[str, str], Recent] = {}
        self.count = 0
        self.total_s = 0.0

    def learn(self, run: Run, seconds: float) -> None:
        """Count a placement that was worked to its end."""
        self.count += 1
        self.total_s += seconds
        ratio = seconds / run.core.expected_s
        for key in _keys(run):
            recent = self._recent.get(key)
            if recent is None:
                recent = self._recent[key] = Recent()
            recent.add(ratio)

    def expected(self, run: Run) -> float:
        """Return how long a placement of a job should take."""
        if run.in_review:
            return run.core.expected_s
        for key in _keys(run):
            recent = self._recent.get(key)
            if recent is not None:
                return max(0.001, run.core.expected_s * recent.mean() - run.kept_s)
        return run.core.expected_s

    def left(self, run: Run, now: float) -> float:
        """Return how much longer a live job should take."""
        elapsed, expected = now - run.began, self.expected(run)
        if elapsed < expected:
            return expected - elapsed
        longest = run.core.expected_s - elapsed
        return min(elapsed / 2, longest) if longest > 0 else elapsed / 2

    def mean_s(self, default_s: float) -> float:
        """Return the mean of all runs: what the naive formula takes."""
        return self.total_s / self.count if self.count else default_s


def _keys(run: Run) -> tuple[tuple[str, str], ...]:
    """Return whose runs a job's run is likened to, the closest first."""
    if run.job.user:
        return (run.core.workflow, run.job.user), (run.core.workflow, "")
    return ((run.core.workflow, ""),)
