"""What follows from the end of a placement, as `services.endings` has it in production.

Work that is done goes on with its next step (a placement of its own, with its first submission),
then waits for a reviewer if it needs one, and is finished. A failed try is what a provider's fault
is: it counts as a try, what it used is wasted, and `core.retry` says whether and when the job is
tried again, unless the policy names a model that may stand in for its own (`faults`). Work that must
not run twice is not. Work that made room, or lost its worker, waits again and has lost no try; one
that loses its worker again and again may be what kills it, so it is placed at most `LOST_LIMIT`
times more than it has tries.

The charge that a placement took of its tenant's turn is corrected by what came true: the seconds
where shares are by cost and time. Who ended as he began is refunded.
"""

from decimal import Decimal
from functools import partial

from msgspec.structs import replace

from scheduling.core.breaker import Breaker, Signal
from scheduling.core.policy.fallback import has_list
from scheduling.core.policy.settings import OnLost, ShareBy
from scheduling.core.retry import Failure, decide, is_too_late, wait_s
from scheduling.core.types import Placement, Reason
from scheduling.simulator.faults import circuit_moved, fall_back
from scheduling.simulator.runs import Run, Stage
from scheduling.simulator.table import Table
from scheduling.simulator.world import Which

LOST_LIMIT = 10


def finish_try(table: Table, run: Run) -> None:
    """End a placement that has come to its end."""
    seconds = table.now - run.began
    placement = stop(table, run)
    if run.in_review:
        _reviewed(table, run, seconds)
    elif run.failed < run.job.fails:
        run.failed += 1
        fail(table, run, placement, seconds)
    else:
        _worked(table, run, placement, seconds)


def stop(table: Table, run: Run) -> Placement:
    """Free what a live job holds, and correct its charge; return its placement."""
    placement, seconds = run.placement, table.now - run.began
    if placement is None:
        message = f"Job {run.job.id} is not live."
        raise ValueError(message)
    table.world.states[run.pool].end(run.job.id)
    table.touched.add(run.pool)
    run.placement = None
    run.fence += 1
    run.ran_s += seconds
    table.foresight.stopped(run, placement.spot.job)
    cost = placement.spot.job.cost
    if cost:
        table.tally.worked(run.job.tenant, cost, seconds, table.now)
    _correct(table, run, placement, seconds)
    return placement


def _correct(table: Table, run: Run, placement: Placement, seconds: float) -> None:
    job = placement.spot.job
    due = job.charge
    if seconds <= 0 < run.left_s():
        due = 0
    elif table.world.policy.share_by is ShareBy.COST_TIME and not run.in_review:
        due = table.world.charge(run.job, job.cost, seconds)
    if due == job.charge:
        return
    delta = due - job.charge
    table.tally.corrected(run.job.tenant, delta, run.shared_in)
    table.world.states[run.pool].order.correct(
        placement.spot.class_name,
        job.tenant,
        job.workspace,
        delta,
        placement.lifts,
        placement.workspace_lifts,
    )


def book(table: Table, run: Run, placement: Placement, seconds: float, *, good: bool) -> None:
    """Book a try that ran to its end: its step's part of the tokens, and its capacity."""
    purse, job = table.purse, run.job
    if purse.is_free and job.tenant not in purse.balances:
        return
    part = purse.tokens(job, run.core.model) / job.steps
    used = {
        "spend": part + purse.capacity(placement.spot.job.cost, seconds),
        "tokens": Decimal(job.tokens_in + job.tokens_out) / job.steps,
        "attempts": Decimal(0 if good and run.step else 1),
        "wall_seconds": Decimal(str(round(seconds, 6))),
    }
    table.spend(run, used, wasted=not good)


def book_capacity(
    table: Table, run: Run, placement: Placement, seconds: float, *, good: bool
) -> None:
    """Book what a try held that did not come to its end."""
    purse = table.purse
    if purse.is_free and run.job.tenant not in purse.balances:
        return
    used = {
        "spend": purse.capacity(placement.spot.job.cost, seconds),
        "wall_seconds": Decimal(str(round(seconds, 6))),
    }
    table.spend(run, used, wasted=not good)


# --- success ------------------------------------------------------------------------------


def _worked(table: Table, run: Run, placement: Placement, seconds: float) -> None:
    """Go on with the next step or the review of work that is done, or finish it."""
    _succeeded(table, placement)
    _heard_success(table, placement)
    book(table, run, placement, seconds, good=True)
    table.foresight.learn(run, seconds)
    run.kept_s, run.tries, run.placements = 0.0, 0, 0
    if run.core.retry:
        run.core = replace(run.core, retry=False)
    if not run.is_last_step:
        run.step += 1
        facts = {"step": run.step, "steps": run.job.steps}
        table.log.job("step_done", run, Reason.STEP_DONE, {"facts": facts})
        table.queue_up(run)
    elif run.job.review_s:
        run.in_review = True
        table.log.job("step_done", run, Reason.REVIEW, {"facts": {"executor": placement.executor}})
        table.queue_up(run)
    else:
        table.close(run, "finished", Reason.FINISHED)


def _succeeded(table: Table, placement: Placement) -> None:
    """Count a success in its provider's retry budget, and let that forget what is over."""
    provider = table.world.provider(placement.executor)
    table.world.limits.succeeded(provider, table.now)
    table.world.limits.retries[provider].used(table.now)


