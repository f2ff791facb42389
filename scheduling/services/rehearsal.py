"""Verdicts that are only asked for: admission itself, in a transaction that is always undone.

The rules, the prices, the budgets under their locks are those of a submission, so what is said here
is what a submission at this moment would be told. The locks last as long as the asking. Nothing is
stored, told, held or nudged.
"""

from copy import copy
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import transaction

from billing.services.standing import BudgetStanding, budgets_standing
from scheduling.core.admission import Facts
from scheduling.core.capacity.room import ceiling
from scheduling.core.states import JobState, Phase
from scheduling.core.types import ClassRule, Reason
from scheduling.models import Decision, Job
from scheduling.selectors.explanation.scene import Rehearsed
from scheduling.selectors.policy import core_pool
from scheduling.services.admission import decision_of, expires_at_of, judge
from scheduling.services.backlog import weighed
from scheduling.services.catalogue import Catalogue, catalogue_load
from scheduling.services.dependencies import dependencies_bind, open_dependencies
from scheduling.services.drafts import Draft, Refused, Rights, Submission, draft
from scheduling.services.scopes import chain_of
from tenants.models import Workspace
from tenants.prepared import Writes

_BY_COUNT = (Reason.BACKLOG_FULL, Reason.SHED, Reason.CLASS_QUOTA)
_ASKED_ANEW = (JobState.DEFERRED, JobState.DENIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a submission would be told: the decision, the job as it would be, and the money (USD)
    that it would reserve."""

    decision: Decision
    job: Job
    rehearsed: Rehearsed
    spend: Decimal


def job_rehearse(
    *,
    workspace: Workspace,
    submitted_by: str,
    submission: Submission,
    rights: Rights,
    now: datetime,
) -> Decision | Refused:
    """Return the decision of a `job_rehearse_whole`, or every error of it."""
    found = job_rehearse_whole(
        workspace=workspace,
        submitted_by=submitted_by,
        submission=submission,
        rights=rights,
        now=now,
    )
    return found if isinstance(found, Refused) else found.decision


@transaction.atomic
def job_rehearse_whole(
    *,
    workspace: Workspace,
    submitted_by: str,
    submission: Submission,
    rights: Rights,
    now: datetime,
) -> Rehearsal | Refused:
    """Return the decision on a submission, or every error of it; no such job is made.

    `rights` are as for a submission. The decision names no reservation: none is
    held. Raises `PolicyVersion.DoesNotExist`.
    """
    catalogue = catalogue_load(workspace, now, counted=True)
    drafted = draft(submission, catalogue, submitted_by=submitted_by, rights=rights, now=now)
    if isinstance(drafted, Refused):
        return drafted
    catalogue = weighed(catalogue, [drafted])
    (found,) = dependencies_bind([drafted], workspace.tenant_id)
    if isinstance(found, Refused):
        return found
    (judged,) = judge([found], catalogue, now, Writes())
    decision = decision_of(judged, catalogue, now)
    decision.reservation_id = decision.expires_at = None
    transaction.set_rollback(True)
    rehearsed = Rehearsed(facts=judged.facts, answer=judged.answer, budgets=())
    return Rehearsal(
        decision=decision, job=judged.draft.job, rehearsed=rehearsed, spend=judged.spend
    )


@transaction.atomic
def job_rehearse_again(job: Job, now: datetime) -> Rehearsed:
    """Return how admission stands now for a job that is stored; the row is not changed.

    A deferred or denied job is judged anew, against the backlog only if that turned it away. Of any
    other it is told what may have changed since it was let in. Raises `PolicyVersion.DoesNotExist`.
    """
    as_new = job.state == JobState.DENIED and job.reason in _BY_COUNT
    catalogue = catalogue_load(job.workspace, now, counted=as_new)
    asked = _draft(job, catalogue)
    if job.state not in _ASKED_ANEW:
        facts = _let_in(job, asked, catalogue, now)
        return Rehearsed(facts=facts, answer=None, budgets=_budgets(job, now))
    if as_new:
        catalogue = weighed(catalogue, [asked])
    writes = Writes() if as_new else None
    (judged,) = judge([asked], catalogue, now, writes)
    if writes is not None:
        writes.run()  # so that the budgets tell what it would hold of them
    found = Rehearsed(facts=judged.facts, answer=judged.answer, budgets=_budgets(job, now))
    transaction.set_rollback(True)
    return found


def _draft(job: Job, catalogue: Catalogue) -> Draft:
    policy = catalogue.policy
    rule = policy.class_named(job.job_class) or policy.class_named(policy.default_class)
    return Draft(
        job=copy(job),
        workflow=job.workflow,
        rule=rule or ClassRule(name=job.job_class),
        cost=(job.cost or job.workflow.cost) if job.phase == Phase.WORK else 0,
        not_before=job.wake_at if job.reason == Reason.NOT_BEFORE else None,
        bound_by_quota=True,
        open_dependencies=open_dependencies([job.id])[job.id],
    )


def _let_in(job: Job, asked: Draft, catalogue: Catalogue, now: datetime) -> Facts:
    is_work = job.phase == Phase.WORK
    return Facts(
        now=now.timestamp(),
        cost=asked.cost,
        most=ceiling(core_pool(job.pool), uses_reserve=asked.rule.uses_reserve),
        deadline=job.deadline.timestamp() if job.deadline and is_work else None,
        expires_at=expires_at_of(job),
        tenant_held=catalogue.settings.held and is_work,
        open_dependencies=max(asked.open_dependencies, int(job.reason == Reason.DEPENDENCY)),
    )


def _budgets(job: Job, now: datetime) -> tuple[BudgetStanding, ...]:
    return tuple(
        budgets_standing(job_id=job.id, tenant_id=job.tenant_id, chain=chain_of(job), now=now)
    )
