"""What the order as it stands cannot tell of a wait: who will come, and what that does.

The fast-forward of an order knows no arrivals to come, so where a fair order lets others' later jobs
go before a tenant's long line, it is too hopeful; where run times are skewed, it errs either way. So
several guesses stand beside each other, and for each workflow the one is told that erred least in its
last `JUDGED` starts (the follow-the-leader rule of prediction with expert advice, Cesa-Bianchi and
Lugosi 2006): the wait as it was found; the same, corrected by the recent ratio of actual to found
waits, or by the root of it; and the tenant's jobs ahead at the pace at which the tenant was served.
"""

from collections import deque

from scheduling.simulator.runs import Guess

LAST = 20
JUDGED = 100
PACED = 100
FEWEST_PACED = 10

_POWERS = (0.0, 0.5, 1.0)
_NO_ERRORS = (0.0,) * (len(_POWERS) + 1)
_MOST = 50.0
_LEAST_S = 0.001


class Drift:
    """How the waits of a workflow came out in relation to what was found."""

    __slots__ = ("_actual", "_errors", "_found", "_judged")

    def __init__(self) -> None:
        """Start with nothing learnt."""
        self._actual: deque[float] = deque(maxlen=LAST)
        self._found: deque[float] = deque(maxlen=LAST)
        self._judged: deque[tuple[float, ...]] = deque(maxlen=JUDGED)
        self._errors = [0.0] * (len(_POWERS) + 1)

    def guess(self, found_s: float, paced_s: float, run_s: float, now: float) -> Guess:
        """Return the guesses on a wait with the best; `run_s`, a usual run time, steadies them."""
        steady = max(run_s, _LEAST_S)
        ratio = min(_MOST, (sum(self._actual) + steady) / (sum(self._found) + steady))
        told = (*(found_s * ratio**power for power in _POWERS), paced_s)
        errors = self._errors
        return Guess(at=now, told_s=told, best_s=told[errors.index(min(errors))])

    def learn(self, guess: Guess, now: float) -> None:
        """Judge the guesses by the start that came."""
        actual = now - guess.at
        self._actual.append(actual)
        self._found.append(guess.told_s[0])
        judged = self._judged
        gone = judged[0] if len(judged) == JUDGED else _NO_ERRORS
        fresh = tuple([abs(told - actual) for told in guess.told_s])
        judged.append(fresh)
        self._errors = [
            total - old + new for total, old, new in zip(self._errors, gone, fresh, strict=True)
        ]


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
