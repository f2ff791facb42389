"""Submitting jobs: checked, admitted, stored and told, in sets of some 500 rows a transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.db import transaction

from scheduling.core.states import JobState
from scheduling.events import nudge_on_commit
from scheduling.models import Decision, Job, JobEvent
from scheduling.services.admission import Judged, decision_of, judge
from scheduling.services.backlog import weighed
from scheduling.services.catalogue import Catalogue, Outlook, catalogue_load
from scheduling.services.dependencies import dependencies_bind, dependencies_store
from scheduling.services.drafts import Draft, Refused, Rights, Submission, draft
from scheduling.services.rows import Table, table_of
from scheduling.services.stories import Told
from tenants.models import Workspace
from tenants.prepared import Writes

SET_ROWS = 500
_STORE = "job AS ({} RETURNING seq, submitted_at), decision AS ({}), event AS ({})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A stored job with its stored decision; a denied one is stored too, in state `denied`."""

    job: Job
    decision: Decision


def jobs_submit(
    *,
    workspace: Workspace,
    submitted_by: str,
    submissions: Sequence[Submission],
    rights: Rights,
    now: datetime,
) -> list[Accepted | Refused]:
    """Submit jobs to a workspace; one answer each, in the order given.

    A type of job that the submitter has no right to is denied; a class or a risk is an error. A bad
    submission is refused and stores nothing; the others are stored all the same.
    """
    outlook: Outlook = {}
    answers: list[Accepted | Refused] = []
    for start in range(0, len(submissions), SET_ROWS):
        with transaction.atomic():
            catalogue = catalogue_load(workspace, now, counted=True, outlook=outlook)
            checked = [
                draft(asked, catalogue, submitted_by=submitted_by, rights=rights, now=now)
                for asked in submissions[start : start + SET_ROWS]
            ]
            answers += _decide(checked, catalogue, now)
    return answers


def _decide(
    drafted: Sequence[Draft | Refused], catalogue: Catalogue, now: datetime
) -> list[Accepted | Refused]:
    exact = weighed(catalogue, [one for one in drafted if isinstance(one, Draft)])
    checked = dependencies_bind(drafted, catalogue.workspace.tenant_id)
    writes = Writes()
    judged = judge([one for one in checked if isinstance(one, Draft)], exact, now, writes)
    stored = [
        Accepted(job=one.draft.job, decision=decision_of(one, catalogue, now)) for one in judged
    ]
    if stored:
        _store(stored, [_told(one) for one in judged], writes)
        dependencies_store([one.draft for one in judged])
    if any(one.job.state == JobState.QUEUED for one in stored):
        nudge_on_commit()
    accepted = iter(stored)
    return [next(accepted) if isinstance(one, Draft) else one for one in checked]


def _store(accepted: Sequence[Accepted], told: Sequence[Told], writes: Writes) -> None:
    """Insert jobs, decisions and events together with `writes`; the jobs get their arrivals."""
    jobs = [one.job for one in accepted]
    (job_rows, decisions, events), parts = _storing()
    literals = [
        *job_rows.literals(jobs),
        *decisions.literals([one.decision for one in accepted]),
        *events.literals(told),
    ]
    writes.add(parts, literals)
    arrivals = writes.run("SELECT seq, submitted_at FROM job ORDER BY seq")
    for job, (seq, submitted_at) in zip(jobs, arrivals, strict=True):
        job.seq, job.submitted_at = seq, submitted_at


@lru_cache(maxsize=1)
def _storing() -> tuple[tuple[Table, Table, Table], str]:
    """Return the tables of jobs, decisions and events with what inserts into all of them."""
    tables = table_of(Job), table_of(Decision, "at"), table_of(JobEvent)
    return tables, _STORE.format(*(table.insert for table in tables))


def _told(judged: Judged) -> Told:
    job, answer = judged.draft.job, judged.answer
    return Told(
        job_id=job.id,
        tenant_id=job.tenant_id,
        event=answer.verdict,
        reason=answer.reason,
        data={"sentence": answer.sentence, "spend": str(judged.spend)},
    )
