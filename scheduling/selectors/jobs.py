"""Reading jobs: one, or a filtered list, within the reach of who asks."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from scheduling.models import Decision, Job
from tenants.rbac import Hidden, Permission, Principal, reach

NAMED = ("tenant", "workspace", "workflow", "mission", "pool")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """What a list is narrowed to; empty fields narrow nothing. `text` is searched for."""

    states: tuple[str, ...] = ()
    tenant: uuid.UUID | None = None
    workspace: uuid.UUID | None = None
    workflow: str = ""
    mission: str = ""
    job_class: str = ""
    kind: str = ""
    text: str = ""

    def rows(self) -> Q:
        """Return the filter of the rows."""
        exact = {
            "state__in": self.states,
            "tenant": self.tenant,
            "workspace": self.workspace,
            "workflow__slug": self.workflow,
            "mission__slug": self.mission,
            "job_class": self.job_class,
            "kind": self.kind,
        }
        return Q(**{name: value for name, value in exact.items() if value}) & _text(self.text)


def jobs_visible(principal: Principal) -> QuerySet[Job]:
    """Return the jobs that the principal may see, with the names that they are shown with."""
    return Job.objects.filter(reach(principal, Permission.VIEW).rows()).select_related(*NAMED)


def jobs_list(principal: Principal, narrow: JobFilter) -> QuerySet[Job]:
    """Return the jobs of a list, without their payloads, checkpoints and results."""
    return jobs_visible(principal).filter(narrow.rows()).defer("payload", "result", "checkpoint")


def job_get(principal: Principal, job_id: uuid.UUID) -> Job:
    """Return one job; raise `Hidden` for an unknown one and for one out of reach alike."""
    job = jobs_visible(principal).filter(id=job_id).first()
    if job is None:
        raise Hidden("job")
    return job


def jobs_get(principal: Principal, job_ids: Collection[uuid.UUID]) -> list[Job]:
    """Return all of the jobs by id; raise `Hidden` when any is unknown or out of reach."""
    found = list(jobs_visible(principal).filter(id__in=job_ids).order_by("id"))
    if len(found) != len(set(job_ids)):
        raise Hidden("job")
    return found


def decision_last(job: Job) -> Decision | None:
    """Return the newest decision on the job."""
    return job.decisions.order_by("-id").first()


def _text(text: str) -> Q:
    """Search by id where the text is one, else in the names that a job is shown with."""
    if not text:
        return Q()
    try:
        return Q(id=uuid.UUID(text))
    except ValueError:
        return (
            Q(workflow__slug__icontains=text)
            | Q(model__icontains=text)
            | Q(submitted_by__icontains=text)
        )
