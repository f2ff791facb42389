"""From the leader's memory to the read model: the order, its ETAs and its reasons, as columns.

A full pass reads the memory and changes nothing in it. It works on whole columns (numpy), read in
the order in which the jobs came, since reading them in the order in which they will start would
miss the processor's cache at each; rows are put in order at the end. At 100,000 waiting jobs it
takes about a second, most of it for the exact ETAs, which is why `publish` runs it in a process of
its own. Estimates are made with what is known of durations now, not when a job arrived.

`freshened` is the small sibling: the last full header with what has changed since, made in a
moment from the live jobs alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from scheduling.core.capacity.room import planned_end
from scheduling.core.eta.calibration import SLACK_S, calibrated, score
from scheduling.core.eta.forecast import Forecast, expecting, forecast
from scheduling.core.order.full import columns_of, full_order
from scheduling.core.policy.cycle import waits
from scheduling.core.policy.state import PoolState
from scheduling.core.types import REVIEWS, Executor, Job, Live, Reason
from scheduling.governor.book import Book
from scheduling.governor.config import Config
from scheduling.governor.moves import Gone
from scheduling.governor.view_rows import Index, KeptOut, columns_filled
from scheduling.snapshot import ExecutorRow, Header, Rows, RunningRow, TenantRow

EXACT = 5_000
"""The jobs from the front whose ETAs come from the exact fast-forward; beyond, units-only lanes.

