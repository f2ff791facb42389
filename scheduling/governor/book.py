"""The leader's memory: every pool's state, kept in step with the rows.

All of it can be rebuilt from the rows, and is, whenever leadership begins or the policy changes.
Rows come in as (job, last attempt) and are applied in the order of arrival; jobs that wait without
standing in a line (paused, deferred, waiting for a retry) are `parked` with their reason.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from statistics import fmean

from scheduling.core.eta.calibration import Checked
from scheduling.core.order.order import Order
from scheduling.core.policy.limits import Limits
from scheduling.core.policy.seam import BUILT_IN, QueuePolicy, standing
from scheduling.core.policy.state import PoolState
from scheduling.core.states import LIVE_ATTEMPTS, AttemptState, JobState, Phase
from scheduling.core.types import REVIEWS, Job, Memory, MemoryKey, Placement, Reason
from scheduling.governor.config import PLENTY, Config, TenantFacts
from scheduling.governor.durations import LAST_RUNS, Durations
from scheduling.governor.moves import Gone, Moves
from scheduling.governor.rows import AttemptRow, JobRow, core_again, core_job, core_live, is_retry
from scheduling.kinds.contract import RunsBy
from scheduling.kinds.registry import runs_by
from scheduling.selectors.limits import recent_dispatches
from scheduling.selectors.policy import caps_by_default
from scheduling.selectors.retries import recent_retries

log = logging.getLogger(__name__)

CHECKED_LAST = 1_000
"""So many ETAs that came due say how far the next may be off; with fewer, a long backlog that grows
is told too narrow a range (KTH-SP2 without backfill: 61 % hits with 200, 78 % with 1,000)."""
REVIEW_S = 900.0
"""How long a review is expected to take, from its place to the verdict."""


@dataclass(frozen=True, slots=True)
class FirstEta:
    """The first estimate that a waiting job was given: when, and the finish with its range."""

    at: float
    finish: float
    low: float
    high: float


@dataclass(slots=True)
class Book:
    """Every pool's state under one configuration.

    `attempts` holds the live attempt of each live job, `stopping` those jobs whose attempt was asked
    to stop; `corrected` the attempts whose charge
    correction was applied and is not yet stored; `checked` the ETAs that came due; `moves` what
    happened in each pool since its read model was last made; `runs` the last seconds that a
    thread worked, by executor and by workflow (without what they waited in a list or for settling);
    `seen` is the snapshot of the last reading of the rows.
    """

    config: Config
    durations: Durations
    queue: QueuePolicy = BUILT_IN
    states: dict[str, PoolState] = field(default_factory=dict)
    limits: Limits = field(default_factory=lambda: Limits({}))
    rows: dict[str, JobRow] = field(default_factory=dict)
    attempts: dict[str, AttemptRow] = field(default_factory=dict)
    stopping: set[str] = field(default_factory=set)
    parked: dict[str, Reason] = field(default_factory=dict)
    corrected: list[str] = field(default_factory=list)
    first_etas: dict[str, FirstEta] = field(default_factory=dict)
    checked: deque[Checked] = field(default_factory=lambda: deque(maxlen=CHECKED_LAST))
    served: dict[tuple[str, str], int] = field(default_factory=dict)
    moves: dict[str, Moves] = field(default_factory=dict)
    runs: dict[str, deque[float]] = field(default_factory=dict)
    seen: str = ""

    def open_pools(self, memory: Mapping[str, Mapping[MemoryKey, Memory]]) -> None:
        """Build an empty state for every pool, with holds and limits, from the saved memory."""
        defaults = caps_by_default(self.config.policy)
        self.limits = Limits(self.config.caps, defaults=defaults)
        self._set_rates()
        self.limits.set_retries(self.config.policy.retry, recent_retries(self.config.policy))
        for pool_id in self.config.pools:
            self.states[pool_id] = self._open(pool_id, memory.get(pool_id, {}))

    def load(
        self,
        pairs: Iterable[tuple[JobRow, AttemptRow | None]],
        now: float,
        like: "Book | None" = None,
    ) -> None:
        """Put in every job that has not ended: the live ones first, then the waiting ones.

        What a book `like` it made of the same rows under other settings is taken where it is right.
        """
        waiting: dict[str, list[Job]] = {}
        for row, attempt in pairs:
            self.rows[row.id] = row
            if row.state == JobState.RUNNING and attempt and attempt.state in LIVE_ATTEMPTS:
                self._start(row, attempt)
            elif row.state == JobState.QUEUED and not row.paused:
                made = None if like is None else like.waiting(row)
                waiting.setdefault(row.pool, []).append(self.core(row, attempt, made))
            else:
                self.parked[row.id] = parked_reason(row)
        for pool_id, rows in waiting.items():
            self.states[pool_id].load(rows, now)

    def waiting(self, row: JobRow) -> Job | None:
        """Return the job of a row that waits in its pool's order, or None."""
        state = self.states.get(row.pool)
        return None if state is None else state.order.get(row.id)

    def apply(self, row: JobRow, attempt: AttemptRow | None) -> None:
        """Bring the state of one changed job in line with its row."""
        state = self.states[row.pool]
        if row.id in state.live and not self._still_runs(row, attempt):
            self._ended(row, attempt)
        if row.state == JobState.RUNNING:
            self._note_stop(row.id, attempt)
            return
        self.rows[row.id] = row
        was_parked = self.parked.pop(row.id, None) is not None
        moves = self.moves_of(row.pool)
        if row.state == JobState.QUEUED and not row.paused:
            if row.id not in state.order:
                moves.arrive(row.id)
            state.wait(self.core(row, attempt))
            return
        startable = row.id in state.order and not state.order.why_blocked(row.id)
        if state.leave(row.id) is not None or was_parked:
            moves.leave(row.id, Gone(row.tenant, startable))
        if row.state in (JobState.QUEUED, JobState.WAITING, JobState.DEFERRED):
            self.parked[row.id] = parked_reason(row)
        else:
            self.forget(row.id)

    def moves_of(self, pool: str) -> Moves:
        """Return what happened in a pool since its read model was last made."""
        return self.moves.setdefault(pool, Moves())

    def run_s(self) -> dict[str, float]:
        """Return the mean of the last run times by executor and by workflow."""
        return {key: fmean(runs) for key, runs in self.runs.items()}

    def has_plenty(self) -> bool:
        """Tell whether the threads of some kind have several attempts each before them."""
        before: Counter[str] = Counter()
        for state in self.states.values():
            for executor, count in state.manned.items():
                known = self.config.executor_rows.get(executor)
                before[known.kind if known else ""] += count
        threads = self.config.threads
        return any(0 < PLENTY * threads.get(kind, 0) <= count for kind, count in before.items())

    def knows(self, row: JobRow) -> bool:
        """Tell whether the settings name everything that the row names."""
        config = self.config
        return (
            row.pool in self.states
            and row.tenant in config.tenants
            and row.workspace in config.workspaces
            and row.workflow in config.workflows
        )

    def forget(self, job_id: str) -> None:
        """Drop a job that has ended."""
        self.rows.pop(job_id, None)
        self.first_etas.pop(job_id, None)

    def placed(self, placement: Placement, attempt: AttemptRow) -> None:
        """Keep the attempt of a placement that the rows have taken."""
        job = placement.spot.job
        self.attempts[job.id] = attempt
        pool = self.rows[job.id].pool
        self.moves_of(pool).leave(job.id, Gone(job.tenant, startable=True))
        key = (pool, job.tenant)
        self.served[key] = self.served.get(key, 0) + job.charge

    def reconfigure(self, config: Config) -> None:
        """Apply changed settings to the existing backlog; the policy must be the same."""
        before, self.config = self.config, config
        self.durations.given = given_seconds(config)
        self.limits.set_caps(config.caps)
        if config.rates != before.rates:
            self._set_rates()
        for pool_id in config.pools.keys() - self.states.keys():
            self.states[pool_id] = self._open(pool_id, {})
        for pool_id, state in self.states.items():
            self._reconfigure_pool(state, pool_id, before)

    def opens_at(self) -> float:
        """Return when time alone changes what may start: a rate window opens for a job that waits
        for it, or a raise of a limit begins or ends (epoch seconds)."""
        windows = min((state.opens_at for state in self.states.values()), default=inf)
        return min(windows, self.config.changes_at)

    def cost_of(self, row: JobRow) -> int:
        """Return the job's own cost, else its workflow's present one; a review costs no units."""
        if row.phase == Phase.REVIEW:
            return 0
        if row.cost:
            return row.cost
        known = self.config.workflows.get(row.workflow)
        return known.cost if known else 1

    def expected(self, row: JobRow) -> float:
        """Return the expected seconds: the mean of past runs, else what was given."""
        if row.phase == Phase.REVIEW:
            return REVIEW_S
        if row.expected_s and not self.durations.knows(row.workflow):
            return row.expected_s
        return self.durations.expected(row.tenant, row.workflow)

    def _open(self, pool_id: str, memory: Mapping[MemoryKey, Memory]) -> PoolState:
        config = self.config
        policy = config.policy
        order = Order(
            classes=policy.classes,
            weights={tenant: facts.weight for tenant, facts in config.tenants.items()},
            workspace_weights={one: facts.weight for one, facts in config.workspaces.items()},
            memory=memory,
            age_after=policy.age_after,
            age_limit=policy.age_limit,
            deadlines=policy.deadlines,
        )
        state = PoolState(
            pool=config.pools[pool_id],
            policy=policy,
            order=order,
            executors=config.executors.get(pool_id, {}),
            limits=self.limits,
            queue=self.queue,
        )
        for tenant, facts in config.tenants.items():
            if facts.held:
                state.hold(tenant)
        return state

    def _reconfigure_pool(self, state: PoolState, pool_id: str, before: Config) -> None:
        config = self.config
        if pool_id in config.pools and config.pools[pool_id] != state.pool:
            state.set_pool(config.pools[pool_id])
        executors = config.executors.get(pool_id, {})
        if executors != state.executors:
            state.set_executors(executors)
        for tenant, facts in config.tenants.items():
            _retune(state, tenant, before.tenants.get(tenant), facts)
        for workspace, facts_now in config.workspaces.items():
            if before.workspaces.get(workspace) != facts_now:
                state.order.set_workspace_weight(workspace, facts_now.weight)
        for workflow, known in config.workflows.items():
            if workflow in before.workflows and before.workflows[workflow].cost != known.cost:
                fixed = {
                    row.id for row in self.rows.values() if row.cost or row.phase == Phase.REVIEW
                }
                state.recost(known.tenant, workflow, known.cost, fixed=fixed)

    def core(self, row: JobRow, attempt: AttemptRow | None = None, made: Job | None = None) -> Job:
        """Return the job, with its last attempt, as the core sees it under the present settings.

        `made` is what was made of the row and attempt under other settings.
        """
        policy, cost, expected_s = self.config.policy, self.cost_of(row), self.expected(row)
        if made is None:
            retry = is_retry(row, attempt)
            job = core_job(row, policy, cost=cost, expected_s=expected_s, retry=retry)
        else:
            job = core_again(made, row, policy, cost=cost, expected_s=expected_s)
        return standing(self.queue, policy, job)

    def _set_rates(self) -> None:
        """Take the rates, over what the rows say of the last minute."""
        rates = self.config.rates
        self.limits.set_rates(rates, recent_dispatches() if rates else ())

    def _start(self, row: JobRow, attempt: AttemptRow) -> None:
        policy, executor = self.config.policy, self.config.executor(attempt.executor)
        self.states[row.pool].start(
            core_live(row, attempt, policy, cost=self.cost_of(row), executor=executor)
        )
        self.attempts[row.id] = attempt
        self._note_stop(row.id, attempt)

    def _note_stop(self, job_id: str, attempt: AttemptRow | None) -> None:
        if attempt is not None and attempt.state == AttemptState.STOPPING:
            self.stopping.add(job_id)

    def _still_runs(self, row: JobRow, attempt: AttemptRow | None) -> bool:
        return (
            row.state == JobState.RUNNING and attempt is not None and attempt.state in LIVE_ATTEMPTS
        )

    def _ended(self, row: JobRow, attempt: AttemptRow | None) -> None:
        """Free what the job held; learn from how its attempt went; correct its charge."""
        self.states[row.pool].end(row.id)
        self.attempts.pop(row.id, None)
        self.stopping.discard(row.id)
        if attempt is None:
            return
        self.correct(row, attempt)
        is_work = attempt.job_class != REVIEWS.name
        if attempt.state == "complete" and attempt.ended_at is not None and is_work:
            self._succeeded(row, attempt, attempt.ended_at)
            self.durations.learn(row.tenant, row.workflow, attempt.ended_at - attempt.started_at)
            self._check_eta(attempt, attempt.ended_at)
            if attempt.ran_s is not None:
                for key in (attempt.executor, row.workflow):
                    self.runs.setdefault(key, deque(maxlen=LAST_RUNS)).append(attempt.ran_s)

    def _succeeded(self, row: JobRow, attempt: AttemptRow, at: float) -> None:
        known = self.config.executor_rows.get(attempt.executor)
        if known is not None and runs_by(row.kind) is RunsBy.WORKERS:
            self.limits.succeeded(known.provider, at)

    def correct(self, row: JobRow, attempt: AttemptRow) -> None:
        """Apply the difference between the charge taken and the one that came true.

        A class that the policy has no more has no line to correct: the difference is dropped.
        """
        if attempt.charge_due is None:
            return
        if self.config.policy.class_named(attempt.job_class) is not None:
            self.states[row.pool].order.correct(
                attempt.job_class,
                row.tenant,
                row.workspace,
                attempt.charge_due - attempt.charge,
                attempt.lifts,
                attempt.workspace_lifts,
            )
        self.corrected.append(attempt.id)

    def _check_eta(self, attempt: AttemptRow, ended_at: float) -> None:
        at, finish = attempt.eta_at, attempt.eta_finish
        if at is None or finish is None or attempt.eta_low is None or attempt.eta_high is None:
            return
        self.checked.append(
            Checked(
                predicted_s=finish - at,
                low_s=attempt.eta_low - at,
                high_s=attempt.eta_high - at,
                actual_s=ended_at - at,
            )
        )


def given_seconds(config: Config) -> dict[str, float]:
    """Return the workflows' own estimates."""
    return {
        workflow: facts.expected_s
        for workflow, facts in config.workflows.items()
        if facts.expected_s
    }


def parked_reason(row: JobRow) -> Reason:
    """Say why a job that waits stands in no line."""
    if row.paused:
        return Reason.JOB_PAUSED
    return Reason(row.reason) if row.reason in set(Reason) else Reason.RETRY_WAIT


def _retune(state: PoolState, tenant: str, before: TenantFacts | None, facts: TenantFacts) -> None:
    if before is None or before.weight != facts.weight:
        state.set_weight(tenant, facts.weight)
    if facts.held and (before is None or not before.held):
        state.hold(tenant)
    elif before is not None and before.held and not facts.held:
        state.unhold(tenant)