def _heard_success(table: Table, placement: Placement) -> None:
    """Let the circuits of an executor hear of a success; those that never failed are not kept."""
    world = table.world
    if not world.circuits:
        return
    job, executor = placement.spot.job, world.executors[placement.executor]
    for which in (Which(executor.id, ""), Which(executor.id, executor.model_of(job.model))):
        known = world.circuits.get(which)
        if known is not None and known != Breaker():
            circuit_moved(table, which, Signal.SUCCESS)


def _reviewed(table: Table, run: Run, seconds: float) -> None:
    purse = table.purse
    if not purse.is_free or run.job.tenant in purse.balances:
        used = {
            "spend": purse.review(seconds),
            "review_minutes": Decimal(str(round(seconds / 60, 6))),
        }
        table.spend(run, used, wasted=False)
    told = {"facts": {"review_s": round(seconds, 6)}}
    table.log.job("reviewed", run, Reason.ACCEPTED, told)
    table.close(run, "finished", Reason.ACCEPTED)


# --- failure ------------------------------------------------------------------------------


def fail(
    table: Table,
    run: Run,
    placement: Placement,
    seconds: float,
    *,
    signal: Signal = Signal.FAILURE,
    retry_after_s: float | None = None,
) -> None:
    """Let a try fail by its provider's fault, and decide on the next."""
    executor = table.world.executors[placement.executor]
    limited = signal is Signal.RATE_LIMITED
    model = "" if limited else executor.model_of(run.core.model)
    book(table, run, placement, seconds, good=False)
    circuit_moved(table, Which(executor.id, model), signal, retry_after_s)
    may_repeat = run.job.idempotent or limited
    falls_back = may_repeat and has_list(table.world.policy, run.job.model)
    failure = Failure(
        retryable=may_repeat,
        tries=run.tries,
        unreached=max(0, run.placements - 1 - run.tries),
        max_attempts=run.job.max_attempts,
        deadline=run.job.deadline,
        retry_after_s=retry_after_s,
        expected_s=run.core.expected_s,
    )
    settings, jitter = table.world.policy.retry, table.dice.random()
    decision = decide(failure, now=table.now, settings=settings, jitter=jitter)
    run.tries += 1
    told = {
        "executor": executor.id,
        "tries": run.tries,
        "limit": run.job.max_attempts or settings.max_attempts,
        "error": "rate_limited" if limited else "provider_error",
    }
    too_late = decision.reason is Reason.DEADLINE and is_too_late(failure, table.now)
    if falls_back and not too_late and decision.reason is not Reason.ATTEMPTS_EXHAUSTED:
        at = table.now + wait_s(failure, settings=settings, jitter=jitter)
        if fall_back(table, run, told):
            return
        rest(table, run, at, told)
    elif decision.not_before is not None:
        rest(table, run, decision.not_before, told)
    else:
        table.close(run, "failed", decision.reason, told)


def rest(table: Table, run: Run, until: float, told: dict[str, object]) -> None:
    """Let a job wait for its next try."""
    run.stage = Stage.RESTING
    facts = told | {"not_before": round(until, 6)}
    table.log.job("retried", run, Reason.RETRY_WAIT, {"facts": facts})
    table.agenda.plan(until, partial(_wake, table, run, run.fence))


def _wake(table: Table, run: Run, fence: int) -> None:
    if run.stage is Stage.RESTING and run.fence == fence:
        table.queue_up(run, replace(run.core, retry=True))


# --- losses -------------------------------------------------------------------------------


def lose(table: Table, run: Run) -> None:
    """Let the worker of a live job be gone: by the policy the job waits again or has failed."""
    seconds = table.now - run.began
    placement = stop(table, run)
    facts = {"executor": placement.executor, "ran_s": round(seconds, 6)}
    table.log.job("lost", run, Reason.WORKER_LOST, {"facts": facts})
    book_capacity(table, run, placement, seconds, good=False)
    if run.in_review:
        again = True
    else:
        policy, job = table.world.policy, run.job
        on_lost = policy.on_lost_idempotent if job.idempotent else policy.on_lost_other
        most = (job.max_attempts or policy.retry.max_attempts) + LOST_LIMIT
        again = on_lost is OnLost.REQUEUE and run.placements < most
    if not again:
        table.close(run, "failed", Reason.WORKER_LOST, facts)
        return
    if run.core.retry:
        run.core = replace(run.core, retry=False)
    table.log.job("requeued", run, Reason.WORKER_LOST, {"facts": facts})
    table.queue_up(run)


def make_room(table: Table, run: Run, head: str, class_name: str) -> None:
    """Let a live job stop for another of a higher class, and wait again.

    A checkpoint keeps what it has done, else that is lost.
    """
    seconds = table.now - run.began
    placement = stop(table, run)
    keeps = run.job.checkpoints
    book_capacity(table, run, placement, seconds, good=keeps)
    if keeps:
        run.kept_s += seconds
    run.preemptions += 1
    run.placements -= 1
    facts = {
        "victim_of": head,
        "class": class_name,
        "executor": placement.executor,
        "ran_s": round(seconds, 6),
        "lost_s": 0.0 if keeps else round(seconds, 6),
        "units": placement.spot.job.cost,
    }
    table.log.job("preempted", run, Reason.PREEMPTED, {"facts": facts})
    table.queue_up(run)
