"""What the order as it stands cannot tell of a wait: who will come, and what that does.

The fast-forward of an order knows no arrivals to come, so where a fair order lets others' later jobs
go before a tenant's long line, it is too hopeful; where run times are skewed, it errs either way. So
several guesses stand beside each other, and for each workflow the one is told that erred least in its
last `JUDGED` starts (the follow-the-leader rule of prediction with expert advice, Cesa-Bianchi and
Lugosi 2006): the wait as it was found; the same, corrected by the recent ratio of actual to found
waits, or by the root of it; and the tenant's jobs ahead at the pace at which the tenant was served.
"""

from collections import deque
from dataclasses import dataclass, field

from scheduling.simulator.runs import Guess

LAST = 20
JUDGED = 100
PACED = 100
FEWEST_PACED = 10

_POWERS = (0.0, 0.5, 1.0)
_MOST = 50.0
_LEAST_S = 0.001


@dataclass(slots=True)
class Recent:
    """The last values of something, and their sum."""

    values: deque[float] = field(default_factory=lambda: deque(maxlen=LAST))
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


def _judged() -> list[Recent]:
    return [Recent(deque(maxlen=JUDGED)) for _ in range(len(_POWERS) + 1)]


@dataclass(slots=True)
class Drift:
    """How the waits of a workflow came out in relation to what was found."""

    _actual: Recent = field(default_factory=Recent)
    _found: Recent = field(default_factory=Recent)
    _errors: list[Recent] = field(default_factory=_judged)

    def guess(self, found_s: float, paced_s: float, run_s: float, now: float) -> Guess:
        """Return the guesses on a wait with the best; `run_s`, a usual run time, steadies them."""
        steady = max(run_s, _LEAST_S)
        ratio = min(_MOST, (self._actual.total + steady) / (self._found.total + steady))
        told = (*(found_s * ratio**power for power in _POWERS), paced_s)
        best = min(range(len(told)), key=lambda one: self._errors[one].total)
        return Guess(at=now, told_s=told, best_s=told[best])

    def learn(self, guess: Guess, now: float) -> None:
        """Judge the guesses by the start that came."""
        actual = now - guess.at
        self._actual.add(actual)
        self._found.add(guess.told_s[0])
        for errors, told in zip(self._errors, guess.told_s, strict=True):
            errors.add(abs(told - actual))


class Pace:
    """When the last jobs of a tenant were placed."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        """Start with none."""
        self._times: deque[float] = deque(maxlen=PACED)

    def placed(self, now: float) -> None:
        """Count a placement."""
        self._times.append(now)

    def wait_s(self, ahead: int, now: float) -> float | None:
        """Return how long so many jobs take at this pace; None: too few were placed to tell."""
        count = min(len(self._times), max(FEWEST_PACED, ahead))
        if count < FEWEST_PACED:
            return None
        return ahead * (now - self._times[-count]) / count
