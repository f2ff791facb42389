"""Jobs that a job submits itself: as its submitter, by the same admission, and waited for.

Theory. A call of a step submits one job, once: the parent's row is locked and its fence compared,
so that a worker that was given up submits nothing any more, and what an earlier try of the same
step has submitted is found by the call's key. If it is what is asked for now, it is taken for it;
if not, it is canceled with all below it, for its answer would go to nobody. Whoever waits is a
dependant of what it waits for (`scheduling.services.dependencies`), so it wakes in the transaction
in which the last of its jobs ends.
"""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from typing import Any

from django.db import transaction
from django.db.models import CharField, Value
from django.db.models.functions import Cast, Concat

from scheduling.core.states import ENDED_JOBS, JobState
from scheduling.models import Decision, Job, JobDependency, PolicyVersion
from scheduling.services.cancel import below_lock, jobs_stop
from scheduling.services.drafts import Lineage, Refused, Submission
from scheduling.services.rights import rights_of
from scheduling.services.submission import Accepted, jobs_submit
from tenants.submitters import principal_named

_END = ("id", "state", "reason", "result", "error")
_FORGOTTEN = {"state": "forgotten"}
_SMALLEST = Decimal("1E-10")
"""The least part of a dollar that a ceiling of spend tells."""
MOST_DEPTH = 5
"""How many ancestors a job may have."""


