"""Preemption: which running jobs make room for a waiting one of a strictly higher class (DESIGN 4.8).

A head waits for units, for a slot, or for both. Its victims are running jobs of lower classes that
may yield at a safe boundary, have run for their minimum and were preempted fewer times than the
most. They are taken from the lowest class first, and there the latest started first, for least is
lost with them (of those that started together the last by id); and no more of them than it takes: without any one of them the head would not fit.
Who would not fit even without them all preempts nobody.

A job's right to preempt is that of its own class: waiting long lifts its place in the order, but
does not let it stop others. A victim is judged by the class that it was placed from, which aging
may have lifted.

Why this ends. Write down, from the highest class to the lowest, the units that wait of each, and
compare two such lists at the first place in which they differ. What a head's victims free goes to
that head, for nothing of a lower class may pass it, so with each preemption the head's entry falls
and only lower ones rise: the list falls. Placements lower it, ends leave it as it is; it is made of
whole numbers, and so falls only finitely often until something new comes. Whatever comes, no job is
preempted more than `most_times` times.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.core.types import Executor, Job, Live, Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What preemption goes by: each class's place in the table (0 the highest), and the bounds."""

    ranks: Mapping[str, int]
    min_run_s: float
    most_times: int

    def has_run(self, live: Live, now: float) -> bool:
        """Tell whether a job has run for its minimum; by the sum that says when to look again, for
        a difference may be rounded to a moment before it."""
        return live.started_at + self.min_run_s <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A waiting job with the executors that could take it, but for their slots."""

    job: Job
    uses_reserve: bool
    executors: Sequence[Executor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A live job: whether it holds the reserve's part, and how often it was preempted.

    `preempted` None: it may not yield (it cannot be stopped without harm, or is stopping already).
    """

    live: Live
    uses_reserve: bool
    preempted: int | None


class Ground:
    """The units, slots and workers in use, as they would be without some of the live jobs."""

    __slots__ = ("_busy", "_manned", "_pool", "_use")

    def __init__(self, pool: Pool, runners: Iterable[Runner]) -> None:
        """Count what all the runners hold."""
        self._pool = pool
        self._use = {True: 0, False: 0}
        self._busy: dict[str, int] = {}
        self._manned: dict[str, int] = {}
        for runner in runners:
            self.put(runner, 1)

    def put(self, runner: Runner, sign: int) -> None:
        """Count a runner in (1) or out (-1)."""
        live = runner.live
        self._use[runner.uses_reserve] += sign * live.cost
        self._busy[live.executor] = self._busy.get(live.executor, 0) + sign
        if live.by_worker:
            self._manned[live.executor] = self._manned.get(live.executor, 0) + sign

    def fits(self, head: Head) -> bool:
        """Tell whether the head has its units and a slot."""
        return not any(self._lacks_units(head)) and self._has_slot(head)

    def helps(self, head: Head, runner: Runner) -> bool:
        """Tell whether the end of a runner would give the head some of what it lacks."""
        of_all, of_general = self._lacks_units(head)
        if of_all or (of_general and not runner.uses_reserve):
            return True
        if self._has_slot(head):
            return False
        where = (one for one in head.executors if one.id == runner.live.executor)
        return any(runner.live.by_worker or self._is_full(one) for one in where)

    def _lacks_units(self, head: Head) -> tuple[bool, bool]:
        """Tell whether units are lacking of all there are, and of those outside the reserve."""
        pool, general, cost = self._pool, self._use[False], head.job.cost
        return (
            cost > max(0, pool.budget - general - self._use[True]),
            not head.uses_reserve and cost > max(0, pool.budget - pool.reserve - general),
        )

    def _has_slot(self, head: Head) -> bool:
        """Where it needs a worker of ours, the slots of those that need none leave it that worker."""
        return any(
            not self._is_full(one)
            and (not head.job.by_worker or self._manned.get(one.id, 0) < one.slots)
            for one in head.executors
        )

    def _is_full(self, executor: Executor) -> bool:
        return self._busy.get(executor.id, 0) >= executor.most


def victims(
    head: Head, runners: Sequence[Runner], *, pool: Pool, rules: Rules, now: float
) -> tuple[Live, ...]:
    """Return the jobs that make room for `head`, the first to stop first; none: it must wait.

    `runners` is all that is live but what is stopping already, which counts as gone.
    """
    ground, chosen = Ground(pool, runners), list[Runner]()
    for runner in _able(head, runners, rules, now):
        if ground.helps(head, runner):
            ground.put(runner, -1)
            chosen.append(runner)
        if ground.fits(head):
            return tuple(one.live for one in _needed(head, chosen, ground))
    return ()


def _able(head: Head, runners: Iterable[Runner], rules: Rules, now: float) -> list[Runner]:
    """Return the runners that may be preempted for the head, least loss first."""
    rank = rules.ranks[head.job.class_name]
    able = [
        runner
        for runner in runners
        if runner.preempted is not None
        and runner.preempted < rules.most_times
        and rules.ranks[runner.live.class_name] > rank
        and rules.has_run(runner.live, now)
    ]
    return sorted(
        able,
        key=lambda one: (
            rules.ranks[one.live.class_name],
            one.live.started_at,
            one.live.job_id,
        ),
        reverse=True,
    )


def _needed(head: Head, chosen: Sequence[Runner], ground: Ground) -> list[Runner]:
    """Spare, the costliest loss first, each one without which the head fits all the same."""
    needed = list(chosen)
    for runner in reversed(chosen):
        ground.put(runner, 1)
        if ground.fits(head):
            needed.remove(runner)
        else:
            ground.put(runner, -1)
    return needed
