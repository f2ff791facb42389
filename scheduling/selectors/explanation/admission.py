"""The checks of admission: what they said when the job was decided on, and what they say now."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import takewhile
from types import MappingProxyType

from billing.services.standing import BudgetStanding
from billing.services.verdicts import plain
from scheduling.core.admission import Answer
from scheduling.core.policy.explain import Check, Misfit, Status, check_of, misfits, spoken
from scheduling.core.states import JobState
from scheduling.core.types import Reason, Verdict
from scheduling.selectors.explanation.scene import Finding, Scene, Told
from scheduling.selectors.queue import moment
from scheduling.selectors.reasons import reason_sentence
from tenants.models import AuditEntry

ADMISSION = tuple(takewhile(lambda check: check is not Check.READMISSION, Check))
_PASSES: Mapping[Check, str] = MappingProxyType(
    {
        Check.PERMISSION: "Its submitter may use this kind of job and this class here.",
        Check.OFFER: "There are executors that may run it.",
        Check.DEADLINE: "It has no deadline, or one that can be met.",
        Check.EXPIRY: "It may wait as long as it takes, or its time to live is not over.",
        Check.SIZE: "Its class can have as many units as it costs.",
        Check.PRICE: "What it asks for has a price.",
        Check.CEILINGS: "Its estimate is within the ceilings that it was submitted with.",
        Check.CLASS_QUOTA: "Its class has no quota, or had room for it.",
        Check.BACKLOG: "The backlog had room for it.",
        Check.BUDGET: "Every budget of its chain has room for it.",
        Check.CIRCUIT: "No circuit keeps it from being let in.",
        Check.NOT_BEFORE: "No not-before time stands in the way.",
        Check.HOLD: "Its tenant is not held.",
        Check.DEPENDENCIES: "It waits for no other job.",
    }
)
_OWN_MODEL = (Reason.CIRCUIT_OPEN, Reason.RETRY_WAIT)
"""Why a deferred job waits for its own model, with its money held."""
_PASSES_NOW = "It would pass this check now; submit it again."


def admission(scene: Scene, check: Check) -> Finding:
    """Return what a check of admission says now; of a denied job, what it said then."""
    facts = _FACTS[check](scene)
    denied = scene.job.state == JobState.DENIED
    answer = _answer(scene, check)
    if _spoke_then(scene) is check:
        facts["then"] = then(scene)
        if denied:
            return _denied(scene, check, facts, answer)
    if answer is None or denied:
        return Finding(check=check, status=Status.PASSED, sentence=_PASSES[check], facts=facts)
    reason, sentence = answer.reason, answer.sentence
    if reason is Reason.DEPENDENCY and scene.job.reason == Reason.WAITING_ON_CHILD:
        reason, sentence = Reason.WAITING_ON_CHILD, reason_sentence(Reason.WAITING_ON_CHILD)
    return Finding(
        check=check,
        status=_status(scene, check, answer),
        sentence=sentence,
        facts=facts | _alternatives(answer),
        reason=reason,
    )


def readmission(scene: Scene) -> Finding:
    """Return why a deferred job waits that no check of admission holds up any more.

    A rule of the house's own queue policy that refuses a job speaks here too.
    """
    job, answer = scene.job, scene.rehearsed.answer
    if job.state == JobState.DENIED:
        return _spoken(scene, Status.FAILS, job.reason, _sentence(scene))
    if job.state != JobState.DEFERRED:
        sentence = "It is admitted."
        return Finding(
            check=Check.READMISSION, status=Status.PASSED, sentence=sentence, facts=then(scene)
        )
    if job.reason in _OWN_MODEL:
        return _spoken(scene, Status.WAITS, job.reason, _sentence(scene))
    if answer and answer.verdict in (Verdict.DENIED, Verdict.DEFERRED):
        status = Status.FAILS if answer.verdict is Verdict.DENIED else Status.WAITS
        return _spoken(scene, status, answer.reason, answer.sentence)
    said = reason_sentence(job.reason)
    sentence = f"{said} It would be admitted now, and is taken up again soon."
    return _spoken(scene, Status.WAITS, job.reason, sentence)


def then(scene: Scene) -> Told:
    """Return the last decision on the job in short."""
    made = scene.decision
    if made is None:
        return {}
    return {
        "at": made.at,
        "verdict": made.verdict,
        "reason": made.reason,
        "sentence": made.sentence,
        "policy": made.policy,
        "control": made.control,
    }


def _spoken(scene: Scene, status: Status, reason: str, sentence: str) -> Finding:
    return Finding(
        check=Check.READMISSION,
        status=status,
        sentence=sentence,
        facts={"taken_up_at": scene.job.wake_at, "then": then(scene)},
        reason=reason,
    )


def _denied(scene: Scene, check: Check, facts: Told, answer: Answer | None) -> Finding:
    if check is not Check.PERMISSION:  # what its submitter may do now is not asked
        facts["now"] = answer.sentence if answer else _PASSES_NOW
    return Finding(
        check=check,
        status=Status.FAILS,
        sentence=_sentence(scene),
        facts=facts | {"alternatives": scene.decision.alternatives if scene.decision else []},
        reason=scene.job.reason,
    )


def _sentence(scene: Scene) -> str:
    return scene.decision.sentence if scene.decision else reason_sentence(scene.job.reason)


def _spoke_then(scene: Scene) -> Check | None:
    made = scene.decision
    refused = made is not None and made.verdict in (Verdict.DENIED, Verdict.DEFERRED)
    return check_of(made.reason) if made is not None and refused else None


def _answer(scene: Scene, check: Check) -> Answer | None:
    answer = scene.rehearsed.answer
    if check is Check.OFFER:
        return answer if answer and answer.reason is Reason.NO_EXECUTOR else None
    return spoken(check, scene.rehearsed.facts)


def _status(scene: Scene, check: Check, answer: Answer) -> Status:
    """A job that is let in already is not turned away for its size: it waits for the dial."""
    waits = answer.verdict is not Verdict.DENIED
    outgrown = check is Check.SIZE and scene.job.state != JobState.DEFERRED
    return Status.WAITS if waits or outgrown else Status.FAILS


def _alternatives(answer: Answer) -> Told:
    told: Told = {"retry_at": moment(answer.retry_at)} if answer.retry_at else {}
    named = [asdict(one) for one in answer.alternatives]
    return told | ({"alternatives": named} if named else {})


def _permission(scene: Scene) -> Told:
    job = scene.job
    return {"submitted_by": job.submitted_by, "kind": job.kind, "class": job.job_class}


def _offer(scene: Scene) -> Told:
    """Health and circuits do not count at admission: they pass."""
    job = scene.job
    whys = (misfits(scene.core, one) for one in scene.state.executors.values())
    return {
        "kind": job.kind,
        "model": job.model,
        "runs_model": job.model_in_force,
        "region": job.region,
        "labels": list(job.labels),
        "tools": list(job.tools),
        "data_class": job.data_class,
        "compute_class": job.compute_class,
        "executors": sum(set(why) <= {Misfit.UNAVAILABLE} for why in whys),
    }


def _deadline(scene: Scene) -> Told:
    return {"deadline": scene.job.deadline}


def _expiry(scene: Scene) -> Told:
    return {"expires_at": scene.job.expires_at}


def _size(scene: Scene) -> Told:
    facts, pool = scene.rehearsed.facts, scene.state.pool
    return {
        "cost": facts.cost,
        "most": facts.most,
        "budget": pool.budget,
        "reserve": pool.reserve,
    }


def _price(scene: Scene) -> Told:
    return {"model": scene.job.model_in_force}


def _ceilings(scene: Scene) -> Told:
    ceilings = scene.rehearsed.facts.ceilings
    return {
        "ceilings": [
            {"dimension": c.dimension, "most": plain(c.most), "estimate": plain(c.estimate)}
            for c in ceilings
        ]
    }


def _class_quota(scene: Scene) -> Told:
    quota = scene.rehearsed.facts.quota
    return {"class": scene.job.job_class} | (
        {"used": quota.used, "most": quota.most} if quota else {}
    )


def _backlog(scene: Scene) -> Told:
    backlogs = scene.rehearsed.facts.backlogs
    return {"scopes": [{"scope": b.scope, "waiting": b.waiting, "most": b.cap} for b in backlogs]}


def _budget(scene: Scene) -> Told:
    return {"budgets": [_budget_line(scene, line) for line in scene.rehearsed.budgets]}


def _budget_line(scene: Scene, line: BudgetStanding) -> Told:
    """Amounts are for those who may see costs; of a budget that refuses, its decision names them."""
    refusals = scene.rehearsed.facts.refusals
    named = {(one.scope, one.dimension, one.limit): one.estimate for one in refusals}
    refused = named.get((line.scope, line.dimension, line.limit))
    told: Told = {"scope": line.scope, "dimension": line.dimension, "window": line.window}
    told["fits"] = refused is None
    if scene.amounts or refused is not None:
        asked = line.asked if refused is None else refused
        told |= {
            "limit": plain(line.limit),
            "spent": plain(line.spent),
            "held": plain(line.held),
            "asked": None if asked is None else plain(asked),
        }
    return told | {"window_ends_at": line.window_ends_at}


def _circuit(scene: Scene) -> Told:
    return {"until": moment(scene.rehearsed.facts.circuit_until)}


def _not_before(scene: Scene) -> Told:
    return {"not_before": moment(scene.rehearsed.facts.not_before)}


def _hold(scene: Scene) -> Told:
    """Who holds it and why are the operators' words: others are told since when."""
    if not scene.rehearsed.facts.tenant_held:
        return {"since": None}
    entries = AuditEntry.objects.filter(
        action="tenant_weight", target_type="tenant", target_id=str(scene.job.tenant_id)
    )
    held = entries.filter(after__held=True, before__held=False).order_by("-number").first()
    if held is None:
        return {"since": None}
    named = {"by": held.actor, "why": held.reason} if scene.within.everywhere else {}
    return {"since": held.at, "control": held.number, **named}


def _dependencies(scene: Scene) -> Told:
    return {"open": scene.rehearsed.facts.open_dependencies}


_FACTS: Mapping[Check, Callable[[Scene], Told]] = MappingProxyType(
    {
        Check.PERMISSION: _permission,
        Check.OFFER: _offer,
        Check.DEADLINE: _deadline,
        Check.EXPIRY: _expiry,
        Check.SIZE: _size,
        Check.PRICE: _price,
        Check.CEILINGS: _ceilings,
        Check.CLASS_QUOTA: _class_quota,
        Check.BACKLOG: _backlog,
        Check.BUDGET: _budget,
        Check.CIRCUIT: _circuit,
        Check.NOT_BEFORE: _not_before,
        Check.HOLD: _hold,
        Check.DEPENDENCIES: _dependencies,
    }
)
