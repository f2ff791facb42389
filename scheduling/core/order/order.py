"""The fair order of one pool, kept up to date change by change: the next job costs O(log tenants).

Classes stand in strict order. A fifo class is one line by age; any other is a fair merge of its
tenants, each a fair merge of its workspaces' lines (`fair`). Held and own-limit-blocked jobs are
kept outside the lines (`scopes`), and aging moves jobs between classes (`aging`).

A walk stays valid while spots that it has shown are placed, and ends with `StaleWalk` after any
other change; `revision` counts those changes. A placement is such a change only when it makes aged
jobs of its tenant fall back. Placing the heads during one walk gives the order that a walk begun
anew after each placement gives. Where jobs were skipped, a new walk may put a skipped job behind
one that this walk has not shown yet, since the charge moved the skipped job's turn; both orders
serve the same shares.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import chain, islice
from types import MappingProxyType

from scheduling.core.order.aging import Aging, rungs_of
from scheduling.core.order.fair import Tree
from scheduling.core.order.heads import Step
from scheduling.core.order.lines import Line
from scheduling.core.order.memory import Memories, Share
from scheduling.core.order.waiting import Waiting
from scheduling.core.types import ClassRule, Job, LimitKey, Memory, MemoryKey, Spot

NO_WEIGHTS: Mapping[str, int] = MappingProxyType({})
NO_MEMORY: Mapping[MemoryKey, Memory] = MappingProxyType({})


class StaleWalk(RuntimeError):
    """The order has changed under a walk: begin a new one."""


class Order:
    """The jobs that wait in one pool, in the order in which they are to be placed.

    `weights` and `workspace_weights` default to 1. `age_after` is in seconds, 0 turns aging off.
    Raises ValueError for a class table or a weight that cannot be used.
    """

    def __init__(  # noqa: PLR0913 - the ordering settings of a policy, each with its default
        self,
        *,
        classes: Sequence[ClassRule],
        weights: Mapping[str, int] = NO_WEIGHTS,
        workspace_weights: Mapping[str, int] = NO_WEIGHTS,
        memory: Mapping[MemoryKey, Memory] = NO_MEMORY,
        age_after: float = 1800,
        age_limit: int = 10,
        deadlines: bool = False,
    ) -> None:
        self.class_names = tuple(rule.name for rule in classes)
        self.revision = 0
        self.classes = tuple(classes)
        self.age_after = age_after
        self.age_limit = age_limit
        self.deadlines = deadlines
        rungs = rungs_of(classes)
        self._memories = Memories(memory, weights, workspace_weights)
        self._tree = Tree(classes, self._memories, deadlines=deadlines)
        aging = Aging(age_after=age_after, age_limit=age_limit)
        self._waiting = Waiting(self._tree, self._memories, aging, rungs if age_after > 0 else {})
        self.jobs: Mapping[str, Job] = self._waiting.jobs
        """All jobs by id, blocked or not."""

    def __len__(self) -> int:
        return len(self.jobs)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self.jobs

    def get(self, job_id: str) -> Job | None:
        """The job, blocked or not."""
        return self.jobs.get(job_id)

    def add(self, job: Job) -> None:
        """Put a job in, in its own class (it climbs at the next `advance`).

        Raises ValueError for an id that is here already and for an unknown class.
        """
        self._waiting.enter(job)
        self.revision += 1

    def load(self, jobs: Iterable[Job], now: float) -> None:
        """Put in the jobs that wait when a process starts with a saved memory.

        Set the blocks first. A line that the memory calls backlogged goes on where it stood; any
        other is lifted as by `add`. Raises ValueError as `add` does.
        """
        resumed = self._memories.resume()
        self._waiting.enter_all([(job, job.class_name) for job in jobs])
        self.revision += 1
        self.advance(now)
        self._forget_idle(resumed)

    def remove(self, job_id: str) -> Job | None:
        """Take a job out; None when it is not here."""
        job = self.get(job_id)
        if job is not None:
            self._waiting.leave(job)
            self.revision += 1
        return job

    def replace(self, job: Job) -> None:
        """Give the job of this id new facts (cost, charge, deadline ...) without a lift.

        A new tenant, workspace, class or set of limits makes it a removal and an addition. Raises
        KeyError for an unknown id.
        """
        if self._waiting.keeps_place(job):
            self._waiting.replace(job)
            self.revision += 1
        else:
            self.remove(job.id)
            self.add(job)

    def block(self, key: LimitKey, why: str) -> None:
        """Keep every job that counts under `key` out of the lines; several reasons may stand.

        A job counts under its `limits` and under ("tenant", its tenant) and ("workspace", its
        workspace).
        """
        self._waiting.turn(self._waiting.scopes.block(key, why))
        self.revision += 1

    def unblock(self, key: LimitKey, why: str) -> None:
        """Take one reason away; lines that become backlogged by it are lifted."""
        self._waiting.turn(self._waiting.scopes.unblock(key, why))
        self.revision += 1

    def blocked_jobs(self) -> list[Job]:
        """The jobs outside the lines, oldest first."""
        return sorted(self._waiting.blocked(), key=_age)

    def why_blocked(self, job_id: str) -> tuple[tuple[LimitKey, str], ...]:
        """The blocked keys of a job with their reasons; empty when it stands in a line.

        Raises KeyError for an unknown id.
        """
        return self._waiting.why(job_id)

    def set_weight(self, tenant: str, weight: int) -> None:
        """Change a tenant's weight; `block` holds it. Raises ValueError below 1."""
        self._memories.set_weight(tenant, weight)
        self.revision += 1

    def set_workspace_weight(self, workspace: str, weight: int) -> None:
        """Change a workspace's weight inside its tenant. Raises ValueError below 1."""
        self._memories.set_workspace_weight(workspace, weight)
        self.revision += 1

    def advance(self, now: float) -> None:
        """Apply aging for `now`, which never runs back. Cheap when nobody climbs or falls."""
        self.revision += self._waiting.advance(now)

    def ages_at(self) -> float:
        """When aging may change the order next (or a little before); infinity: it will not."""
        return self._waiting.ages_at()

    def walk(self, class_name: str) -> Iterator[Spot]:
        """The jobs of a class in order, lazily. Raises StaleWalk as the module tells."""
        revision = self.revision
        for step in self._tree.roots[class_name].walk():
            yield _spot(class_name, step)
            if self.revision != revision:
                raise StaleWalk("the order changed during a walk; begin a new walk")

    def walk_all(self) -> Iterator[Spot]:
        """All startable jobs in order, lazily."""
        for class_name in self.class_names:
            yield from self.walk(class_name)

    def open_classes(self) -> list[str]:
        """The classes of which a job could start."""
        return [name for name, root in self._tree.roots.items() if root.heads.live]

    def head(self, class_name: str) -> Spot | None:
        """The first job of a class."""
        step = self._tree.roots[class_name].head()
        return None if step is None else _spot(class_name, step)

    def startable(self) -> Iterator[tuple[Job, str]]:
        """Every startable job with the class in which it stands, in no order."""
        return self._waiting.startable()

    def stands_in(self, job_id: str) -> str:
        """The class in which a job stands now. Raises KeyError for an unknown id."""
        return self._waiting.stands_in(job_id)

    def place(self, spot: Spot, now: float) -> tuple[int, int]:
        """Take a job out of the order to run it, and charge its tenant and workspace.

        The job's charge is the one that it has here. The answer is the lift counts of its tenant
        and workspace, to be handed to `correct` (zeros for a fifo class, which charges nobody).
        Raises ValueError when the job does not stand, startable, in the spot's class.
        """
        job, line = self._waiting.find(spot.job.id)
        if job is None or line is None or line.class_name != spot.class_name:
            msg = f"job {spot.job.id} is not to be had in {spot.class_name}; take a fresh spot"
            raise ValueError(msg)
        above = line.above
        lifts = (0, 0) if above is None else above.place(job.charge)
        self._memories.share((job.class_name, job.tenant, None)).stamp(now)
        self.revision += self._waiting.fall_back(job)
        self._waiting.leave(job)
        return lifts[0], lifts[1]

    def correct(
        self,
        class_name: str,
        tenant: str,
        workspace: str,
        delta: int,
        lifts: int,
        workspace_lifts: int,
    ) -> None:
        """Charge `delta` more (negative: less) to where a job was placed from.

        A refund is dropped at a level whose lift count has changed since. A fifo class charges
        nobody, so there nothing happens.
        """
        if not isinstance(self._tree.roots[class_name], Line):
            key = (class_name, tenant, workspace)
            self._memories.share((class_name, tenant, None)).correct(delta, lifts)
            self._memories.share(key).correct(delta, workspace_lifts)
            self._tree.refresh(key)
            self.revision += 1

    def memory(self, key: MemoryKey) -> Memory:
        """What is remembered of one line now."""
        return self._memories.read(key)

    def weight(self, key: MemoryKey) -> int:
        """The weight of a line now."""
        return self._memories.weight(key)

    def memory_changes(self) -> dict[MemoryKey, Memory]:
        """The memories that changed since the last call, for saving."""
        return self._memories.changes()

    def first(self, n: int, but: Collection[str] = ()) -> "Order":
        """An independent order with the first `n` jobs and the oldest `n` blocked ones.

        The classes `but` are passed over. It has the same memory, weights and blocks, and no line
        is lifted by the copying.
        """
        weights, workspace_weights = self._memories.weights
        copy = Order(
            classes=self.classes,
            weights=weights,
            workspace_weights=workspace_weights,
            memory=self._memories.all(),
            age_after=self.age_after,
            age_limit=self.age_limit,
            deadlines=self.deadlines,
        )
        walks = (self.walk(name) for name in self.class_names if name not in but)
        jobs = [spot.job for spot in islice(chain.from_iterable(walks), n)]
        jobs += nsmallest(n, self._waiting.blocked(), key=_age)
        copy._take_over(self, jobs)
        return copy

    def _take_over(self, other: "Order", jobs: Iterable[Job]) -> None:
        """Copy the blocks of another order, and jobs to stand where they stand there."""
        for key, why in other._waiting.scopes.blocks():
            self.block(key, why)
        resumed = self._memories.resume()
        self._waiting.enter_all([(job, other.stands_in(job.id)) for job in jobs])
        self._forget_idle(resumed)
        self.memory_changes()

    def _forget_idle(self, resumed: Iterable[Share]) -> None:
        """Of the lines that were backlogged, note those that are so no more."""
        for share in resumed:
            if not self._tree.is_backlogged(share.key):
                share.rest()


def _spot(class_name: str, step: Step) -> Spot:
    job, turns = step
    turn, workspace_turn = turns or (None, None)
    return Spot(job=job, class_name=class_name, turn=turn, workspace_turn=workspace_turn)


def _age(job: Job) -> tuple[float, int]:
    return job.submitted_at, job.seq
