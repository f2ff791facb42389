"""Admission with its rows: facts gathered, the pure verdict, the hold on budgets, the decision.

Everything happens in one transaction: the budgets that a verdict was based on stay locked until
the jobs, their reservations, decisions and events stand. Jobs are decided in the order given.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.conf import settings

from billing.services.prices import UnpricedModel, price_estimate, price_review
from billing.services.reservations import reserve
from billing.services.verdicts import Refused as BudgetRefused
from billing.services.verdicts import Reserved, ReserveRequest
from scheduling.core import types
from scheduling.core.admission import (
    Alternative,
    Answer,
    Backlog,
    BudgetRefusal,
    Ceiling,
    Facts,
    Quota,
)
from scheduling.core.policy.explain import Misfit, misfits
from scheduling.core.policy.settings import BacklogCaps, charge_of
from scheduling.core.states import ENDED_JOBS, JobState
from scheduling.core.types import Reason, Verdict
from scheduling.models import Decision, Job
from scheduling.selectors.seam import admit
from scheduling.services.catalogue import Catalogue
from scheduling.services.drafts import Draft
from scheduling.services.rows import row_new
from scheduling.services.scopes import chain_of

STATE_OF = {
    Verdict.ADMITTED: JobState.QUEUED,
    Verdict.QUEUED: JobState.QUEUED,
    Verdict.DEFERRED: JobState.DEFERRED,
    Verdict.DENIED: JobState.DENIED,
}


CONSTRAINTS = {
    Misfit.KIND: "kind", Misfit.MODEL: "model", Misfit.REGION: "region", Misfit.LABELS: "labels",
    Misfit.TOOLS: "tools", Misfit.DATA_CLASS: "data class", Misfit.COMPUTE_CLASS: "compute class",
}  # fmt: skip
ASKED = tuple(CONSTRAINTS)[1:]
"""What a submitter can relax."""


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

    Must run in the transaction that then stores the jobs. `waits_already`: they are stored and part
    of the backlog, so that a full one is no reason to turn them away.
    """
    waiting = None if waits_already else Counter(catalogue.waiting())
    used = Counter(catalogue.backlog.classes if catalogue.backlog else {})
    prices = _Prices(catalogue=catalogue, now=now)
    judged = [_judge_one(one, prices, waiting, used) for one in drafts]
    _fund(judged, catalogue, now, new_jobs=not waits_already)
    for one in judged:
        _place(one, catalogue)
        _set_state(one, now)
    return judged


def decision_of(judged: Judged, catalogue: Catalogue, now: datetime) -> Decision:
    """Return the decision's row (not yet stored)."""
    answer, facts, held = judged.answer, judged.facts, judged.reservation
    raises = held.escalations if held else ()
    return row_new(
        Decision,
        job_id=judged.draft.job.id,
        verdict=answer.verdict,
        reason=answer.reason,
        sentence=" ".join([answer.sentence, *(one.sentence for one in raises)]),
        policy=catalogue.policy.number,
        control=catalogue.version[0],
        reservation_id=held.reservation_id if held else None,
        expires_at=expiry(now) if held else None,
        retry_at=_time(answer.retry_at),
        place=facts.place,
        eta=_time(facts.eta),
        alternatives=[asdict(one) for one in answer.alternatives],
        escalations=[one.told() for one in raises] or None,
        at=now,
    )


def expiry(now: datetime) -> datetime:
    """Return when a reservation made now expires unless it is renewed."""
    return now + timedelta(seconds=settings.RESERVATION_LIFE_S)