They take most of a pass: 10,000 would hold the picture after a lever back for two seconds.
"""
EXPLAINED = 300
"""The jobs from the front whose reason is worked out; those behind them wait for the ones ahead."""

NewEta: TypeAlias = tuple[str, float, float, float]
"""A job with the finish that it is given at first, and its range (epoch seconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What is published of a pool, and the estimates of jobs that had none before, in order."""

    header: Header
    rows: Rows
    first_etas: list[NewEta]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Which version is made: of which pool, in which epoch, with which number, at what time."""

    pool: str
    epoch: int
    seq: int
    now: float


def build(book: Book, stamp: Stamp) -> Built:
    """Order, forecast and explain one pool."""
    state, index = book.states[stamp.pool], Index.of(book.config)
    standing = list(state.order.startable())
    jobs, count = [job for job, _ in standing], len(standing)
    full = full_order(columns_of(state.order, standing))
    found = forecast(
        state,
        stamp.now,
        exact=EXACT,
        queue=jobs,
        places=full.rows,
        measured=book.durations.measured(),
    )
    rows = columns_filled(
        jobs=jobs,
        classes=[name for _, name in standing],
        kept_out=_kept_out(book, stamp.pool),
        index=index,
    )
    _times(book, stamp, found, rows[:count])
    rows[:count] = rows[full.rows]
    rows["turn"][:count] = full.turn
    _explain(state, stamp, index, [jobs[row] for row in full.rows[:EXPLAINED].tolist()], rows)
    return Built(
        header=_header(book, stamp, found, rows, startable=count),
        rows=rows,
        first_etas=_first_etas(book, jobs, full.rows, rows),
    )


def _explain(state: PoolState, stamp: Stamp, index: Index, jobs: Sequence[Job], rows: Rows) -> None:
    """Fill in the reasons of the first jobs."""
    why = waits(state, stamp.now, EXPLAINED)
    for place, job in enumerate(jobs):
        rows["reason"][place] = index.reasons[why.get(job.id, Reason.BEHIND_HEAD)]


def freshened(
    base: Header, book: Book, *, seq: int, now: float, gone: Mapping[str, Gone]
) -> Header:
    """Return the header `base` as it is now: what runs, what is in use, who waits no more.

    `gone` are the jobs of the rows that wait no more. Raises KeyError when something runs that the base has no number for: a full pass is due.
    """
    state, index = book.states[base.pool], Index.of_header(base, book.config)
    running, units = _by_tenant(state.live.values())
    left = Counter(one.tenant for one in gone.values())
    in_use = sum(units.values())
    config = book.config
    tenants = [
        msgspec.structs.replace(
            row,
            weight=config.tenants[row.id].weight,
            held=config.tenants[row.id].held,
            waiting=max(0, row.waiting - left[row.id]),
            running=running[row.id],
            in_use=units[row.id],
            actual=units[row.id] / in_use if in_use else 0.0,
            served=book.served.get((base.pool, row.id), 0),
        )
        if left[row.id] or running[row.id] or row.running or _has_levers(row, config)
        else row
        for row in base.tenants
    ]
    return msgspec.structs.replace(
        base,
        seq=seq,
        at=now,
        budget=state.pool.budget,
        reserve=state.pool.reserve,
        in_use=in_use,
        startable=base.startable - sum(one.startable for one in gone.values()),
        total=base.total - len(gone),
        tenants=tenants,
        executors=_executors(book, base.pool),
        running=_running(book, base.pool, index, now),
        gone=bytes.fromhex("".join(gone).replace("-", "")),
    )


def _has_levers(row: TenantRow, config: Config) -> bool:
    facts = config.tenants[row.id]
    return (row.weight, row.held) != (facts.weight, facts.held)


def _kept_out(book: Book, pool: str) -> list[KeptOut]:
    """Return the jobs that stand in no line, each with the reason."""
    state = book.states[pool]
    jobs = [*state.order.blocked_jobs(), *state.never_fits.values()]
    held = {tenant for tenant, facts in book.config.tenants.items() if facts.held}
    kept = [
        KeptOut(job, Reason.TENANT_HELD if job.tenant in held else Reason.OWN_LIMIT)
        if job.id not in state.never_fits
        else KeptOut(job, Reason.NEVER_FITS)
        for job in jobs
    ]
    parked = (
        KeptOut(book.core(book.rows[job_id]), reason)
        for job_id, reason in book.parked.items()
        if book.rows[job_id].pool == pool
    )
    return [*kept, *parked]


def _times(book: Book, stamp: Stamp, found: Forecast, rows: Rows) -> None:
    """Fill in start, finish and the range; the rows stand as in the forecast's queue."""
    rows["start"], rows["finish"], rows["approximate"] = found.spread()
    range_of = calibrated(_ratios(book))
    wait = np.maximum(0.0, rows["finish"] - stamp.now)
    low = np.minimum(wait * range_of.low, wait - SLACK_S)  # as Calibration.around, for columns
    rows["low"] = stamp.now + np.maximum(0.0, low)
    rows["high"] = stamp.now + np.maximum(wait * range_of.high, wait + SLACK_S)


def _first_etas(
    book: Book, jobs: Sequence[Job], places: npt.NDArray[np.int64], rows: Rows
) -> list[NewEta]:
    """Return the estimates of the jobs that were never given one, in order."""
    known = np.fromiter(
        map(book.first_etas.__contains__, [job.id for job in jobs]), np.bool_, len(jobs)
    )
    new = np.flatnonzero(~known[places] & ~np.isnan(rows["finish"][: len(jobs)]))
    ids = [jobs[row].id for row in places[new].tolist()]
    times = (rows[name][new].tolist() for name in ("finish", "low", "high"))
    return list(zip(ids, *times, strict=True))


def _ratios(book: Book) -> list[float]:
    return [one.actual_s / one.predicted_s for one in book.checked if one.predicted_s > 0]


def _header(book: Book, stamp: Stamp, found: Forecast, rows: Rows, *, startable: int) -> Header:
    config, state = book.config, book.states[stamp.pool]
    clear = found.clear_at
    low, high = calibrated(_ratios(book)).around(clear, stamp.now) if clear else (None, None)
    checked = score(list(book.checked))
    return Header(
        pool=stamp.pool,
        slug=config.pool_slugs[stamp.pool],
        epoch=stamp.epoch,
        seq=stamp.seq,
        at=stamp.now,
        policy=config.policy.number,
        control=config.control,
        budget=state.pool.budget,
        reserve=state.pool.reserve,
        in_use=sum(live.cost for live in state.live.values()),
        startable=startable,
        total=len(rows),
        clear_at=clear,
        clear_low=low,
        clear_high=high,
        tenants=_tenants(book, stamp.pool, found, rows),
        workspaces=[facts.path for facts in config.workspaces.values()],
        workflows=[(one, facts.slug) for one, facts in config.workflows.items()],
        classes=[rule.name for rule in config.policy.classes],
        reasons=[reason.value for reason in Reason],
        executors=_executors(book, stamp.pool),
        running=_running(book, stamp.pool, Index.of(config), stamp.now),
        eta_mean_error_s=checked.mean_error_s if checked else None,
        eta_hit_rate=checked.hit_rate if checked else None,
        rows_seq=stamp.seq,
    )


def _by_tenant(live: Iterable[Live]) -> tuple[Counter[str], Counter[str]]:
    """Return the running jobs and the units in use of each tenant."""
    running: Counter[str] = Counter()
    units: Counter[str] = Counter()
    for one in live:
        running[one.tenant] += 1
        units[one.tenant] += one.cost
    return running, units


def _tenants(book: Book, pool: str, found: Forecast, rows: Rows) -> list[TenantRow]:
    config = book.config
    counts = np.bincount(rows["tenant"], minlength=len(config.tenants)).tolist()
    waiting = dict(zip(config.tenants, counts, strict=False))
    running, units = _by_tenant(book.states[pool].live.values())
    sharing = {
        tenant: facts.weight
        for tenant, facts in config.tenants.items()
        if (waiting[tenant] or units[tenant]) and not facts.held
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
            served=book.served.get((pool, tenant), 0),
            clear_at=found.tenants.get(tenant),
        )
        for tenant, facts in config.tenants.items()
    ]


