"""Who holds what a job waits for: counts and times of all, and names of those that may be seen."""

from collections.abc import Iterable, Sequence

from scheduling.core.capacity.room import planned_end
from scheduling.core.types import Job, Live
from scheduling.selectors.explanation.scene import Scene, Told
from scheduling.selectors.queue import moment

NAMED_MOST = 10
"""So many jobs are named, those that end first before all."""


def holders(scene: Scene, held: Iterable[Live]) -> Told:
    """Return what runs: how much of it, since when, when the next and the last should end."""
    ending = sorted(held, key=lambda live: (planned_end(live, scene.now), live.job_id))
    ends = [planned_end(live, scene.now) for live in ending]
    seen = [live for live in ending if scene.sees(live.tenant, live.workspace)]
    return {
        "jobs": len(ending),
        "units": sum(live.cost for live in ending),
        "tenants": len({live.tenant for live in ending}),
        "since": moment(min((live.started_at for live in ending), default=None)),
        "next_end": moment(min(ends, default=None)),
        "last_end": moment(max(ends, default=None)),
        "named": [_live(scene, live) for live in seen[:NAMED_MOST]],
    }


def waiting(scene: Scene, jobs: Sequence[Job]) -> Told:
    """Return jobs that wait in front: how many, for how many units, since when."""
    seen = [job for job in jobs if scene.sees(job.tenant, job.workspace)]
    return {
        "jobs": len(jobs),
        "units": sum(job.cost for job in jobs),
        "tenants": len({job.tenant for job in jobs}),
        "since": moment(min((job.submitted_at for job in jobs), default=None)),
        "named": [_waiting(scene, job) for job in seen[:NAMED_MOST]],
    }


def _live(scene: Scene, live: Live) -> Told:
    return {
        "job": live.job_id,
        "tenant": scene.tenants.get(live.tenant, ""),
        "units": live.cost,
        "since": moment(live.started_at),
        "ends": moment(planned_end(live, scene.now)),
    }


def _waiting(scene: Scene, job: Job) -> Told:
    return {
        "job": job.id,
        "tenant": scene.tenants.get(job.tenant, ""),
        "units": job.cost,
        "since": moment(job.submitted_at),
    }
