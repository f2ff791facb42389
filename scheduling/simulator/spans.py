"""The series of a watched run as a chart takes them: points over the run's time, and its ticks."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import ceil

from scheduling.simulator.grid import BINS
from scheduling.simulator.sentences import span
from scheduling.simulator.watching import ALL_SERVED, Watch

_DAY_S = 86_400
_STEPS = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12)),
    *(_DAY_S * days for days in (1, 2, 7, 14, 28, 91, 182, 364, 1820)),
)
_WINDOWS = 24
_PLACED_OF_EACH = 10


class Spans:
    """A closed watch, read in the bins that its time fills."""

    def __init__(self, watch: Watch) -> None:
        """Read the watch, which must be closed."""
        self._grid = watch.grid
        self._placed_count = watch.placed
        self.length = max(watch.now, 1e-9)
        self._count = min(BINS, max(1, ceil(self.length / self._grid.width)))
        self.tenants = tuple(
            sorted(
                {*self._grid.keys("depth"), *self._grid.keys("use")},
                key=lambda name: (-sum(self._grid.sums(("use", name))), name),
            )
        )
        """Those that had anything to run, the most served first."""
        self.pools = tuple(name for name in self._grid.keys("budget") if name)

    def ticks(self) -> list[tuple[float, str]]:
        """Return (share of the width, text) of some four to seven round times."""
        step = next((one for one in _STEPS if self.length / one <= 6), self.length / 6)
        return [
            (number * step / self.length, span(number * step) if number else "0")
            for number in range(int(self.length / step) + 1)
        ]

    def level(self, kind: str, name: str) -> list[tuple[float, float]]:
        """Return a level's mean over time."""
        return self._placed(self._means(kind, name))

    def served(self, tenant: str) -> list[tuple[float, float]]:
        """Return what a tenant was served up to each time, in its policy's charge per weight."""
        return self._placed(list(accumulate(self._sums(("served", tenant)))))

    def ideal(self) -> list[tuple[float, float]]:
        """Return what a tenant that always waits should have been served per weight.

        Each moment's charge is split by weight among those that wait or are served then.
        """
        weights = [0.0] * self._count
        for tenant in self.tenants:
            depth, served = self._means("depth", tenant), self._sums(("served", tenant))
            for index, weight in enumerate(self._weights(tenant)):
                weights[index] += weight if depth[index] or served[index] else 0
        charges = self._sums(ALL_SERVED)
        steps = (charge / (weight or 1) for charge, weight in zip(charges, weights, strict=True))
        return self._placed(list(accumulate(steps)))

    def utilisation(self, pool: str) -> list[tuple[float, float]]:
        """Return the share of a pool's budget that is in use, in percent."""
        used, budget = self._means("pool", pool), self._means("budget", pool)
        return self._placed([
            100 * units / most if most else 0.0
            for units, most in zip(used, budget, strict=True)
        ])  # fmt: skip

    def jain(self) -> list[tuple[float, float]]:
        """Return Jain's index of each stretch in which two or more tenants waited all through.

        (sum x)^2 / (n sum x^2) of the charge served per weight: 1 is equal, 1/n is one takes all.
        A stretch is long enough for some ten placements of each tenant.
        """
        enough = self._placed_count // (_PLACED_OF_EACH * max(1, len(self.tenants)))
        windows = max(1, min(_WINDOWS, enough))
        edges = sorted({self._count * window // windows for window in range(windows + 1)})
        waits = {tenant: self._means("depth", tenant) for tenant in self.tenants}
        serves = {tenant: self._sums(("served", tenant)) for tenant in self.tenants}
        points = []
        for first, last in pairwise(edges):
            waiting = [name for name in self.tenants if all(waits[name][first:last])]
            shares = [sum(serves[name][first:last]) for name in waiting]
            if len(shares) > 1 and any(shares):
                index = sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))
                points.append(((first + last) / 2 / self._count, index))
        return points

    def _sums(self, key: tuple[str, str]) -> list[float]:
        return self._grid.sums(key)[: self._count]

    def _means(self, kind: str, name: str) -> list[float]:
        """The last bin may be cut by the run's end: its mean is over the part that was."""
        sums, width = self._sums((kind, name)), self._grid.width
        last = self.length - (self._count - 1) * width
        return [*(amount / width for amount in sums[:-1]), sums[-1] / max(last, 1e-9)]

    def _weights(self, tenant: str) -> list[float]:
        """A tenant that the scenario does not name has weight 1."""
        return [weight or 1 for weight in self._means("weight", tenant)]

    def _placed(self, values: Sequence[float]) -> list[tuple[float, float]]:
        steps = max(1, len(values) - 1)
        return [(number / steps, value) for number, value in enumerate(values)]