def _executors(book: Book, pool: str) -> list[ExecutorRow]:
    rows, state = book.config.executor_rows, book.states[pool]
    return [
        ExecutorRow(
            id=one.id,
            slug=rows[one.id].slug,
            kind=rows[one.id].kind,
            slots=_usable(state, one),
            configured_slots=rows[one.id].slots,
            in_use=state.busy.get(one.id, 0),
            health=rows[one.id].health,
            circuit=rows[one.id].circuit,
            enabled=rows[one.id].enabled,
            draining=rows[one.id].draining,
            tenant=one.tenant,
            models=sorted(one.models),
        )
        for one in state.executors.values()
    ]


def _usable(state: PoolState, executor: Executor) -> int:
    """Return how many jobs may run there now; reviewers need no worker of ours at all."""
    if REVIEWS.name in executor.kinds:
        return executor.most
    return min(executor.most, executor.slots + _unmanned(state, executor.id))


def _unmanned(state: PoolState, executor: str) -> int:
    """Return how many jobs run there without a worker of ours: their slots serve, too."""
    return state.busy.get(executor, 0) - state.manned.get(executor, 0)


def _running(book: Book, pool: str, index: Index, now: float) -> list[RunningRow]:
    state, measured = book.states[pool], book.durations.measured()
    return [
        _running_row(book, index, expecting(live, measured), now) for live in state.live.values()
    ]


def _running_row(book: Book, index: Index, live: Live, now: float) -> RunningRow:
    attempt = book.attempts.get(live.job_id)
    rows = book.config.executor_rows
    return RunningRow(
        job=live.job_id,
        attempt=attempt.id if attempt else "",
        fence=attempt.fence if attempt else 0,
        tenant=index.tenants[live.tenant],
        workspace=index.workspaces[live.workspace],
        workflow=index.workflows[live.workflow],
        job_class=index.classes[live.class_name],
        executor=rows[live.executor].slug if live.executor in rows else live.executor,
        cost=live.cost,
        started_at=live.started_at,
        finish=planned_end(live, now),
        overdue=live.started_at + live.expected_s < now,
    )
