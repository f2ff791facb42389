"""The scopes whose budgets a job counts under, the same from its verdict to its settlement."""

import uuid
from typing import Protocol


class Scoped(Protocol):
    """What says to whom a job belongs: the job's row, or what was read of it."""

    @property
    def id(self) -> uuid.UUID: ...
    @property
    def tenant_id(self) -> uuid.UUID: ...
    @property
    def workspace_id(self) -> uuid.UUID: ...
    @property
    def workflow_id(self) -> uuid.UUID: ...
    @property
    def mission_id(self) -> uuid.UUID | None: ...
    @property
    def submitted_by(self) -> str: ...


def chain_of(job: Scoped) -> tuple[tuple[str, str], ...]:
    """Return the scopes whose budgets the job counts under, outermost first."""
    chain = [
        ("tenant", str(job.tenant_id)),
        ("workspace", str(job.workspace_id)),
        ("member", job.submitted_by),
        ("workflow", str(job.workflow_id)),
    ]
    if job.mission_id:
        chain.append(("mission", str(job.mission_id)))
    return (*chain, ("job", str(job.id)))
