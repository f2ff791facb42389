"""Submitting jobs: checked, admitted, stored and told, in sets of some 500 rows a transaction."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from scheduling.core.states import JobState
from scheduling.events import nudge_on_commit
from scheduling.models import Decision, Job
from scheduling.services.admission import Judged, decision_of, judge
from scheduling.services.catalogue import Catalogue, catalogue_load
from scheduling.services.drafts import Draft, Refused, Submission, draft
from scheduling.services.rows import rows_copy
from scheduling.services.stories import Told, events_write
from tenants.models import Workspace

SET_ROWS = 500


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
    may_ask: Collection[str],
    now: datetime,
) -> list[Accepted | Refused]:
    """Submit jobs to a workspace; one answer each, in the order given.

    `may_ask` are the classes that the submitter may name. A bad submission is refused and stores
    nothing; the others are stored all the same.
    """
    catalogue = catalogue_load(workspace, now)
    answers: list[Accepted | Refused] = []
    for start in range(0, len(submissions), SET_ROWS):
        checked = [
            draft(asked, catalogue, submitted_by=submitted_by, may_ask=may_ask)
            for asked in submissions[start : start + SET_ROWS]
        ]
        answers += _store(checked, catalogue, now)
    return answers


@transaction.atomic
def _store(
    checked: Sequence[Draft | Refused], catalogue: Catalogue, now: datetime
) -> list[Accepted | Refused]:
    judged = judge([one for one in checked if isinstance(one, Draft)], catalogue, now)
    jobs = [one.draft.job for one in judged]
    decisions = [decision_of(one, catalogue, now) for one in judged]
    rows_copy(jobs)
    _read_arrivals(jobs)
    rows_copy(decisions)
    events_write(_told(one) for one in judged)
    if any(job.state == JobState.QUEUED for job in jobs):
        nudge_on_commit()
    stored = (
        Accepted(job=job, decision=decision) for job, decision in zip(jobs, decisions, strict=True)
    )
    return [next(stored) if isinstance(one, Draft) else one for one in checked]


def _read_arrivals(jobs: Sequence[Job]) -> None:
    """Read back what the database gave the jobs: arrival number and time."""
    rows = Job.objects.filter(id__in=[job.id for job in jobs]).order_by()
    given = {job_id: (seq, at) for job_id, seq, at in rows.values_list("id", "seq", "submitted_at")}
    for job in jobs:
        job.seq, job.submitted_at = given[job.id]


def _told(judged: Judged) -> Told:
    job, answer = judged.draft.job, judged.answer
    return Told(
        job_id=job.id,
        tenant_id=job.tenant_id,
        event=answer.verdict,
        reason=answer.reason,
        data={"sentence": answer.sentence, "spend": str(judged.spend)},
    )
