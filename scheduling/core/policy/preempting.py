"""Who is preempted for whom in a pool now: `core.preemption`, asked for each head of the order.

What is stopping already counts as gone. On a copy of the pool the cycle places all that may start
then; the first job that still waits for units or a slot, and behind no other, is a head. Its
victims leave the copy, the cycle runs again, and so on: so no second head is given what the first
one takes, and limits and rates that would keep a head from starting keep it from preempting.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from scheduling.core.capacity.walk import Skip, Stop, Walk
from scheduling.core.policy.cycle import cycle, tested
from scheduling.core.policy.state import PoolState
from scheduling.core.preemption import Head, Rules, Runner, victims
from scheduling.core.types import REVIEWS, Job, Live, Reason

LOOKED_AT = 100
"""So many jobs from the front may preempt at once."""
NEVER_HEADS = (REVIEWS.name,)
"""Reviews wait for reviewers, whom nothing else holds up; any number of them may wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempting:
    """A waiting job, and the running ones that make room for it, the first to stop first."""

    job: Job
    victims: tuple[Live, ...]


def preempting(
    state: PoolState,
    now: float,
    *,
    yielding: Mapping[str, int],
    stopping: Collection[str],
) -> list[Preempting]:
    """Return the preemptions that are due, changing nothing.

    `yielding` are the live jobs that may yield, with how often each was preempted before, and
    `stopping` those that were asked to stop already; both by job id.
    """
    rules = _rules(state)
    if not state.policy.preemption.enabled or not _is_worth_a_look(state, rules, yielding, now):
        return []
    copy, found = state.first(LOOKED_AT, but=NEVER_HEADS), list[Preempting]()
    for job_id in stopping:
        copy.end(job_id)
    while True:
        cycle(copy, now)
        due = next(_due(copy, now, rules, yielding), None)
        if due is None:
            return found
        found.append(due)
        for live in due.victims:
            copy.end(live.job_id)


def _rules(state: PoolState) -> Rules:
    bounds = state.policy.preemption
    return Rules(
        ranks={rule.name: place for place, rule in enumerate(state.policy.classes)},
        min_run_s=bounds.min_run_s,
        most_times=bounds.most_times,
    )


def _is_worth_a_look(
    state: PoolState, rules: Rules, yielding: Mapping[str, int], now: float
) -> bool:
    """Tell, without a walk, whether anything waits in a class above that of a possible victim."""
    ranks = rules.ranks
    lowest = max(
        (
            ranks[live.class_name]
            for job_id, times in yielding.items()
            if times < rules.most_times
            and (live := state.live.get(job_id)) is not None
            and rules.has_run(live, now)
        ),
        default=0,
    )
    classes = (name for name in state.order.class_names if name not in NEVER_HEADS)
    names = (name for name in classes if ranks[name] < lowest)
    return any(state.order.head(name) is not None for name in names)


def _due(
    state: PoolState, now: float, rules: Rules, yielding: Mapping[str, int]
) -> Iterator[Preempting]:
    """Yield what the heads of the order preempt, each as if it were the only one."""
    walk = Walk(state.room(now))
    runners = [
        Runner(
            live=live,
            uses_reserve=state.uses_reserve(live.class_name),
            preempted=yielding.get(live.job_id),
        )
        for live in state.live.values()
    ]
    for spot in state.order.walk_all():
        job, uses_reserve = spot.job, state.uses_reserve(spot.class_name)
        behind = walk.stopped(uses_reserve=uses_reserve)
        answer = tested(state, walk, spot)
        busy = isinstance(answer, Skip) and answer.reason is Reason.EXECUTOR_BUSY
        if behind or not (busy or isinstance(answer, Stop)):
            continue
        head = Head(
            job=job,
            uses_reserve=uses_reserve,
            executors=walk.open_to(job, state.candidates(job)),
        )
        stopped = victims(head, runners, pool=state.pool, rules=rules, now=now)
        if stopped:
            yield Preempting(job=job, victims=stopped)