class Superseded(Exception):
    """The attempt is no longer the present one of its job; nothing was submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a call asks for; `key` names the call. Empty: as the parent has it."""

    key: str
    kind: str
    payload: dict[str, Any]
    workflow: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """What is left of a job's ceilings for what it submits; None is no ceiling."""

    spend: Decimal | None = None
    tokens: int | None = None

    def shared(self, among: int) -> "Purse":
        """Return what each of so many jobs may use, rounded down: together no more than this."""
        return Purse(
            spend=None if self.spend is None else _share(self.spend, among),
            tokens=None if self.tokens is None else self.tokens // among,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The job to wait for, or a sentence on why there is none."""

    job: uuid.UUID | None = None
    sentence: str = ""


def _share(spend: Decimal, among: int) -> Decimal:
    return (spend / among).quantize(_SMALLEST, rounding=ROUND_DOWN)


def children_submit(
    *, parent_id: uuid.UUID, fence: int, asks: Sequence[Ask], purse: Purse, now: datetime
) -> list[Submitted]:
    """Submit what the calls of the parent's present step ask for; one answer a call.

    Raises `Superseded` when the attempt with this fence does not run any more.
    """
    kept, stale = _sifted(parent_id, fence, asks)
    if stale:
        _drop(stale, parent_id, fence, now)
    fresh = [ask for ask in asks if ask.key not in kept]
    made = _made(parent_id, fence, fresh, purse, now) if fresh else {}
    return [(kept | made)[ask.key] for ask in asks]


def children_ends(job_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what became of jobs, by id: state, reason, and their result or their error."""
    rows = Job.objects.filter(id__in=job_ids)
    found = {
        str(job): {"state": state, "reason": reason, "result": result, "error": error}
        for job, state, reason, result, error in rows.values_list(*_END)
    }
    return {job_id: {"job": job_id, **found.get(job_id, _FORGOTTEN)} for job_id in job_ids}


@transaction.atomic
def _sifted(
    parent_id: uuid.UUID, fence: int, asks: Sequence[Ask]
) -> tuple[dict[str, Submitted], list[uuid.UUID]]:
    """Find what an earlier try of this step has submitted, and which of it is asked for no more."""
    parent = _present(parent_id, fence)
    rows = Job.objects.filter(parent=parent, parent_call__startswith=f"{parent.step_fence}.")
    asked = {ask.key: ask for ask in asks}
    kept: dict[str, Submitted] = {}
    stale: list[uuid.UUID] = []
    for job in rows.order_by("seq").select_related("workflow"):
        ask = asked.get(job.parent_call)
        if ask is not None and _is_same(job, ask, parent):
            kept[job.parent_call] = _waited_for(job)
        else:
            stale.append(job.id)
    return kept, stale


@transaction.atomic
def _drop(stale: Collection[uuid.UUID], parent_id: uuid.UUID, fence: int, now: datetime) -> None:
    """Cancel jobs with all below them, and free their calls' keys.

    In a transaction of its own: what is given back and what is held anew lock budgets each in
    order, and who ends a job locks it before its parent.
    """
    rows = Job.objects.filter(id__in=stale).order_by("seq")

    def own() -> tuple[list[Job], Job]:
        return list(rows.select_for_update(of=("self",))), _present(parent_id, fence)

    below, (jobs, parent) = below_lock(stale, own)
    rows.order_by().update(parent_call=Concat(Value("~"), Cast("id", CharField())))
    going = [job for job in jobs if job.state not in ENDED_JOBS]
    why = "asked for no more"
    jobs_stop(jobs=[*below, *going], acting_user=parent.submitted_by, reason=why, now=now)


@transaction.atomic
def _made(
    parent_id: uuid.UUID, fence: int, asks: Sequence[Ask], purse: Purse, now: datetime
) -> dict[str, Submitted]:
    parent = _present(parent_id, fence)
    if parent.depth >= MOST_DEPTH:
        sentence = f"A job has at most {MOST_DEPTH} ancestors; do it here instead."
        return {ask.key: Submitted(sentence=sentence) for ask in asks}
    try:
        answers = jobs_submit(
            workspace=parent.workspace,
            submitted_by=parent.submitted_by,
            submissions=[_submission(parent, ask, purse) for ask in asks],
            rights=rights_of(principal_named(parent.submitted_by), parent.workspace),
            now=now,
        )
    except PolicyVersion.DoesNotExist:
        sentence = "No scheduling policy is published, so nothing can be submitted."
        return {ask.key: Submitted(sentence=sentence) for ask in asks}
    pairs = zip(asks, answers, strict=True)
    return {ask.key: _taken(parent, answer, now) for ask, answer in pairs}


def _present(parent_id: uuid.UUID, fence: int) -> Job:
    """Lock the parent; raise `Superseded` when another attempt of it has taken over."""
    rows = Job.objects.select_related("workspace__tenant", "workflow", "mission")
    parent = rows.select_for_update(of=("self",)).get(id=parent_id)
    if parent.fence != fence or parent.state != JobState.RUNNING or parent.cancel_requested:
        raise Superseded
    return parent


def _is_same(job: Job, ask: Ask, parent: Job) -> bool:
    workflow = ask.workflow or parent.workflow.slug
    mine = (job.kind, job.payload, job.model, job.workflow.slug)
    return mine == (ask.kind, ask.payload, ask.model, workflow)


def _submission(parent: Job, ask: Ask, purse: Purse) -> Submission:
    return Submission(
        workflow=ask.workflow or parent.workflow.slug,
        kind=ask.kind,
        payload=ask.payload,
        model=ask.model,
        mission=parent.mission.slug if parent.mission else "",
        job_class=parent.job_class,
        risk=parent.risk,
        region=parent.region,
        data_class=parent.data_class,
        deadline=parent.deadline,
        max_spend=purse.spend,
        max_tokens=purse.tokens,
        lineage=Lineage(parent=parent.id, call=ask.key, depth=parent.depth + 1),
    )


def _taken(parent: Job, answer: Accepted | Refused, now: datetime) -> Submitted:
    """Wait for a job that is admitted; take back one that is not yet, for nobody would wait."""
    if isinstance(answer, Refused):
        told = " ".join(f"{one.field}: {one.sentence}" for one in answer.errors)
        return Submitted(sentence=f"The job is not valid. {told}")
    job, decision = answer.job, answer.decision
    if job.state in (JobState.QUEUED, JobState.WAITING):
        JobDependency.objects.create(job=parent, on=job, condition="ended", open=True)
        return Submitted(job=job.id)
    if job.state == JobState.DEFERRED:
        locked = list(Job.objects.filter(id=job.id).select_for_update(of=("self",)))
        jobs_stop(jobs=locked, acting_user=parent.submitted_by, reason="deferred", now=now)
    return Submitted(sentence=f"The job was {decision.verdict}: {decision.sentence}")


def _waited_for(job: Job) -> Submitted:
    """Return a job that an earlier try submitted: to wait for, or with the verdict on it."""
    if JobDependency.objects.filter(on=job, job=job.parent_id).exists():
        return Submitted(job=job.id)
    decision = Decision.objects.filter(job=job).order_by("-id").first()
    verdict = decision.sentence if decision else ""
    return Submitted(sentence=f"The job was not taken: {verdict}")
