"""Rows as the governor reads them, and the core's values made from them."""

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scheduling.core.policy.settings import Policy, charge_of
from scheduling.core.states import AttemptState, Phase
from scheduling.core.types import (
    GLOBAL,
    REVIEWS,
    UNLIMITED,
    Executor,
    Job,
    LimitKey,
    Live,
    Reason,
)
from scheduling.kinds.contract import RunsBy
from scheduling.kinds.registry import runs_by
from scheduling.models import Job as JobModel

FAILED = (AttemptState.ERROR, AttemptState.INTERRUPTED)
"""How an attempt has ended that may be its provider's fault."""


class JobRow(Struct, frozen=True):
    """The columns of `statements.JOB_COLUMNS`, in their order; `model` is the one in force."""

    id: str
    seq: int
    pool: str
    tenant: str
    workspace: str
    workflow: str
    kind: str
    job_class: str
    cost: int | None
    state: str
    paused: bool
    reason: str
    model: str
    region: str
    labels: list[str]
    tools: list[str]
    data_class: str
    compute_class: str
    keys: list[str]
    input_tokens: int
    output_tokens: int
    expected_s: float | None
    submitted_by: str
    submitted_at: float
    deadline: float | None
    fence: int
    idempotent: bool
    preemptions: int
    places: list[str]
    changed: str
    phase: str = Phase.WORK


class AttemptRow(Struct, frozen=True):
    """The columns of `statements.ATTEMPT_COLUMNS`, in their order."""

    id: str
    fence: int
    state: str
    executor: str
    cost: int
    charge: int
    charge_due: int | None
    job_class: str
    lifts: int
    workspace_lifts: int
    expected_s: float
    started_at: float
    ended_at: float | None
    eta_at: float | None
    eta_finish: float | None
    eta_low: float | None
    eta_high: float | None
    ran_s: float | None


LAST_SEQ = 2**63 - 1
"""Behind every arrival number that a row has."""
_JOB_WIDTH = len(JobRow.__struct_fields__)
_SHARED = frozenset(
    (
        "pool",
        "tenant",
        "workspace",
        "workflow",
        "kind",
        "job_class",
        "state",
        "reason",
        "model",
        "region",
        "data_class",
        "compute_class",
        "submitted_by",
        "changed",
        "phase",
    )
)
_SHARED_AT = tuple(at for at, name in enumerate(JobRow.__struct_fields__) if name in _SHARED)


def job_row(values: Sequence[Any]) -> JobRow:
    """Return the job of a row of `statements.JOB_COLUMNS`.

    Names that many jobs share are kept once: 100,000 jobs would hold a million copies of them.
    """
    columns = list(values[:_JOB_WIDTH])
    for at in _SHARED_AT:
        columns[at] = sys.intern(columns[at])
    return JobRow(*columns)


def newcomer(job: JobModel, now: float) -> JobRow:
    """Return the row that a job would have which is submitted at `now`: behind all others."""
    deadline = job.deadline.timestamp() if job.deadline else None
    return JobRow(
        id=str(job.id),
        seq=LAST_SEQ,
        pool=str(job.pool_id),
        tenant=str(job.tenant_id),
        workspace=str(job.workspace_id),
        workflow=str(job.workflow_id),
        kind=job.kind,
        job_class=job.job_class,
        cost=job.cost,
        state=job.state,
        paused=job.paused,
        reason=job.reason,
        model=job.runs_model or job.model,
        region=job.region,
        labels=list(job.labels),
        tools=list(job.tools),
        data_class=job.data_class,
        compute_class=job.compute_class,
        keys=list(job.keys),
        input_tokens=job.input_tokens,
        output_tokens=job.output_tokens,
        expected_s=job.expected_s,
        submitted_by=job.submitted_by,
        submitted_at=now,
        deadline=deadline,
        fence=0,
        idempotent=job.idempotent,
        preemptions=0,
        places=[str(one) for one in job.places],
        changed="",
    )


def split(row: tuple[Any, ...]) -> tuple[JobRow, AttemptRow | None]:
    """Return the job of a joined row and its last attempt, if it ever had one."""
    rest = row[_JOB_WIDTH:]
    return job_row(row), AttemptRow(*rest) if rest[0] is not None else None


def limits_of(row: JobRow) -> tuple[LimitKey, ...]:
    """Return the own-limit keys that the job counts under."""
    return _limits(row.tenant, row.workspace, row.workflow, row.submitted_by)


@lru_cache(maxsize=65_536)
def _limits(tenant: str, workspace: str, workflow: str, user: str) -> tuple[LimitKey, ...]:
    return (
        ("tenant", tenant),
        ("workspace", workspace),
        ("workflow", workflow),
        ("user", user),
    )


