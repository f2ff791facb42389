"""Fallback: jobs whose model fails are admitted afresh, to a model that may stand in for it.

Nothing is called here. A job comes from its failed attempt, or from the order when every circuit of
its model is open; it is deferred and due at once. Where its own model can be tried again by now it
goes back to the order as it is. Else the candidates of the policy's list are weighed in their order
(`core.policy.fallback`) and their money is asked for within the budgets of the job's own chain, in
exchange for what it holds: the first that all let pass is the model in force, and the job is placed
only where that is paid for. Where none passes the job waits for its own model, or, if money alone
stood in the way, for its budgets too. The event of either names every candidate and why it was
taken or passed over.
"""

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from msgspec import structs

from billing.services.reservations import exchange, holders
from billing.services.verdicts import Refused, Reserved
from scheduling.core import types
from scheduling.core.placement import candidates
from scheduling.core.policy.fallback import (
    Against,
    Asks,
    Offered,
    Weighed,
    candidates_after,
    has_list,
    weighed,
)
from scheduling.core.policy.settings import Candidate
from scheduling.core.states import JobEvent, JobState, job_move
from scheduling.core.types import KEY, Reason, Verdict
from scheduling.events import nudge_on_commit
from scheduling.kinds.contract import RunsBy
from scheduling.kinds.registry import runs_by
from scheduling.models import Circuit, Decision, Executor, Job
from scheduling.models.xact import CurrentXact
from scheduling.selectors.circuits import OPEN, Circuits, circuits_open
from scheduling.selectors.measures import latency_of, quality_of
from scheduling.services.admission import expiry, request_of
from scheduling.services.catalogue import Catalogue
from scheduling.services.quotes import Quote, Quotes, core_job
from scheduling.services.rows import row_new
from scheduling.services.stories import Told, events_write

TAKEN = "taken"