def expires_at_of(job: Job) -> float | None:
    """Return from when on the job is not to start (epoch seconds); None once it has started."""
    ends = job.expires_at is not None and job.started_at is None
    return job.expires_at.timestamp() if job.expires_at and ends else None


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
        tools=frozenset(job.tools),
        data_class=job.data_class,
        compute_class=job.compute_class,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quote:
    """What a job may cost; else the model that has no price, or that nothing can run or review it."""

    spend: Decimal = Decimal(0)
    unpriced: str = ""
    no_executor: bool = False
    no_reviewer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prices:
    """The quotes of a set: jobs that ask for the same have the same."""

    catalogue: Catalogue
    now: datetime
    quotes: dict[tuple[object, ...], _Quote] = field(default_factory=dict)

    def quote(self, draft: Draft) -> _Quote:
        """Return the quote for a draft, computed for the first of its like."""
        job = draft.job
        seconds = job.expected_s or draft.workflow.expected_s
        tokens = job.input_tokens, job.output_tokens
        asks = job.kind, job.model, job.region, job.data_class, job.compute_class
        minutes = job.estimate.get("review_minutes", 0) if _is_reviewed(draft) else None
        like = (job.pool_id, *asks, tuple(job.labels), tuple(job.tools), tokens, seconds, minutes)
        found = self.quotes.get(like)
        if found is None:
            found = self._compute(draft, seconds)
            if minutes is not None:
                found = self._with_review(found, job, Decimal(str(minutes)))
            self.quotes[like] = found
        return found

    def _with_review(self, work: _Quote, job: Job, minutes: Decimal) -> _Quote:
        """Add what the review of the work should cost; nobody to review it refuses the work."""
        settings, workspace = self.catalogue.settings, self.catalogue.workspace
        offers = settings.reviewers(job.data_class, workspace, str(job.pool_id))
        if not offers:
            return replace(work, no_reviewer=not work.no_executor)
        try:
            spend = price_review(offers=offers, minutes=minutes, now=self.now)
        except UnpricedModel as unpriced:
            return replace(work, unpriced=work.unpriced or unpriced.model)
        return replace(work, spend=work.spend + spend)

    def _compute(self, draft: Draft, seconds: float | None) -> _Quote:
        job, settings = draft.job, self.catalogue.settings
        offers = settings.offers(core_job(job, draft.cost), str(job.pool_id))
        if not offers:
            if not job.model or settings.is_offered(job.model, str(job.pool_id)):
                return _Quote(no_executor=True)
            return _Quote(unpriced=job.model)
        try:
            spend = price_estimate(
                offers=offers,
                input_tokens=job.input_tokens,
                output_tokens=job.output_tokens,
                seconds=seconds or settings.policy.default_expected_s,
                now=self.now,
            )
        except UnpricedModel as unpriced:
            return _Quote(unpriced=unpriced.model)
        return _Quote(spend=spend)


def _judge_one(
    draft: Draft, prices: _Prices, waiting: Counter[str] | None, used: Counter[str]
) -> Judged:
    pool, settings = draft.workflow.pool, prices.catalogue.settings
    quote = prices.quote(draft)
    caps = settings.policy.backlog
    facts = Facts(
        now=prices.now.timestamp(),
        permission=draft.lacks,
        permitted=not draft.lacks,
        cost=draft.cost,
        most=pool.budget if draft.rule.uses_reserve else pool.budget - pool.reserve,
        unpriced_model=quote.unpriced,
        ceilings=tuple(_ceilings(draft.job, quote)),
        quota=_quota(draft.rule, used),
        other_classes=tuple(name for name in draft.other_classes if name != draft.rule.name),
        backlogs=_backlogs(waiting, caps) if waiting is not None else (),
        sheddable=draft.rule.sheddable,
        shed_share=caps.shed_share,
        not_before=draft.not_before.timestamp() if draft.not_before else None,
        deadline=draft.job.deadline.timestamp() if draft.job.deadline else None,
        expires_at=expires_at_of(draft.job),
        tenant_held=settings.held,
        open_dependencies=draft.open_dependencies,
    )
    if quote.no_executor and facts.permitted:
        answer = _no_executor(draft, prices.catalogue)
    elif quote.no_reviewer and facts.permitted:
        answer = _no_reviewer(draft)
    else:
        answer = admit(facts)
    if answer.verdict is not Verdict.DENIED:
        _count(draft, waiting, used)
    return Judged(draft=draft, facts=facts, spend=quote.spend, answer=answer)


def _count(draft: Draft, waiting: Counter[str] | None, used: Counter[str]) -> None:
    if waiting is not None:
        waiting.update(("workspace", "tenant", "all"))
    if draft.bound_by_quota and draft.rule.name in used:
        used[draft.rule.name] += 1


def _quota(rule: types.ClassRule, used: Counter[str]) -> Quota | None:
    if rule.quota is None or rule.name not in used:
        return None
    return Quota(class_name=rule.name, used=used[rule.name], most=rule.quota)


