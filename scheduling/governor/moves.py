"""Which jobs began and ceased to wait while a full pass was made of what waited before."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gone:
    """A job that waits no more: whose it was, and whether it could have started."""

    tenant: str
    startable: bool


@dataclass(slots=True)
class Moves:
    """Which jobs of a pool began and ceased to wait since a full pass read them.

    `gone` has those that ceased and were among the ones read, each with its tenant and whether it
    could have started.
    """

    arrived: set[str] = field(default_factory=set)
    gone: dict[str, Gone] = field(default_factory=dict)

    def arrive(self, job_id: str) -> None:
        """Note a job that waits now."""
        self.arrived.add(job_id)

    def leave(self, job_id: str, gone: Gone) -> None:
        """Note a job that waits no more; one that came after the pass is in nobody's picture."""
        if job_id not in self.arrived:
            self.gone.setdefault(job_id, gone)

    def followed_by(self, later: "Moves") -> dict[str, Gone]:
        """Return all that is gone by now, `later` being what happened since a second pass began."""
        more = {job: was for job, was in later.gone.items() if job not in self.arrived}
        return self.gone | more
