"""Admission with its rows: facts gathered, the pure verdict, the hold on budgets, the decision.

Everything happens in one transaction: the budgets that a verdict was based on stay locked until
the jobs, their reservations, decisions and events stand. Jobs are decided in the order given.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db.models import Count

from billing.services.prices import UnpricedModel, price_estimate
from billing.services.reservations import reserve
from billing.services.verdicts import Refused as BudgetRefused
from billing.services.verdicts import Reserved, ReserveRequest
from scheduling.core import types
from scheduling.core.admission import Answer, Backlog, BudgetRefusal, Facts, admit
from scheduling.core.policy.settings import BacklogCaps, charge_of
from scheduling.core.states import ENDED_JOBS, JobState
from scheduling.core.types import Reason, Verdict
from scheduling.models import Decision, Job
from scheduling.models.job import BACKLOG
from scheduling.services.catalogue import Catalogue
from scheduling.services.drafts import Draft

STATE_OF = {
    Verdict.ADMITTED: JobState.QUEUED,
    Verdict.QUEUED: JobState.QUEUED,
    Verdict.DEFERRED: JobState.DEFERRED,
    Verdict.DENIED: JobState.DENIED,
}


@dataclass(slots=True, kw_only=True)
class Judged:
    """A draft with its answer, and the reservation that funds it."""

    draft: Draft
    facts: Facts
    spend: Decimal
    answer: Answer
    reservation: Reserved | None = None


def judge(
    drafts: Sequence[Draft], catalogue: Catalogue, now: datetime, *, waits_already: bool = False
) -> list[Judged]:
    """Decide on the drafts and hold what the admitted ones need; sets each job's state.

    Must run in the transaction that then stores the jobs. `waits_already`: they are part of the
    backlog, so that a full one is no reason to turn them away.
    """
    waiting = None if waits_already else _backlog_counts(catalogue)
    judged = [_judge_one(one, catalogue, waiting, now) for one in drafts]
    _fund(judged, catalogue, now)
    for one in judged:
        _place(one, catalogue)
        _set_state(one, now)
    return judged


def decision_of(judged: Judged, catalogue: Catalogue, now: datetime) -> Decision:
    """Return the decision's row (not yet stored)."""
    answer, facts = judged.answer, judged.facts
    return Decision(
        job=judged.draft.job,
        verdict=answer.verdict,
        reason=answer.reason,
        sentence=answer.sentence,
        policy=catalogue.policy.number,
        control=catalogue.control,
        reservation_id=judged.reservation.reservation_id if judged.reservation else None,
        expires_at=expiry(now) if judged.reservation else None,
        retry_at=_time(answer.retry_at),
        place=facts.place,
        eta=_time(facts.eta),
        alternatives=list(answer.alternatives),
        at=now,
    )


def expiry(now: datetime) -> datetime:
    """Return when a reservation made now expires unless it is renewed."""
    return now + timedelta(seconds=settings.RESERVATION_LIFE_S)


def core_job(job: Job, cost: int) -> types.Job:
    """Return the job as placement sees it (before it has an arrival number)."""
    return types.Job(
        id=str(job.id),
        seq=0,
        tenant=str(job.tenant_id),
        workspace=str(job.workspace_id),
        submitted_at=0,
        class_name=job.job_class,
        cost=cost,
        kind=job.kind,
        model=job.model,
        region=job.region,
        labels=frozenset(job.labels),
    )


def _judge_one(
    draft: Draft, catalogue: Catalogue, waiting: Counter[str] | None, now: datetime
) -> Judged:
    pool = draft.workflow.pool
    spend, unpriced, no_executor = _price(draft, catalogue, now)
    caps = catalogue.policy.backlog
    facts = Facts(
        now=now.timestamp(),
        cost=draft.cost,
        most=pool.budget if draft.rule.uses_reserve else pool.budget - pool.reserve,
        unpriced_model=unpriced,
        backlogs=_backlogs(waiting, caps) if waiting is not None else (),
        sheddable=draft.rule.sheddable,
        shed_share=caps.shed_share,
        not_before=draft.not_before.timestamp() if draft.not_before else None,
        deadline=draft.job.deadline.timestamp() if draft.job.deadline else None,
        tenant_held=catalogue.workspace.tenant.held,
    )
    answer = _no_executor(draft) if no_executor else admit(facts)
    if waiting is not None and answer.verdict is not Verdict.DENIED:
        waiting.update(("workspace", "tenant", "all"))
    return Judged(draft=draft, facts=facts, spend=spend, answer=answer)


def _backlogs(waiting: Counter[str], caps: BacklogCaps) -> tuple[Backlog, ...]:
    return (
        Backlog(scope="workspace", waiting=waiting["workspace"], cap=caps.workspace),
        Backlog(scope="tenant", waiting=waiting["tenant"], cap=caps.tenant),
        Backlog(scope="all", waiting=waiting["all"], cap=caps.total),
    )


