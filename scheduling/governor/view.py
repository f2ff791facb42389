"""From a frozen copy of a pool's state to the read model's header and rows.

This runs beside the governor's loop, on copies: nothing here is shared but values that do not
change. Estimates are made with what is known of durations now, not when the job arrived.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import nan
from uuid import UUID

from scheduling.core.capacity import planned_end
from scheduling.core.eta.calibration import Calibration, Score
from scheduling.core.eta.forecast import Forecast, forecast
from scheduling.core.policy.cycle import waits
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Job, Reason, Spot
from scheduling.governor.book import FirstEta
from scheduling.governor.config import Config
from scheduling.governor.rows import AttemptRow, JobRow
from scheduling.snapshot import ExecutorRow, Header, Rows, RunningRow, TenantRow, pack

EXPLAINED = 300
"""The jobs from the front whose reason is worked out; those behind them wait for the ones ahead."""
REASONS = list(Reason)
NOT_YET = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One pool at one moment, copied out of the leader's memory."""

    pool: str
    now: float
    epoch: int
    seq: int
    config: Config
    state: PoolState
    rows: Mapping[str, JobRow]
    parked: list[tuple[JobRow, Reason]]
    attempts: Mapping[str, AttemptRow]
    expected: Mapping[str, float]
    served: Mapping[tuple[str, str], int]
    calibration: Calibration
    score: Score | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What is published of a view, and the ETAs in it by job."""

    header: Header
    rows: Rows
    etas: dict[str, FirstEta]


def build(view: View) -> Built:
    """Order, forecast and explain one view."""
    _renew_expectations(view)
    spots = list(view.state.order.walk_all())
    found = forecast(view.state, view.now, queue=[spot.job for spot in spots])
    index = _Index.of(view)
    etas = {job_id: _first_eta(view, eta.finish) for job_id, eta in found.etas()}
    records = _records(view, spots, found, index)
    header = _header(view, found, index, startable=len(spots), total=len(records))
    return Built(header=header, rows=pack(records), etas=etas)


@dataclass(frozen=True, slots=True)
class _Index:
    """The numbers by which rows name tenants, workspaces, workflows and classes."""

    tenants: dict[str, int]
    workspaces: dict[str, int]
    workflows: dict[str, int]
    classes: dict[str, int]
    reasons: dict[Reason, int]

    @classmethod
    def of(cls, view: View) -> "_Index":
        config = view.config
        return cls(
            {tenant: i for i, tenant in enumerate(config.tenants)},
            {workspace: i for i, workspace in enumerate(config.workspaces)},
            {workflow: i for i, workflow in enumerate(config.workflows)},
            {rule.name: i for i, rule in enumerate(config.policy.classes)},
            {reason: i for i, reason in enumerate(REASONS)},
        )


def _renew_expectations(view: View) -> None:
    state = view.state
    for job in [job for job, _ in state.order.startable()]:
        seconds = view.expected.get(job.id, job.expected_s)
        if abs(seconds - job.expected_s) > NOT_YET:
            state.order.replace(replace(job, expected_s=seconds))
    for live in list(state.live.values()):
        seconds = view.expected.get(live.job_id, live.expected_s)
        state.live[live.job_id] = replace(live, expected_s=seconds)


def _first_eta(view: View, finish: float) -> FirstEta:
    low, high = view.calibration.around(finish, view.now)
    return FirstEta(view.now, finish, low, high)


def _records(
    view: View, spots: list[Spot], found: Forecast, index: _Index
) -> list[tuple[object, ...]]:
    why = waits(view.state, view.now, EXPLAINED)
    etas = dict(found.etas())
    records: list[tuple[object, ...]] = []
    for spot in spots:
        job, eta = spot.job, etas.get(spot.job.id)
        times = (nan, nan, nan, nan)
        if eta is not None:
            times = (eta.start, eta.finish, *view.calibration.around(eta.finish, view.now))
        facts = _facts(job, spot.class_name, why.get(job.id, Reason.BEHIND_HEAD), index)
        flags = (True, eta.approximate if eta else False)
        turn = -1 if spot.turn is None else spot.turn
        records.append((*facts, *flags, job.cost, turn, job.submitted_at, *times))
    for job in [*view.state.order.blocked_jobs(), *view.state.never_fits.values()]:
        facts = _facts(job, job.class_name, why.get(job.id, _kept_out(view, job)), index)
        records.append((*facts, False, False, job.cost, -1, job.submitted_at, *([nan] * 4)))
    records += [_parked(view, row, reason, index) for row, reason in view.parked]
    return records


def _kept_out(view: View, job: Job) -> Reason:
    facts = view.config.tenants.get(job.tenant)
    return Reason.TENANT_HELD if facts and facts.held else Reason.OWN_LIMIT


def _facts(job: Job, class_name: str, reason: Reason, index: _Index) -> tuple[object, ...]:
    return (
        UUID(job.id).bytes,
        index.tenants.get(job.tenant, 0),
        index.workspaces.get(job.workspace, 0),
        index.workflows.get(job.workflow, 0),
        index.classes.get(class_name, 0),
        index.reasons[reason],
    )


def _parked(view: View, row: JobRow, reason: Reason, index: _Index) -> tuple[object, ...]:
    known = view.config.workflows.get(row.workflow)
    cost = row.cost or (known.cost if known else 1)
    return (
        UUID(row.id).bytes,
        index.tenants.get(row.tenant, 0),
        index.workspaces.get(row.workspace, 0),
        index.workflows.get(row.workflow, 0),
        index.classes.get(row.job_class, 0),
        index.reasons[reason],
        False,
        False,
        cost,
        -1,
        row.submitted_at,
        *([nan] * 4),
    )


def _header(view: View, found: Forecast, index: _Index, *, startable: int, total: int) -> Header:
    config, state = view.config, view.state
    clear = found.clear_at
    low, high = view.calibration.around(clear, view.now) if clear else (None, None)
    return Header(
        pool=view.pool,
        slug=config.pool_slugs[view.pool],
        epoch=view.epoch,
        seq=view.seq,
        at=view.now,
        policy=config.policy.number,
        control=config.control,
        budget=state.pool.budget,
        reserve=state.pool.reserve,
        in_use=sum(live.cost for live in state.live.values()),
        startable=startable,
        total=total,
        clear_at=clear,
        clear_low=low,
        clear_high=high,
        tenants=_tenants(view, found),
        workspaces=list(config.workspaces),
        workflows=[(one, facts.slug) for one, facts in config.workflows.items()],
        classes=[rule.name for rule in config.policy.classes],
        reasons=[reason.value for reason in REASONS],
        executors=_executors(view),
        running=_running(view, index),
        eta_mean_error_s=view.score.mean_error_s if view.score else None,
        eta_hit_rate=view.score.hit_rate if view.score else None,
    )


def _tenants(view: View, found: Forecast) -> list[TenantRow]:
    config, state = view.config, view.state
    waiting = Counter(job.tenant for job, _ in state.order.startable())
    kept_out = (*state.order.blocked_jobs(), *state.never_fits.values())
    waiting.update(job.tenant for job in kept_out)
    waiting.update(row.tenant for row, _ in view.parked)
    running = Counter(live.tenant for live in state.live.values())
    units: Counter[str] = Counter()
    for live in state.live.values():
        units[live.tenant] += live.cost
    sharing = {
        tenant: facts.weight
        for tenant, facts in config.tenants.items()
        if (waiting[tenant] or running[tenant]) and not facts.held
    }
    weights, in_use = sum(sharing.values()), sum(units.values())
    return [
        TenantRow(
            id=tenant,
            slug=facts.slug,
            name=facts.name,
            weight=facts.weight,
            held=facts.held,
            waiting=waiting[tenant],
            running=running[tenant],
            in_use=units[tenant],
            planned=sharing.get(tenant, 0) / weights if weights else 0.0,
            actual=units[tenant] / in_use if in_use else 0.0,
            served=view.served.get((view.pool, tenant), 0),
            clear_at=found.tenants.get(tenant),
        )
        for tenant, facts in config.tenants.items()
    ]


def _executors(view: View) -> list[ExecutorRow]:
    rows = view.config.executor_rows
    return [
        ExecutorRow(
            id=one.id,
            slug=rows[one.id].slug,
            kind=rows[one.id].kind,
            slots=one.slots,
            configured_slots=rows[one.id].slots,
            in_use=view.state.busy.get(one.id, 0),
            health=rows[one.id].health,
            circuit=rows[one.id].circuit,
            enabled=rows[one.id].enabled,
            draining=rows[one.id].draining,
            tenant=one.tenant,
            models=sorted(one.models),
        )
        for one in view.state.executors.values()
    ]


def _running(view: View, index: _Index) -> list[RunningRow]:
    rows = view.config.executor_rows
    return [
        RunningRow(
            job=live.job_id,
            attempt=view.attempts[live.job_id].id if live.job_id in view.attempts else "",
            fence=view.attempts[live.job_id].fence if live.job_id in view.attempts else 0,
            tenant=index.tenants.get(live.tenant, 0),
            workflow=index.workflows.get(live.workflow, 0),
            job_class=index.classes.get(live.class_name, 0),
            executor=rows[live.executor].slug if live.executor in rows else live.executor,
            cost=live.cost,
            started_at=live.started_at,
            finish=planned_end(live, view.now),
            overdue=live.started_at + live.expected_s < view.now,
        )
        for live in view.state.live.values()
    ]
