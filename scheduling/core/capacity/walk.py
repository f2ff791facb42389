"""How far the walk over the order may go, and what each job on its way is told (DESIGN 4.2).

Walk. The order is walked from the front, and each job is put to these tests, in this order:

1. own limits: full -> skipped, it blocks nobody;
2. shared limits: full -> skipped, and each full one is closed to the jobs behind;
3. an eligible executor: none -> skipped;
   its tenant's rate window: no room -> skipped, it blocks nobody but its own tenant's jobs;
   the limits and rate windows of its executors' providers: an executor whose provider has no room
   is none for it; no other left -> skipped, and those providers are closed to the jobs behind, so
   that small jobs behind do not use up what it waits for. A provider whose retry budget is used up
   is none for a retry, and closed to nobody else; so is an executor whose half-open circuit has its
   one job out already;
4. executor slots: none free -> its candidates are closed to those behind and it is skipped,
   unless it lacks units too: then it stops for units. A job that our workers run needs a free
   worker as well; where only that is lacking, a job behind that needs none may take the slot. It keeps its claim: once placements behind it
   have left too few units for it, it lacks both and stops the walk like any other;
5. units: the first job that does not fit stops the walk for the part it waits for (head of line):
   a general job for all that may not use the reserve, an incident for the whole pool. What needs
   no units (a review) fits however few are free.

A job takes all that it needs in one step or nothing.
"""

from collections.abc import Sequence
from math import inf
from typing import TypeAlias

from msgspec import Struct

from scheduling.core.capacity.room import Room, Shadow, shadow_of
from scheduling.core.types import KEY, UNLIMITED, Executor, Job, LimitKey, Reason


class Fit(Struct, frozen=True):
    """The job may start now; `backfilled` when it passes a head that waits.

    `executors` are its candidates whose providers have room for it, busy or not.
    """

    executors: Sequence[Executor]
    backfilled: bool = False


class Skip(Struct, frozen=True):
    """The job cannot start now and blocks nobody by it, but what it closed.

    `window` is the key of the own rate window that has no room for it.
    """

    reason: Reason
    window: LimitKey | None = None


class Stop(Struct, frozen=True):
    """The job waits for units; `whole_pool` tells for which part it stops the walk."""

    reason: Reason
    whole_pool: bool


Answer: TypeAlias = Fit | Skip | Stop

_BEHIND = Skip(Reason.BEHIND_HEAD)