def _price(draft: Draft, catalogue: Catalogue, now: datetime) -> tuple[Decimal, str, bool]:
    """Return (estimated spend, the model without a price or "", whether nothing can run it)."""
    job = draft.job
    offers = catalogue.offers(core_job(job, draft.cost), str(job.pool_id))
    if not offers:
        known = not job.model or catalogue.is_offered(job.model, str(job.pool_id))
        return Decimal(0), "" if known else job.model, known
    seconds = job.expected_s or draft.workflow.expected_s or catalogue.policy.default_expected_s
    try:
        spend = price_estimate(
            offers=offers,
            input_tokens=job.input_tokens,
            output_tokens=job.output_tokens,
            seconds=seconds,
            now=now,
        )
    except UnpricedModel as unpriced:
        return Decimal(0), unpriced.model, False
    return spend, "", False


def _no_executor(draft: Draft) -> Answer:
    return Answer(
        verdict=Verdict.DENIED,
        reason=Reason.NO_EXECUTOR,
        sentence=f"No executor of pool {draft.workflow.pool.slug} runs kind {draft.job.kind} with "
        "these constraints; ask an operator for one, or relax region and labels.",
    )


def _fund(judged: Sequence[Judged], catalogue: Catalogue, now: datetime) -> None:
    funded = [one for one in judged if one.answer.verdict in (Verdict.ADMITTED, Verdict.QUEUED)]
    results = reserve(requests=[_request(one, catalogue, now) for one in funded], now=now)
    for one, result in zip(funded, results, strict=True):
        if isinstance(result, BudgetRefused):
            one.facts = replace(one.facts, refusals=(_refusal(result),))
            one.answer = admit(one.facts)
        else:
            one.reservation = result


def _request(judged: Judged, catalogue: Catalogue, now: datetime) -> ReserveRequest:
    job = judged.draft.job
    seconds = Decimal(str(job.expected_s or judged.draft.workflow.expected_s or 0))
    return ReserveRequest(
        job_id=job.id,
        tenant_id=job.tenant_id,
        workspace_id=job.workspace_id,
        chain=chain_of(job),
        spend=judged.spend,
        tokens=job.input_tokens + job.output_tokens,
        other={"attempts": Decimal(1), "wall_seconds": seconds},
        expires_at=expiry(now),
    )


def chain_of(job: Job) -> tuple[tuple[str, str], ...]:
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


def _refusal(refused: BudgetRefused) -> BudgetRefusal:
    again = refused.retry_at
    return BudgetRefusal(
        scope=refused.scope,
        dimension=refused.dimension,
        limit=refused.limit,
        spent=refused.spent,
        held=refused.held,
        estimate=refused.asked,
        window_ends_at=again.timestamp() if again else None,
    )


def _place(judged: Judged, catalogue: Catalogue) -> None:
    """Say where a funded job will stand; a held tenant's job has no place."""
    if judged.answer.reason is not Reason.IN_ORDER:
        return
    job, cost = judged.draft.job, judged.draft.cost
    foresight = catalogue.foresight[str(job.pool_id)]
    starts = not job.paused and foresight.starts_now(cost)
    seconds = job.expected_s or judged.draft.workflow.expected_s
    expected_s = seconds or catalogue.policy.default_expected_s
    charge = charge_of(
        catalogue.policy,
        cost=cost,
        expected_s=expected_s,
        input_tokens=job.input_tokens,
        output_tokens=job.output_tokens,
    )
    place, eta = foresight.place(
        str(job.tenant_id), job.job_class, charge=charge, expected_s=expected_s
    )
    judged.facts = replace(
        judged.facts, starts_now=starts, place=None if starts else place, eta=eta
    )
    judged.answer = admit(judged.facts)


def _set_state(judged: Judged, now: datetime) -> None:
    job, answer = judged.draft.job, judged.answer
    job.state = STATE_OF[answer.verdict]
    job.reason = answer.reason
    job.wake_at = _time(answer.retry_at) if job.state == JobState.DEFERRED else None
    job.finished_at = now if job.state in ENDED_JOBS else None


def _backlog_counts(catalogue: Catalogue) -> Counter[str]:
    tenant = catalogue.workspace.tenant_id
    rows = dict(
        Job.objects.filter(tenant=tenant, state__in=BACKLOG)
        .order_by()
        .values_list("workspace")
        .annotate(Count("id"))
    )
    counts = Counter(
        {"workspace": rows.get(catalogue.workspace.id, 0), "tenant": sum(rows.values())}
    )
    others = sum(one.header.total for one in catalogue.foresight.values() if one.header)
    counts["all"] = max(others, counts["tenant"])
    return counts


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
