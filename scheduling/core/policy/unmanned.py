"""The waiting jobs that need a slot and no worker of ours: calls of library users, and reviews.

They may start while all workers are busy, so a cycle asks for what they ask before it gives up.
"""

from collections.abc import Iterable

from scheduling.core.order.order import Order
from scheduling.core.types import Job

Asks = tuple[object, ...]


def asks_of(job: Job) -> Asks:
    """Return all that a job's candidates depend on."""
    offered = job.kind, job.model, job.region, job.labels, job.tools
    where = job.data_class, job.compute_class, job.places, job.tenant, job.workspace
    return *offered, *where, job.by_worker


class Unmanned:
    """These jobs, by what they ask for."""

    def __init__(self) -> None:
        """Start with none."""
        self._asks: dict[str, Asks] = {}
        self._alike: dict[Asks, dict[str, Job]] = {}

    def add(self, job: Job) -> None:
        """Note a job that waits, if it is one of them; told again, with its newer facts."""
        self.drop(job.id)
        if not job.by_worker:
            asks = self._asks[job.id] = asks_of(job)
            self._alike.setdefault(asks, {})[job.id] = job

    def drop(self, job_id: str) -> None:
        """Forget a job that waits no more, if it was one of them."""
        asks = self._asks.pop(job_id, None)
        if asks is not None:
            alike = self._alike[asks]
            del alike[job_id]
            if not alike:
                del self._alike[asks]

    def of_each(self) -> Iterable[Job]:
        """Yield one job of all that ask for the same."""
        return (next(iter(jobs.values())) for jobs in self._alike.values())

    def within(self, order: Order) -> "Unmanned":
        """Return those that the order holds."""
        found = Unmanned()
        for jobs in self._alike.values():
            for job in jobs.values():
                if job.id in order:
                    found.add(job)
        return found