class Walk:
    """One pass over the order: remembers what is closed and which parts have stopped."""

    __slots__ = (
        "_claims",
        "_closed_executors",
        "_closed_limits",
        "_closed_windows",
        "_general_stopped",
        "_head",
        "_largest",
        "_pool_stopped",
        "_room",
        "_seen_use",
        "_shadow",
        "closed_providers",
        "opens_at",
    )

    def __init__(self, room: Room) -> None:
        """Start with nothing closed."""
        self._room = room
        self._closed_limits: set[LimitKey] = set()
        self._closed_windows: set[LimitKey] = set()
        self.closed_providers: set[str] = set()
        """The providers that can take no further job of this walk."""
        self.opens_at = inf
        """When the first of their rate windows has room for the job that closed it."""
        self._closed_executors: set[str] = set()
        self._claims: list[tuple[int, bool]] = []
        self._largest = 0
        self._head = (0, False)
        self._general_stopped = False
        self._pool_stopped = False
        self._seen_use = -1
        self._shadow: Shadow | None = None

    def stopped(self, *, uses_reserve: bool) -> bool:
        """Tell whether a head waits for units in front of the jobs of that part."""
        if not self._claims:
            return False
        if self._seen_use != self._room.use.total:
            self._look_back()
        return self._pool_stopped or (self._general_stopped and not uses_reserve)

    def ended(self, *, uses_reserve: bool) -> bool:
        """Tell whether no further job of that part can start in this walk."""
        if not self._claims or self._room.backfill:
            return False
        return self.stopped(uses_reserve=uses_reserve)

    def test(self, job: Job, *, uses_reserve: bool, candidates: Sequence[Executor]) -> Answer:
        """Put the next job of the order to the tests; `candidates` may run it, busy or not."""
        refusal = self._refusal(job, candidates)
        if refusal is not None:
            return refusal
        open_ones = self.open_to(job, candidates)
        if not open_ones:
            return Skip(self._close_providers(job, candidates))
        behind = self.stopped(uses_reserve=uses_reserve)
        if job.cost > max(0, self._room.free(uses_reserve=uses_reserve)):
            return _BEHIND if behind else self._stop(job, uses_reserve=uses_reserve)
        if not self._has_slot(job, open_ones):
            has_seat = self._room.has_seat
            self._closed_executors.update(one.id for one in open_ones if not has_seat(one))
            self._close_providers(job, candidates)
            self._claim(job.cost, uses_reserve=uses_reserve)
            return Skip(Reason.EXECUTOR_BUSY)
        return self._pass_head(job, open_ones) if behind else Fit(open_ones)

    def open_to(self, job: Job, candidates: Sequence[Executor]) -> Sequence[Executor]:
        """Return those of `candidates` whose providers have room for the job."""
        if not self._is_gated(job):
            return candidates
        return [one for one in candidates if self._executor_refusal(one, job) is None]

    def _refusal(self, job: Job, candidates: Sequence[Executor]) -> Skip | None:
        if self._room.full(job.limits):
            return Skip(Reason.OWN_LIMIT)
        if job.shared and self._close_limits(job):
            return Skip(Reason.SHARED_LIMIT)
        if not candidates:
            return Skip(Reason.NO_EXECUTOR)
        own = ("tenant", job.tenant)
        bound = self._room.windows and job.limits != UNLIMITED
        if bound and self._is_over(own, job.tokens):
            self._closed_windows.add(own)
            return Skip(Reason.RATE_WINDOW, own)
        return None

    def _is_over(self, key: LimitKey, tokens: int) -> bool:
        """Tell whether the key's rate window has no room, or is closed to the jobs behind."""
        window = self._room.windows.get(key)
        if window is None:
            return False
        return key in self._closed_windows or not window.has_room(tokens, self._room.now)

    def _is_gated(self, job: Job) -> bool:
        """Tell whether an executor can be closed to the job by anything but its slots."""
        room = self._room
        return room.by_provider or room.probes or (job.retry and bool(room.retries))

    def _executor_refusal(self, executor: Executor, job: Job) -> Reason | None:
        """Tell why an executor that may run the job is closed to it."""
        refusal = None
        if self._room.by_provider:
            refusal = self._provider_refusal(executor, job.tokens)
        if refusal is None and job.retry:
            budget = self._room.retries.get(executor.provider)
            if budget is not None and not budget.has_room(self._room.now):
                refusal = Reason.RETRY_BUDGET
        if refusal is None and executor.probing and self._has_probe_out(executor, job):
            refusal = Reason.CIRCUIT_OPEN
        return refusal

    def _has_probe_out(self, executor: Executor, job: Job) -> bool:
        """Tell whether a half-open circuit has its one job out already."""
        model = executor.model_of(job.model)
        on_key = KEY in executor.probing and self._room.busy.get(executor.id, 0)
        on_model = model in executor.probing and self._room.on_model.get((executor.id, model), 0)
        return bool(on_key or on_model)

    def _provider_refusal(self, executor: Executor, tokens: int) -> Reason | None:
        key = ("provider", executor.provider)
        if key in self._closed_limits or self._room.full((key,)):
            return Reason.SHARED_LIMIT
        return Reason.RATE_WINDOW if self._is_over(key, tokens) else None

    def _close_providers(self, job: Job, candidates: Sequence[Executor]) -> Reason:
        """Close the providers that have no room for the job; tell why the last of them has none."""
        why = Reason.SHARED_LIMIT
        for executor in candidates if self._is_gated(job) else ():
            refusal = self._executor_refusal(executor, job)
            if refusal is None:
                continue
            why = refusal
            self._close_provider(executor.provider, refusal, job)
        return why

    def _close_provider(self, provider: str, refusal: Reason, job: Job) -> None:
        """Close what stands in the way to the jobs behind, and note when time alone opens it."""
        key, now = ("provider", provider), self._room.now
        opens_at = inf
        if refusal is Reason.RETRY_BUDGET:
            opens_at = self._room.retries[provider].opens_at(now)
        elif refusal is Reason.SHARED_LIMIT:
            self.closed_providers.add(provider)
            self._closed_limits.add(key)
        elif refusal is Reason.RATE_WINDOW:
            self.closed_providers.add(provider)
            if key not in self._closed_windows:
                self._closed_windows.add(key)
                opens_at = self._room.windows[key].opens_at(job.tokens, now)
        self.opens_at = min(self.opens_at, opens_at)

    def _close_limits(self, job: Job) -> bool:
        full = self._room.full(job.shared)
        self._closed_limits.update(full)
        return bool(full) or not self._closed_limits.isdisjoint(job.shared)

    def _has_slot(self, job: Job, candidates: Sequence[Executor]) -> bool:
        for executor in candidates:  # a loop: this is asked for each job that a walk looks at
            if executor.id in self._closed_executors:
                continue
            if self._room.takes(executor, by_worker=job.by_worker):
                return True
        return False

    def _stop(self, job: Job, *, uses_reserve: bool) -> Stop:
        self._claim(job.cost, uses_reserve=uses_reserve)
        self._look_back()
        return Stop(Reason.HEAD_WAITS_FOR_UNITS, whole_pool=uses_reserve)

    def _claim(self, cost: int, *, uses_reserve: bool) -> None:
        self._claims.append((cost, uses_reserve))
        self._largest = max(self._largest, cost)

    def _look_back(self) -> None:
        """Find the first job behind us that lacks units now, and the parts that such jobs stop."""
        self._seen_use = self._room.use.total
        self._shadow = None
        free = {part: self._room.free(uses_reserve=part) for part in (False, True)}
        if self._largest <= free[False]:
            return
        lacking = [(cost, part) for cost, part in self._claims if cost > free[part]]
        if lacking:
            self._head = lacking[0]
            self._general_stopped = True
            self._pool_stopped = any(part for _, part in lacking)

    def _pass_head(self, job: Job, open_ones: Sequence[Executor]) -> Answer:
        """Let a job that fits pass the head if it cannot delay it."""
        if not self._room.backfill:
            return _BEHIND
        if self._shadow is None:
            cost, uses_reserve = self._head
            self._shadow = shadow_of(cost, self._room, uses_reserve=uses_reserve)
        in_time = self._room.now + job.expected_s <= self._shadow.at
        fits = in_time or job.cost <= self._shadow.extra
        return Fit(open_ones, backfilled=True) if fits else _BEHIND
