"""Jobs that wait for other jobs: what they may name, and what becomes of them as those end.

A job waits until every job that it names has ended as it needs. As the last one does, it is queued,
in the same transaction; as one ends otherwise, it is canceled, and so is what waits for it in turn.
Only jobs that exist can be named, so nothing waits for itself. A flow comes to wait for the jobs
that it has submitted itself in the same way, for their end of any kind.

Theory of the locks. Who submits locks the rows that it names, so that none of them ends between the
look and the storing. Who ends a job has its row, then locks its dependants in the order of arrival,
and only then the budgets: of two that end the last two dependencies of a job, the second sees what
the first has written. What canceled dependants held is given back together with what the ended jobs
held, in one call, for two could lock their budgets in a circle with another's.
"""

import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection

from billing.services.sets import array
from scheduling.core.states import ENDED_JOBS, JobEvent, JobState, job_sources
from scheduling.core.types import Reason
from scheduling.models import JobDependency
from scheduling.services.drafts import Draft, FieldError, Refused
from scheduling.services.settlement_rows import deferred_wake
from scheduling.services.stories import Told, events_write
from tenants.controls import NO_VERSION, VERSION_SQL, Version
from tenants.prepared import prepared

_CAN_END = sorted(job_sources(JobEvent.CANCEL) - {JobState.RUNNING})
_MOMENT = f"""
SELECT clock.number, clock.writer, own.waited FROM (
    SELECT EXISTS (
        SELECT 1 FROM scheduling_jobdependency WHERE on_id = ANY(%s::uuid[]) AND open
    ) AS waited
) own LEFT JOIN ({VERSION_SQL}) clock ON true
"""  # noqa: S608 (no value is put in)
_NAMED = """
SELECT id, state FROM scheduling_job WHERE id = ANY(%s::uuid[]) AND tenant_id = %s
ORDER BY seq FOR SHARE
"""
_DEPENDANTS = """
SELECT d.id, d.job_id, d.on_id, d.condition, j.tenant_id, j.state
FROM scheduling_jobdependency d JOIN scheduling_job j ON j.id = d.job_id
WHERE d.on_id = ANY(%s::uuid[]) AND d.open
ORDER BY j.seq, d.id FOR UPDATE OF j
"""
_MEET = "UPDATE scheduling_jobdependency SET open = false WHERE id = ANY(%s)"
_QUEUE = """
UPDATE scheduling_job j SET state = 'queued', reason = 'in_order', changed = pg_current_xact_id()
WHERE j.id = ANY(%s::uuid[]) AND j.state = 'waiting'
  AND j.reason IN ('dependency', 'waiting_on_child')
  AND NOT EXISTS (SELECT 1 FROM scheduling_jobdependency d WHERE d.job_id = j.id AND d.open)
RETURNING j.id, j.tenant_id
"""
_CANCEL = """
UPDATE scheduling_job SET state = 'canceled', reason = 'dependency', finished_at = %s,
    wake_at = NULL, changed = pg_current_xact_id(), cancel_requested = true
WHERE id = ANY(%s::uuid[])
"""


@dataclass(slots=True, kw_only=True)
class Fallout:
    """What follows from jobs that end: dependencies that are met, and jobs that can never run.

    `touched` are the jobs whose dependencies are met; `lost` says of each job that is to be
    canceled its tenant, and which job it waited for in vain.
    """

    met: list[int] = field(default_factory=list)
    touched: list[uuid.UUID] = field(default_factory=list)
    lost: dict[uuid.UUID, tuple[uuid.UUID, uuid.UUID]] = field(default_factory=dict)


def dependencies_bind(
    checked: Sequence[Draft | Refused], tenant_id: uuid.UUID
) -> list[Draft | Refused]:
    """Look up what the drafts come after, and lock it; one that names a wrong job is refused."""
    ids = {one.job for draft in checked if isinstance(draft, Draft) for one in draft.after}
    if not ids:
        return list(checked)
    with connection.cursor() as cursor:
        cursor.execute(_NAMED, [array(ids), tenant_id])
        states = {job: JobState(state) for job, state in cursor.fetchall()}
    return [_bound(one, states) if isinstance(one, Draft) else one for one in checked]