def _ceilings(job: Job, quote: _Quote) -> Iterator[Ceiling]:
    if job.max_spend is not None:
        yield Ceiling(dimension="spend", most=job.max_spend, estimate=quote.spend)
    if job.max_tokens is not None:
        tokens = Decimal(job.input_tokens + job.output_tokens)
        yield Ceiling(dimension="tokens", most=Decimal(job.max_tokens), estimate=tokens)


def _backlogs(waiting: Counter[str], caps: BacklogCaps) -> tuple[Backlog, ...]:
    return (
        Backlog(scope="workspace", waiting=waiting["workspace"], cap=caps.workspace),
        Backlog(scope="tenant", waiting=waiting["tenant"], cap=caps.tenant),
        Backlog(scope="all", waiting=waiting["all"], cap=caps.total),
    )


def _no_executor(draft: Draft, catalogue: Catalogue) -> Answer:
    """Say which constraints no executor of the pool meets; none alone: it is all together."""
    job = core_job(draft.job, draft.cost)
    executors = [core for _, core in catalogue.settings.executors.get(str(draft.job.pool_id), [])]
    whys = [set(misfits(job, executor)) for executor in executors]
    visible = [why for why in whys if Misfit.NOT_OPEN not in why]
    never = set.intersection(*visible) if visible else set()
    failing = [name for name in CONSTRAINTS if name in never]
    where = f"No executor of pool {draft.workflow.pool.slug}"
    if failing:
        what = " or ".join(f"the {CONSTRAINTS[name]} that it asks for" for name in failing)
        sentence = f"{where} has {what}"
    else:
        sentence = f"{where} runs kind {draft.job.kind} with all of its constraints together"
    relax = Alternative(
        action="relax_constraints",
        sentence="other constraints: " + ", ".join(CONSTRAINTS[name] for name in failing or ASKED),
    )
    return Answer(
        verdict=Verdict.DENIED,
        reason=Reason.NO_EXECUTOR,
        sentence=f"{sentence}; ask an operator for one, or relax it.",
        alternatives=(relax,),
    )


def _is_reviewed(draft: Draft) -> bool:
    return draft.job.needs_review or draft.workflow.needs_review


def _no_reviewer(draft: Draft) -> Answer:
    pool = draft.workflow.pool.slug
    return Answer(
        verdict=Verdict.DENIED,
        reason=Reason.NO_EXECUTOR,
        sentence=f"The job needs a review and nobody in pool {pool} may do it; ask an operator for "
        "an executor of kind human, or submit work that needs no review.",
        alternatives=(
            Alternative(
                action="ask_for_reviewers",
                sentence=f"an executor of kind human in pool {pool}: ask an operator",
            ),
        ),
    )


def _fund(judged: Sequence[Judged], catalogue: Catalogue, now: datetime, *, new_jobs: bool) -> None:
    funded = [one for one in judged if one.answer.verdict in (Verdict.ADMITTED, Verdict.QUEUED)]
    expires_at = expiry(now)
    results = reserve(
        requests=[_request(one, expires_at) for one in funded],
        now=now,
        version=catalogue.version,
        new_jobs=new_jobs,
    )
    for one, result in zip(funded, results, strict=True):
        if isinstance(result, BudgetRefused):
            one.facts = replace(one.facts, refusals=(_refusal(result),))
            one.answer = admit(one.facts)
        else:
            one.reservation = result


def _request(judged: Judged, expires_at: datetime) -> ReserveRequest:
    job = judged.draft.job
    seconds = Decimal(str(job.expected_s or judged.draft.workflow.expected_s or 0))
    return ReserveRequest(
        job_id=job.id,
        tenant_id=job.tenant_id,
        workspace_id=job.workspace_id,
        chain=chain_of(job),
        spend=judged.spend,
        tokens=job.input_tokens + job.output_tokens,
        other={
            "attempts": Decimal(0 if job.step else 1),  # a next step is no new attempt
            "wall_seconds": seconds,
            **{name: Decimal(str(amount)) for name, amount in job.estimate.items()},
        },
        expires_at=expires_at,
    )


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
    foresight = catalogue.outlook[str(job.pool_id)]
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
    if job.state == JobState.QUEUED and judged.draft.open_dependencies:
        job.state, job.reason = JobState.WAITING, Reason.DEPENDENCY
    job.wake_at = _time(answer.retry_at) if job.state == JobState.DEFERRED else None
    job.finished_at = now if job.state in ENDED_JOBS else None


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
