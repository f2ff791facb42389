"""Admission in a run: the facts gathered from its state, the core's verdict, and what follows.

A job is judged as it arrives. The backlog counts the jobs that were let in or deferred and have not
started yet: of its workspace, of its tenant (whose own cap counts where it is less than the policy's)
and in all. What is deferred is judged again as what it waits for changes: as its tenant's budgets
have more room, as a window begins, as a circuit may be tried: those that wait for just that. Of one
tenant the oldest come first; after `AT_ONCE` in a row that the budgets refuse again the rest waits
for the next change. Those that are deferred again are not told of again.

A new window gives room only where something was spent in the old one. Where all room is held, it
takes a release, and no time is planned; what is booked then plans the end of its window (`Table.spend`).
"""

from collections.abc import Collection, Mapping
from functools import partial
from math import inf
from typing import Any

from msgspec.structs import replace

from scheduling.core.admission import Answer, Backlog, BudgetRefusal, Facts, Quota, admit
from scheduling.core.policy.fallback import has_list
from scheduling.core.types import ClassRule, Reason, Verdict
from scheduling.simulator.money import plain
from scheduling.simulator.runs import Run, Stage
from scheduling.simulator.scenario import SimJob
from scheduling.simulator.table import Table

AT_ONCE = 200


def arrive(table: Table, job: SimJob) -> None:
    """Take in a job that is submitted now, and judge it."""
    table.arrivals += 1
    run = table.world.entered(job, table.arrivals)
    table.runs[job.id] = run
    table.count_alike(run, 1)
    table.tally.arrived(run)
    lost = _tie(table, run)
    if lost:
        table.close(run, "canceled", Reason.DEPENDENCY, {"on": lost})
        return
    _judge(table, run, is_new=True)
    if job.deadline is not None and run.stage is not Stage.ENDED:
        table.agenda.plan(job.deadline, partial(_expire, table, run))


def readmit(table: Table) -> None:
    """Judge the deferred jobs anew of the tenants of whose budgets or circuits something changed."""
    returning = sorted(table.returning)
    table.returning.clear()
    changed: dict[str, set[Reason]] = {}
    for tenant, reason in returning:
        changed.setdefault(tenant, set()).add(reason)
    for tenant, reasons in changed.items():
        _readmit(table, tenant, reasons)


def _readmit(table: Table, tenant: str, reasons: Collection[Reason]) -> None:
    """Judge the jobs of a tenant anew that wait for one of these reasons to pass."""
    refused = 0
    for run in list(table.deferred.get(tenant, {}).values()):
        if not _waits_for(run, reasons):
            continue
        _judge(table, run, is_new=False)
        if _waits_for(run, (Reason.BUDGET,)):
            refused += 1
        elif run.stage is not Stage.DEFERRED:
            refused = 0
        if refused == AT_ONCE:
            break


def _waits_for(run: Run, reasons: Collection[Reason]) -> bool:
    return run.stage is Stage.DEFERRED and run.deferred_for in reasons


def _tie(table: Table, run: Run) -> str:
    """Let a job wait for those that it comes after; return one that it waits for in vain."""
    for name in dict.fromkeys(run.job.after):
        done = table.ended.get(name)
        if done is None:
            run.open_after += 1
            table.tied.setdefault(name, []).append(run)
        elif not done:
            return name
    return ""


def _judge(table: Table, run: Run, *, is_new: bool) -> None:
    facts = _facts(table, run, is_new=is_new)
    answer = _unable(table, run) or admit(facts)
    told: dict[str, Any] = {}
    if answer.verdict in (Verdict.ADMITTED, Verdict.QUEUED):
        refused = table.purse.refuse(run, run.core.model, table.now)
        if refused is not None:
            facts = replace(facts, refusals=(refused,))
            answer, told = admit(facts), _budget_facts(refused)
            if not refused.spent:
                answer = replace(answer, retry_at=None)
    if answer.verdict is Verdict.DENIED:
        _deny(table, run, answer, told or _denial_facts(facts, answer, run))
    elif answer.verdict is Verdict.DEFERRED:
        _defer(table, run, answer, told)
    else:
        _let_in(table, run, answer, facts)