def falling_back(jobs: Collection[Job], catalogue: Catalogue) -> set[uuid.UUID]:
    """Return which of deferred jobs look for another model: they are funded, and there is a list."""
    listed = {
        job.id
        for job in jobs
        if runs_by(job.kind) is RunsBy.WORKERS and has_list(catalogue.policy, job.model)
    }
    return listed & holders(listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the choice goes by: settings, circuits and what was measured, at one moment."""

    catalogue: Catalogue
    quotes: Quotes
    circuits: Circuits
    down: frozenset[str]
    quality: Mapping[str, float]
    latency: Mapping[str, float]
    now: datetime

    @classmethod
    def read(cls, jobs: Sequence[Job], catalogue: Catalogue, now: datetime) -> "Sight":
        """Read what concerns the candidates of these jobs."""
        asked = {job.model for job in jobs}
        bound = [
            c for one in catalogue.policy.fallback if one.model in asked for c in one.candidates
        ]
        down = Executor.objects.filter(health="down").values_list("id", flat=True)
        return cls(
            catalogue=catalogue,
            quotes=Quotes(catalogue=catalogue, now=now),
            circuits=circuits_open(),
            down=frozenset(str(one) for one in down),
            quality=quality_of({one.model for one in bound if one.quality_floor}),
            latency=latency_of({one.model for one in bound if one.latency_s}),
            now=now,
        )

    def rests_until(self, executor: str, model: str) -> datetime | None:
        """Return until when open circuits keep a model away from an executor; None: they do not."""
        rows = self.circuits.get(uuid.UUID(executor), ())
        ends = [one.until for one in rows if _keeps(one, model) and one.until is not None]
        return max(ends, default=None)

    def lets_through(self, executor: str, model: str) -> bool:
        """Tell whether an executor may be given the model now."""
        return executor not in self.down and self.rests_until(executor, model) is None

    def able(self, job: types.Job, pool: uuid.UUID) -> list[str]:
        """Return the executors that may run a job, whatever their circuits."""
        found = self.catalogue.settings.executors.get(str(pool), [])
        enabled = [core for row, core in found if row.enabled and not row.draining]
        return [one.id for one in candidates(job, enabled)]


@dataclass(slots=True, kw_only=True)
class Switch:
    """A job with its candidates as weighed, and what came of it.

    `ways` are what is asked of the budgets in turn: a model, what it may cost, and where.
    """

    job: Job
    weighed: list[Weighed] = field(default_factory=list)
    ways: list["Way"] = field(default_factory=list)
    taken: "Way | None" = None
    reserved: Reserved | None = None
    refused: Refused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A model at a price, and the executors that cost no more."""

    model: str
    spend: Decimal
    places: tuple[str, ...]


def fall_back(jobs: Sequence[Job], catalogue: Catalogue, now: datetime) -> int:
    """Decide on deferred jobs of one workspace, whose rows the caller's transaction has locked.

    The only call of that transaction that locks budgets. Returns how many jobs were decided on.
    """
    if not jobs:
        return 0
    sight = Sight.read(jobs, catalogue, now)
    own = [job for job in jobs if _may_run(job, sight)]
    kept = {job.id for job in own}
    switches = [_switch(job, sight) for job in jobs if job.id not in kept]
    _fund(switches, sight)
    decisions, told = [], []
    for job in own:
        job.error = _without_time(job)
        _queue(job, Reason.IN_ORDER)
        told.append(_told(job, "queued", {}))
    for one in switches:
        decisions.append(_decide(one, sight))
        told.append(_story(one, decisions[-1]))
    Job.objects.bulk_update(
        jobs, ["state", "reason", "runs_model", "places", "wake_at", "error", "changed"]
    )
    Decision.objects.bulk_create(decisions)
    events_write(told)
    nudge_on_commit()
    return len(jobs)


def _keeps(circuit: Circuit, model: str) -> bool:
    return circuit.state == OPEN and circuit.model in (KEY, model)


def _core(job: Job, model: str, region: str = "") -> types.Job:
    core = core_job(job, 1)
    return structs.replace(core, model=model, region=job.region or region)


def _may_run(job: Job, sight: Sight) -> bool:
    """Tell whether the job's own model may be tried again by now: not while it has just failed."""
    again = _retry_at(job)
    if again is not None and (job.reason == Reason.FALLBACK or again > sight.now):
        return False
    model = job.model_in_force
    able = sight.able(_core(job, model), job.pool_id)
    places = {str(one) for one in job.places}
    return any(sight.lets_through(one, model) for one in able if not places or one in places)


def _retry_at(job: Job) -> datetime | None:
    """Return when the job's own model may be tried again after its last failure."""
    told = (job.error or {}).get("retry_at")
    return datetime.fromisoformat(told) if told else None


def _switch(job: Job, sight: Sight) -> Switch:
    found, asks = Switch(job=job), _asks(job, sight)
    for candidate in candidates_after(sight.catalogue.policy, job.model, job.model_in_force):
        one = weighed(candidate, asks, _offered(job, candidate, sight))
        found.weighed.append(one)
        found.ways += _ways(one)
    return found


def _asks(job: Job, sight: Sight) -> Asks:
    quote = _quote(job, _core(job, job.model), sight)
    return Asks(
        region=job.region,
        data_class=job.data_class,
        max_spend=job.max_spend,
        asked_spend=quote.spend if quote.prices else None,
    )


def _quote(job: Job, core: types.Job, sight: Sight) -> Quote:
    reviewed = job.needs_review or job.workflow.needs_review
    return sight.quotes.compute(core, job, _seconds(job), reviewed=reviewed)


def _seconds(job: Job) -> float | None:
    return job.expected_s or job.workflow.expected_s


def _offered(job: Job, candidate: Candidate, sight: Sight) -> Offered:
    core = _core(job, candidate.model, candidate.region)
    able = sight.able(core, job.pool_id)
    quote = _quote(job, core, sight)
    through = (one for one in able if sight.lets_through(one, candidate.model))
    return Offered(
        able=len(able),
        quality=sight.quality.get(candidate.model),
        latency_s=sight.latency.get(candidate.model),
        unpriced=bool(quote.unpriced),
        prices={one: quote.prices[one] for one in through if one in quote.prices},
    )


def _ways(one: Weighed) -> Iterator[Way]:
    """Yield a candidate at each of its prices, the dearest first."""
    for spend in sorted(set(one.prices.values()), reverse=True):
        places = tuple(sorted(name for name, price in one.prices.items() if price <= spend))
        yield Way(model=one.model, spend=spend, places=places)


def _fund(switches: Sequence[Switch], sight: Sight) -> None:
    """Ask the budgets for the ways of all jobs at once, each job's in turn."""
    asking = [one for one in switches if one.ways]
    if not asking:
        return
    expires_at = expiry(sight.now)
    requests = [
        structs.replace(
            request_of(one.job, one.job.workflow, one.ways[0].spend, expires_at),
            instead=tuple(way.spend for way in one.ways[1:]),
        )
        for one in asking
    ]
    answers = exchange(requests=requests, now=sight.now, version=sight.catalogue.version)
    for one, answer in zip(asking, answers, strict=True):
        if isinstance(answer, Refused):
            one.refused = answer
        else:
            one.reserved = answer
            one.taken = next(way for way in one.ways if way.spend == answer.spend)


def _decide(one: Switch, sight: Sight) -> Decision:
    job, way = one.job, one.taken
    if way is None:
        return _wait(one, sight)
    job.error = _without_time(job)
    failed, job.runs_model = job.model_in_force, "" if way.model == job.model else way.model
    able = sight.able(_core(job, way.model), job.pool_id)
    job.places = [] if set(way.places) == set(able) else [uuid.UUID(place) for place in way.places]
    _queue(job, Reason.FELL_BACK)
    sentence = f"{_named(failed)} fails; {_named(way.model)} stands in for it.{_passed(one)}"
    held = one.reserved.reservation_id if one.reserved else None
    return _decision(
        one, sight, Verdict.QUEUED, sentence, reservation_id=held, expires_at=expiry(sight.now)
    )


def _wait(one: Switch, sight: Sight) -> Decision:
    """Let a job wait for its own model, and for its budgets if they alone stood in the way."""
    job, money = one.job, one.refused is not None
    job.wake_at = _tried_at(job, sight)
    rests = not any(
        sight.lets_through(place, job.model_in_force)
        for place in sight.able(_core(job, job.model_in_force), job.pool_id)
    )
    job.reason = Reason.CIRCUIT_OPEN if rests else Reason.RETRY_WAIT
    if money:
        job.reason = Reason.BUDGET
    job.changed = CurrentXact()
    sentence = f"{_named(job.model_in_force)} fails and nothing may stand in for it.{_passed(one)}"
    return _decision(one, sight, Verdict.DEFERRED, sentence, retry_at=job.wake_at)


def _tried_at(job: Job, sight: Sight) -> datetime:
    """Return when the job's own model is tried again: its failure's time, or its circuits' end."""
    least = max(sight.now + timedelta(seconds=1), _retry_at(job) or sight.now)
    model = job.model_in_force
    able = sight.able(_core(job, model), job.pool_id)
    ends = [sight.rests_until(one, model) or sight.now for one in able if one not in sight.down]
    cooldown = timedelta(seconds=sight.catalogue.policy.breaker.cooldown_s)
    return max(least, min(ends, default=sight.now + cooldown))


def _queue(job: Job, reason: Reason) -> None:
    job.state = job_move(JobState.DEFERRED, JobEvent.READMIT)
    job.reason, job.wake_at, job.changed = reason, None, CurrentXact()


def _without_time(job: Job) -> dict[str, Any] | None:
    """Return the last error without the time of the failed model's next try."""
    if job.error is None:
        return None
    return {name: value for name, value in job.error.items() if name != "retry_at"}


def _decision(one: Switch, sight: Sight, verdict: Verdict, sentence: str, **more: Any) -> Decision:  # noqa: ANN401
    catalogue = sight.catalogue
    return row_new(
        Decision,
        job_id=one.job.id,
        verdict=verdict,
        reason=one.job.reason,
        sentence=sentence,
        policy=catalogue.policy.number,
        control=catalogue.version[0],
        at=sight.now,
        **more,
    )


def _passed(one: Switch) -> str:
    """Say in words why each candidate before the one taken was passed over."""
    said = [f" {_named(name)} was passed over: {sentence}." for name, _, sentence in _over(one)]
    return "".join(said)


def _over(one: Switch) -> Iterator[tuple[str, Against, str]]:
    """Yield the candidates before the one that was taken: name, code and sentence."""
    for candidate in one.weighed:
        if one.taken is not None and candidate.model == one.taken.model:
            return
        against = candidate.against or Against.BUDGET
        sentence = candidate.sentence or "its budgets have no room for it"
        yield candidate.model, against, sentence


def _story(one: Switch, decision: Decision) -> Told:
    job, way = one.job, one.taken
    told = [
        {"model": name, "verdict": "passed_over", "reason": str(why), "sentence": sentence}
        for name, why, sentence in _over(one)
    ]
    facts: dict[str, Any] = {"sentence": decision.sentence, "candidates": told}
    if way is None:
        return _told(job, "deferred", facts)
    told.append({"model": way.model, "verdict": TAKEN, "spend": f"{way.spend:f}"})
    return _told(job, "fell_back", facts | {"asked": job.model, "to": way.model})


def _told(job: Job, event: str, data: dict[str, Any]) -> Told:
    return Told(job_id=job.id, tenant_id=job.tenant_id, event=event, reason=job.reason, data=data)


def _named(model: str) -> str:
    return f"Model {model}" if model else "Its model"