def shared_of(row: JobRow) -> tuple[LimitKey, ...]:
    """Return the keys of shared limits that the job counts under wherever it runs."""
    every = _shared(row.pool)
    return (*every, *(("key", key) for key in dict.fromkeys(row.keys))) if row.keys else every


@lru_cache(maxsize=1_024)
def _shared(pool: str) -> tuple[LimitKey, ...]:
    return GLOBAL, ("pool", pool)


def is_by_worker(row: JobRow) -> bool:
    """Tell whether one of our workers runs the job, or what it is at."""
    return row.phase == Phase.WORK and runs_by(row.kind) is RunsBy.WORKERS


def is_retry(row: JobRow, attempt: AttemptRow | None) -> bool:
    """Tell whether the next placement of a waiting job repeats one that failed at its provider.

    The first one after a fallback repeats nothing: that model has not been tried. Neither does one
    after a lost worker, which says nothing of the provider.
    """
    return attempt is not None and attempt.state in FAILED and row.reason != Reason.FELL_BACK


def core_job(
    row: JobRow, policy: Policy, *, cost: int, expected_s: float, retry: bool = False
) -> Job:
    """Return the waiting job as the core sees it; an unknown class falls to the default one."""
    if row.phase == Phase.REVIEW:
        return _core_review(row, expected_s)
    return Job(
        id=row.id,
        seq=row.seq,
        tenant=row.tenant,
        workspace=row.workspace,
        submitted_at=row.submitted_at,
        class_name=_class(row, policy),
        cost=cost,
        charge=_charge(row, policy, cost, expected_s),
        expected_s=expected_s,
        deadline=row.deadline,
        limits=limits_of(row),
        shared=shared_of(row),
        kind=row.kind,
        model=row.model,
        region=row.region,
        labels=frozenset(row.labels),
        tools=frozenset(row.tools),
        data_class=row.data_class,
        compute_class=row.compute_class,
        workflow=row.workflow,
        tokens=row.input_tokens + row.output_tokens,
        by_worker=is_by_worker(row),
        retry=retry,
        places=frozenset(row.places),
    )


def core_again(job: Job, row: JobRow, policy: Policy, *, cost: int, expected_s: float) -> Job:
    """Return the waiting `job`, made of the same row under other settings, as it is under these.

    Most are the same under both, and are kept once.
    """
    if row.phase == Phase.REVIEW:
        return _core_review(row, expected_s)
    class_name, charge = _class(row, policy), _charge(row, policy, cost, expected_s)
    now = class_name, cost, charge, expected_s, row.deadline
    if now == (job.class_name, job.cost, job.charge, job.expected_s, job.deadline):
        return job
    return replace(
        job,
        class_name=class_name,
        cost=cost,
        charge=charge,
        expected_s=expected_s,
        deadline=row.deadline,
    )


def _class(row: JobRow, policy: Policy) -> str:
    for rule in policy.classes:  # a loop: a trial asks it twice of every job
        if rule.name == row.job_class:
            return row.job_class
    return policy.default_class


def _charge(row: JobRow, policy: Policy, cost: int, expected_s: float) -> int:
    return charge_of(
        policy,
        cost=cost,
        expected_s=expected_s,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
    )


def _core_review(row: JobRow, expected_s: float) -> Job:
    """Return the review of a job: it needs a reviewer who may be given the data, and no units.

    The work is over, and so are its limits and the hold on its concurrency keys.
    """
    return Job(
        id=row.id,
        seq=row.seq,
        tenant=row.tenant,
        workspace=row.workspace,
        submitted_at=row.submitted_at,
        class_name=REVIEWS.name,
        cost=0,
        expected_s=expected_s,
        limits=UNLIMITED,
        kind=REVIEWS.name,
        data_class=row.data_class,
        workflow=row.workflow,
        by_worker=False,
    )


def core_live(
    row: JobRow, attempt: AttemptRow, policy: Policy, *, cost: int, executor: Executor | None = None
) -> Live:
    """Return the live job as the core sees it, holding its workflow's present cost.

    `executor` is where it runs, if that is known. One of a class that the policy has no more is counted and shown in the default one.
    """
    known = policy.class_named(attempt.job_class)
    review = row.phase == Phase.REVIEW
    shared = () if review else shared_of(row)
    provider = executor.provider if executor else ""
    return Live(
        job_id=row.id,
        tenant=row.tenant,
        workspace=row.workspace,
        cost=cost,
        class_name=attempt.job_class if known else policy.default_class,
        executor=attempt.executor,
        started_at=attempt.started_at,
        expected_s=attempt.expected_s,
        limits=UNLIMITED if review else limits_of(row),
        shared=(*shared, ("provider", provider)) if provider else shared,
        workflow=row.workflow,
        by_worker=is_by_worker(row),
        model=executor.model_of(row.model) if executor else row.model,
    )