def _facts(table: Table, run: Run, *, is_new: bool) -> Facts:
    world, policy = table.world, table.world.policy
    rule = world.rules[run.core.class_name]
    return Facts(
        now=table.now,
        cost=run.core.cost,
        most=world.most(run),
        unpriced_model=table.purse.unpriced(run.core.model),
        quota=_quota(table, run, rule),
        backlogs=_backlogs(table, run) if is_new and world.has_backlog_caps else (),
        sheddable=rule.sheddable,
        shed_share=policy.backlog.shed_share,
        circuit_until=_circuit_until(table, run),
        deadline=run.job.deadline,
        tenant_held=run.job.tenant in world.held,
        open_dependencies=run.open_after,
        starts_now=_starts_now(table, run),
    )


def _backlogs(table: Table, run: Run) -> tuple[Backlog, ...]:
    caps, tenant, waiting = table.world.policy.backlog, run.job.tenant, table.waiting
    own = table.world.tenants[tenant].backlog_cap if tenant in table.world.tenants else None
    of_tenant = caps.tenant if own is None else min(own, caps.tenant)
    return (
        Backlog(scope="workspace", waiting=waiting.get(run.core.workspace, 0), cap=caps.workspace),
        Backlog(scope="tenant", waiting=waiting.get(tenant, 0), cap=of_tenant),
        Backlog(scope="all", waiting=waiting.get("", 0), cap=caps.total),
    )


def _quota(table: Table, run: Run, rule: ClassRule) -> Quota | None:
    """Return what the workspace has, without the job, of a class that has a quota; few have one."""
    if rule.quota is None:
        return None
    used = table.alike[run.core.workspace, rule.name] - 1
    return Quota(class_name=rule.name, used=used, most=rule.quota)


def _unable(table: Table, run: Run) -> Answer | None:
    """Refuse work that no executor of the pool could ever run, or nobody review."""
    world = table.world
    able = world.is_able(run.core, run.pool)
    if able and (not run.job.review_s or world.is_able(world.review(run), run.pool)):
        return None
    what = "review it" if able else "run it within what it asks for"
    return Answer(
        verdict=Verdict.DENIED,
        reason=Reason.NO_EXECUTOR,
        sentence=f"No executor of pool {run.pool} can {what}; add one to the scenario.",
    )


def _circuit_until(table: Table, run: Run) -> float | None:
    """Return when the first of the job's circuits may be tried, where all are open and no model
    may stand in."""
    world = table.world
    if not world.circuits or has_list(world.policy, run.job.model):
        return None
    ends = [world.rests_until(one, run.core.model) for one in world.able(run.core, run.pool)]
    return min(ends) if ends and -inf not in ends else None


def _starts_now(table: Table, run: Run) -> bool:
    """Tell whether nothing waits, and units and a slot are free."""
    state, job = table.world.states[run.pool], run.core
    taken = table.starting.get(run.pool)
    count, units = taken or (0, 0)
    if run.paused or len(state.order.jobs) > count or job.cost + units > state.free(job.class_name):
        return False
    if state.limits.is_any_full(job.limits):
        return False
    for one in state.candidates(job):
        count -= one.slots - state.busy.get(one.id, 0)
    return count < 0


def _deny(table: Table, run: Run, answer: Answer, told: Mapping[str, Any]) -> None:
    if answer.reason is Reason.SHED:
        avoided = table.purse.estimate(run, run.core.model)
        table.purse.total.avoided += avoided
        told = {**told, "avoided": plain(avoided)}
        table.close(run, "shed", answer.reason, told)
    else:
        table.close(run, "denied", answer.reason, told)


