"""A quick guess at what stands before a job: its class as a fluid that tenants share by weight.

Theory. In the fluid limit a fair queue is generalised processor sharing (Parekh and Gallager 1993):
by the time at which a tenant's own work is done, another has been served as much by weight, or all
that it has. So a new job's tenant, with own work W and weight w, stands behind min(W_u, w_u W / w) of
the work of every other tenant u, and behind all work of higher classes. Work is in unit-seconds.
"""

import numpy as np
from numpy.typing import NDArray

_FIRST_SIZE = 16
_LEAST = 1e-9


class Fluid:
    """The waiting work of one class of a pool by tenant."""

    __slots__ = ("_counts", "_numbers", "_weights", "_work", "total", "waiting")

    def __init__(self) -> None:
        """Start with nothing waiting."""
        self._numbers: dict[str, int] = {}
        self._work: NDArray[np.float64] = np.zeros(_FIRST_SIZE)
        self._counts: NDArray[np.float64] = np.zeros(_FIRST_SIZE)
        self._weights: NDArray[np.float64] = np.ones(_FIRST_SIZE)
        self.total = 0.0
        self.waiting = 0

    def add(self, tenant: str, weight: int, count: int, work: float) -> None:
        """Count so many more jobs of a tenant (fewer when negative) and their work."""
        number = self._numbers.get(tenant)
        if number is None:
            number = self._numbers[tenant] = len(self._numbers)
            if number == len(self._work):
                self._grow()
        self._weights[number] = weight
        self._counts[number] += count
        self._work[number] += work
        self.total += work
        self.waiting += count

    def _grow(self) -> None:
        more = np.zeros(len(self._work))
        self._work = np.concatenate([self._work, more])
        self._counts = np.concatenate([self._counts, more])
        self._weights = np.concatenate([self._weights, more + 1])

    def own(self, tenant: str) -> int:
        """Return how many jobs of a tenant wait."""
        return int(self._counts[self._numbers[tenant]])

    def ahead(self, tenant: str) -> tuple[int, float]:
        """Return the jobs and the work that are done by the time a tenant's last job is, without
        that job itself but with its share of the others'."""
        number, size = self._numbers[tenant], len(self._numbers)
        work, weights = self._work[:size], self._weights[:size]
        before = np.minimum(work, weights * (work[number] / weights[number]))
        jobs = self._counts[:size].dot(before / np.maximum(work, _LEAST))
        return max(0, round(jobs) - 1), float(before.sum())
