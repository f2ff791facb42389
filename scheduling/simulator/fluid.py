"""A quick guess at what stands before a job: its class as a fluid that tenants share by weight.

Theory. In the fluid limit a fair queue is generalised processor sharing (Parekh and Gallager 1993):
by the time at which a tenant's own work is done, another has been served as much by weight, or all
that it has. So a new job's tenant, with own work W and weight w, stands behind min(W_u, w_u W / w) of
the work of every other tenant u, and behind all work of higher classes. Work is in unit-seconds.
"""

from array import array

import numpy as np

_LEAST = 1e-9


class Fluid:
    """The waiting work of one class of a pool by tenant."""

    __slots__ = ("_counts", "_numbers", "_weights", "_work", "total", "waiting")

    def __init__(self) -> None:
        """Start with nothing waiting."""
        # Not numpy's arrays: in these a single number is changed a few times as fast.
        self._numbers: dict[str, int] = {}
        self._work = array("d")
        self._counts = array("d")
        self._weights = array("d")
        self.total = 0.0
        self.waiting = 0

    def add(self, tenant: str, weight: int, count: int, work: float) -> None:
        """Count so many more jobs of a tenant (fewer when negative) and their work."""
        number = self._numbers.get(tenant)
        if number is None:
            number = self._numbers[tenant] = len(self._numbers)
            for each in (self._work, self._counts, self._weights):
                each.append(0.0)
        self._weights[number] = weight
        self._counts[number] += count
        self._work[number] += work
        self.total += work
        self.waiting += count

    def own(self, tenant: str) -> int:
        """Return how many jobs of a tenant wait."""
        return int(self._counts[self._numbers[tenant]])

    def ahead(self, tenant: str) -> tuple[int, float]:
        """Return the jobs and the work that are done by the time a tenant's last job is, without
        that job itself but with its share of the others'."""
        number = self._numbers[tenant]
        work, weights, counts = (
            np.frombuffer(each) for each in (self._work, self._weights, self._counts)
        )
        before = np.minimum(work, weights * (work[number] / weights[number]))
        jobs = counts.dot(before / np.maximum(work, _LEAST))
        return max(0, round(jobs) - 1), float(before.sum())