def _denial_facts(facts: Facts, answer: Answer, run: Run) -> dict[str, Any]:
    """Return the plain values that a refusal speaks of."""
    told: dict[str, Any] = {"sentence": answer.sentence}
    if answer.reason in (Reason.SHED, Reason.BACKLOG_FULL):
        full = next(one for one in facts.backlogs if one.waiting >= _cap(one, facts))
        told |= {"scope": full.scope, "waiting": full.waiting, "limit": _cap(full, facts)}
        told["retry_at"] = answer.retry_at
    elif answer.reason is Reason.NEVER_FITS:
        told |= {"need": facts.cost, "most": facts.most}
    elif answer.reason is Reason.DEADLINE:
        told["deadline"] = facts.deadline
    elif answer.reason is Reason.UNPRICED_MODEL:
        told["model"] = facts.unpriced_model
    elif answer.reason is Reason.CLASS_QUOTA and facts.quota is not None:
        told |= {"used": facts.quota.used, "limit": facts.quota.most}
    else:
        told |= {"pool": run.pool, "model": run.core.model, "labels": sorted(run.core.labels)}
    return told


def _cap(backlog: Backlog, facts: Facts) -> int:
    sheds = facts.sheddable and backlog.scope == "all"
    return int(backlog.cap * facts.shed_share) if sheds else backlog.cap


def _budget_facts(refused: BudgetRefusal) -> dict[str, Any]:
    return {
        "dimension": refused.dimension,
        "budget": refused.scope,
        "limit": plain(refused.limit),
        "spent": plain(refused.spent),
        "held": plain(refused.held),
        "need": plain(refused.estimate),
        "until": refused.window_ends_at,
    }


def _defer(table: Table, run: Run, answer: Answer, told: Mapping[str, Any]) -> None:
    """Let a job wait for admission; tell of it once."""
    tenant = run.job.tenant
    was = run.stage is Stage.DEFERRED
    run.stage, run.deferred_for = Stage.DEFERRED, answer.reason
    table.deferred.setdefault(tenant, {})[run.seq] = run
    if answer.retry_at is not None:
        table.plan_return(tenant, answer.reason, answer.retry_at)
    if was:
        return
    if not run.is_counted:
        table.count_waiting(run, 1)
    facts = dict(told) or {"until": answer.retry_at, "model": run.core.model}
    table.log.job("deferred", run, answer.reason, {"facts": facts})


def _let_in(table: Table, run: Run, answer: Answer, facts: Facts) -> None:
    """Queue a funded job, or mark what it waits for."""
    if run.stage is Stage.DEFERRED:
        del table.deferred[run.job.tenant][run.seq]
    if not run.is_counted:
        table.count_waiting(run, 1)
    if run.open_after:
        run.stage = Stage.TIED
        more = {"facts": {"after": list(run.job.after), "open": run.open_after}}
        table.log.job("queued", run, Reason.DEPENDENCY, more)
        return
    state = table.world.states[run.pool]
    told = {"need": run.core.cost, "free": state.free(run.core.class_name)}
    table.queue_up(run)
    if answer.reason is Reason.TENANT_HELD:
        more = {"facts": {"tenant": run.job.tenant}}
        table.log.job("queued", run, answer.reason, more)
        table.log.job("held", run, answer.reason, more)
        return
    if facts.starts_now:
        taken = table.starting.setdefault(run.pool, [0, 0])
        taken[0] += 1
        taken[1] += run.core.cost
    table.tell_place(run, answer.verdict, answer.reason, told, starts_now=facts.starts_now)


def _expire(table: Table, run: Run) -> None:
    """End a job that still waits at its deadline; what runs is let end, what is reviewed met it."""
    if run.stage in (Stage.LIVE, Stage.ENDED) or run.in_review:
        return
    table.close(run, "expired", Reason.DEADLINE, {"deadline": run.job.deadline})
