"""Admission with its rows: facts gathered, the pure verdict, the hold on budgets, the decision.

Everything happens in one transaction: the budgets that a verdict was based on stay locked until
the jobs, their reservations, decisions and events stand. Jobs are decided in the order given.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.conf import settings
from msgspec import structs

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
from scheduling.models import Decision, Job, Workflow
from scheduling.selectors.seam import admit
from scheduling.services.catalogue import Catalogue
from scheduling.services.drafts import Draft
from scheduling.services.quotes import Quote, Quotes, core_job
from scheduling.services.rows import row_new
from scheduling.services.scopes import chain_of
from tenants.prepared import Writes

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
    """A draft with its answer, and the reservation that funds it.

    `whole` is what it may cost on any executor, `quote` the same within its own ceiling.
    """

    draft: Draft
    facts: Facts
    quote: Quote
    whole: Quote
    answer: Answer
    reservation: Reserved | None = None

    @property
    def spend(self) -> Decimal:
        """The money that it holds, or asks to hold (USD)."""
        held = self.reservation.spend if self.reservation else None
        return self.quote.spend if held is None else held


def judge(
    drafts: Sequence[Draft], catalogue: Catalogue, now: datetime, writes: Writes | None = None
) -> list[Judged]:
    """Decide on the drafts and hold what the admitted ones need; sets each job's state.

    Must run in the transaction that then stores the jobs, by `writes`, to which what they hold is
    added. Without, they are stored and part of the backlog already, so that a full one is no reason
    to turn them away.
    """
    waiting = None if writes is None else Counter(catalogue.waiting())
    used = Counter(catalogue.backlog.classes if catalogue.backlog else {})
    quotes = Quotes(catalogue=catalogue, now=now)
    judged = [_judge_one(one, quotes, waiting, used) for one in drafts]
    _fund(judged, catalogue, now, writes)
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


def _judge_one(
    draft: Draft, quotes: Quotes, waiting: Counter[str] | None, used: Counter[str]
) -> Judged:
    pool, settings = draft.workflow.pool, quotes.catalogue.settings
    seconds = draft.job.expected_s or draft.workflow.expected_s
    whole = quotes.quote(draft.job, draft.cost, seconds, reviewed=_is_reviewed(draft))
    quote = whole.within(draft.job.max_spend)
    caps = settings.policy.backlog
    facts = Facts(
        now=quotes.now.timestamp(),
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
        answer = _no_executor(draft, quotes.catalogue)
    elif quote.no_reviewer and facts.permitted:
        answer = _no_reviewer(draft)
    else:
        answer = admit(facts)
    if answer.verdict is not Verdict.DENIED:
        _count(draft, waiting, used)
    return Judged(draft=draft, facts=facts, quote=quote, whole=whole, answer=answer)


def _count(draft: Draft, waiting: Counter[str] | None, used: Counter[str]) -> None:
    if waiting is not None:
        waiting.update(("workspace", "tenant", "all"))
    if draft.bound_by_quota and draft.rule.name in used:
        used[draft.rule.name] += 1


def _quota(rule: types.ClassRule, used: Counter[str]) -> Quota | None:
    if rule.quota is None or rule.name not in used:
        return None
    return Quota(class_name=rule.name, used=used[rule.name], most=rule.quota)


def _ceilings(job: Job, quote: Quote) -> Iterator[Ceiling]:
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


def _fund(
    judged: Sequence[Judged], catalogue: Catalogue, now: datetime, writes: Writes | None
) -> None:
    funded = [one for one in judged if one.answer.verdict in (Verdict.ADMITTED, Verdict.QUEUED)]
    expires_at = expiry(now)
    results = reserve(
        requests=[_request(one, expires_at) for one in funded],
        now=now,
        version=catalogue.version,
        writes=writes,
    )
    for one, result in zip(funded, results, strict=True):
        if isinstance(result, BudgetRefused):
            one.facts = structs.replace(one.facts, refusals=(_refusal(result),))
            one.answer = admit(one.facts)
        else:
            one.reservation = result
            if result.spend is not None:
                one.draft.job.places = one.quote.places(result.spend, one.whole)


def _request(judged: Judged, expires_at: datetime) -> ReserveRequest:
    quote, draft = judged.quote, judged.draft
    asked = request_of(draft.job, draft.workflow, quote.spend, expires_at)
    return structs.replace(asked, instead=quote.instead) if quote.instead else asked


def request_of(
    job: Job, workflow: Workflow, spend: Decimal, expires_at: datetime
) -> ReserveRequest:
    """Return what a job asks to hold, of money `spend`."""
    seconds = Decimal(str(job.expected_s or workflow.expected_s or 0))
    return ReserveRequest(
        job_id=job.id,
        tenant_id=job.tenant_id,
        workspace_id=job.workspace_id,
        chain=chain_of(job),
        spend=spend,
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
    judged.facts = structs.replace(
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