def dependencies_store(drafts: Sequence[Draft]) -> None:
    """Store what the jobs of the drafts wait for; the jobs are stored already."""
    rows = [
        JobDependency(job=draft.job, on_id=one.job, condition=one.condition, open=waits)
        for draft in drafts
        for one, waits in zip(draft.after, draft.waits, strict=True)
    ]
    if rows:
        JobDependency.objects.bulk_create(rows)


def open_dependencies(job_ids: Collection[uuid.UUID]) -> Counter[uuid.UUID]:
    """Return how many jobs each of these jobs still waits for."""
    rows = JobDependency.objects.filter(job__in=job_ids, open=True)
    return Counter(rows.order_by().values_list("job_id", flat=True))


def version_and_waited(job_ids: Collection[uuid.UUID]) -> tuple[Version, bool]:
    """Return where the control clock stands, and whether anything waits for any of the jobs.

    The jobs must be locked already, by an earlier statement: what names them then is seen.
    """
    with prepared() as cursor:
        cursor.execute(_MOMENT, [array(job_ids)])
        number, writer, waited = cursor.fetchone()
    return (NO_VERSION if number is None else (number, writer)), waited


def dependants_lock(ended: Mapping[uuid.UUID, bool]) -> Fallout:
    """Lock all that waits for jobs that end (True: done), and say what becomes of it.

    The ended jobs must be locked already. Costs one look at an index where nothing waits for them.
    """
    fallout, wave = Fallout(), dict(ended)
    while wave:
        wave = _wave(wave, fallout)
    return fallout


def dependants_settle(fallout: Fallout, now: datetime) -> None:
    """Write what `dependants_lock` found: queue what waits no more, cancel what never can run.

    The caller gives back what the lost ones held, with its own jobs'.
    """
    told: list[Told] = []
    with connection.cursor() as cursor:
        if fallout.met:
            cursor.execute(_MEET, [fallout.met])
            cursor.execute(_QUEUE, [array(set(fallout.touched) - fallout.lost.keys())])
            told += [_queued(job, tenant) for job, tenant in cursor.fetchall()]
        if fallout.lost:
            cursor.execute(_CANCEL, [now, array(fallout.lost)])
            told += [_canceled(job, *why) for job, why in fallout.lost.items()]
    events_write(told)
    if fallout.lost:
        deferred_wake({tenant for tenant, _ in fallout.lost.values()}, now)


def _wave(ended: Mapping[uuid.UUID, bool], fallout: Fallout) -> dict[uuid.UUID, bool]:
    """Note what waits for these jobs; returns the jobs that end in their turn."""
    with connection.cursor() as cursor:
        cursor.execute(_DEPENDANTS, [array(ended)])
        rows = cursor.fetchall()
    ending: dict[uuid.UUID, bool] = {}
    for dependency, job, on, condition, tenant, state in rows:
        if ended[on] or condition == "ended":
            fallout.met.append(dependency)
            fallout.touched.append(job)
        elif state in _CAN_END and job not in fallout.lost:
            fallout.lost[job] = tenant, on
            ending[job] = False
    return ending


def _bound(draft: Draft, states: Mapping[uuid.UUID, JobState]) -> Draft | Refused:
    errors = []
    for place, one in enumerate(draft.after):
        state = states.get(one.job)
        if state is None:
            sentence = f"There is no job {one.job} in this tenant."
        elif state in ENDED_JOBS - {JobState.DONE} and one.condition == "done":
            sentence = (
                f"Job {one.job} is {state} already and will not be done; name another, or wait for "
                "it with the condition 'ended'."
            )
        else:
            continue
        errors.append(FieldError(field=f"after[{place}]", sentence=sentence))
    if errors:
        return Refused(errors=tuple(errors))
    draft.waits = tuple(states[one.job] not in ENDED_JOBS for one in draft.after)
    draft.open_dependencies = sum(draft.waits)
    return draft


def _queued(job: uuid.UUID, tenant: uuid.UUID) -> Told:
    return Told(job_id=job, tenant_id=tenant, event="queued", reason=Reason.IN_ORDER)


def _canceled(job: uuid.UUID, tenant: uuid.UUID, on: uuid.UUID) -> Told:
    data = {"on": str(on)}
    return Told(job_id=job, tenant_id=tenant, event="canceled", reason=Reason.DEPENDENCY, data=data)
