"""Which jobs wait, and where each of them stands.

A job has one place in a line of the class in which it stands, and if its own class ages, one more
in its tenant's line by age, from which `aging` tells who has climbed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from scheduling.core.order.aging import Aging, Climb
from scheduling.core.order.fair import Tree
from scheduling.core.order.lines import Line, Subline
from scheduling.core.order.memory import Memories
from scheduling.core.order.scopes import Identity, Scope, Scopes, identity
from scheduling.core.types import Job, LimitKey

_SUBMITTED_AT = attrgetter("submitted_at")


class Waiting:
    """The jobs, their sublines and their climbs."""

    __slots__ = (
        "_aging",
        "_climbs",
        "_memories",
        "_rungs",
        "_stands",
        "_tree",
        "jobs",
        "scopes",
    )

    def __init__(
        self, tree: Tree, memories: Memories, aging: Aging, rungs: dict[str, tuple[str, ...]]
    ) -> None:
        self.jobs: dict[str, Job] = {}
        self.scopes = Scopes()
        self._tree = tree
        self._memories = memories
        self._aging = aging
        self._rungs = rungs
        self._stands: dict[str, Subline] = {}
        self._climbs: dict[tuple[str, str], Climb] = {}

    def enter(self, job: Job) -> None:
        """Put a new job in, to stand in its own class."""
        if job.id in self.jobs or job.class_name not in self._tree.roots:
            raise self._refusal(job)
        self.jobs[job.id] = job
        scope = self.scopes.enter(identity(job))
        subline = self._stands[job.id] = self._subline(scope, job.class_name)
        subline.add(job)
        if job.class_name in self._rungs:
            climb, by_age = self._age_line(scope, job.class_name)
            by_age.add(job)
            self._aging.stir(climb, job)

    def enter_all(self, pairs: Sequence[tuple[Job, str]]) -> None:
        """Put new jobs in, each to stand in the class beside it: as one by one, but line by line.

        No line is lifted higher or lower by that, since nothing is placed in between.
        """
        fresh: dict[str, Job] = {}
        alike: defaultdict[tuple[Identity, str, str], list[Job]] = defaultdict(list)
        for job, class_name in pairs:
            own_class = job.class_name
            if job.id in fresh or job.id in self.jobs or own_class not in self._tree.roots:
                raise self._refusal(job)
            fresh[job.id] = job
            alike[identity(job), own_class, class_name].append(job)
        self.jobs.update(fresh)
        for (named, own_class, class_name), jobs in alike.items():
            scope = self.scopes.enter(named, len(jobs))
            subline = self._subline(scope, class_name)
            self._stands.update(dict.fromkeys((job.id for job in jobs), subline))
            subline.add_all(jobs)
            if own_class in self._rungs:
                self._age_all(scope, own_class, class_name, jobs)

    def _age_all(self, scope: Scope, own_class: str, class_name: str, jobs: list[Job]) -> None:
        climb, by_age = self._age_line(scope, own_class)
        by_age.add_all(jobs)
        if class_name != own_class:
            climb.aged.update((job.id, (job, class_name)) for job in jobs)
        self._aging.stir(climb, min(jobs, key=_SUBMITTED_AT))

    def _refusal(self, job: Job) -> ValueError:
        classes = self._tree.roots
        if job.class_name in classes:
            return ValueError(f"job {job.id} is in the order already")
        return ValueError(f"job {job.id}: {job.class_name!r} is no class of {', '.join(classes)}")

    def _subline(self, scope: Scope, class_name: str) -> Subline:
        subline: Subline | None = scope.sublines.get(class_name)
        if subline is None:
            tenant, workspace, _ = scope.identity
            subline = Subline(self._tree.line(class_name, tenant, workspace), scope)
            scope.sublines[class_name] = subline
        return subline

    def _age_line(self, scope: Scope, own_class: str) -> tuple[Climb, Subline]:
        found: tuple[Climb, Subline] | None = scope.by_age.get(own_class)
        if found is None:
            climb = self._climb(scope.identity[0], own_class)
            found = scope.by_age[own_class] = climb, Subline(climb.line, scope)
        return found

    def _climb(self, tenant: str, own_class: str) -> Climb:
        climb = self._climbs.get((tenant, own_class))
        if climb is None:
            share = self._memories.share((own_class, tenant, None))
            climb = self._climbs[tenant, own_class] = Climb(
                own_class, share, self._rungs[own_class]
            )
        return climb

    def leave(self, job: Job) -> None:
        """Take a job out of its lines."""
        subline = self._stands.pop(job.id)
        del self.jobs[job.id]
        found = subline.scope.by_age.get(job.class_name)
        if found is not None:
            climb, by_age = found
            by_age.remove(job)
            if climb.aged:
                self._aging.stir(climb)
                climb.aged.pop(job.id, None)
        subline.remove(job)
        self.scopes.leave(subline.scope)

    def replace(self, job: Job) -> None:
        """Give a job of the same scope and class new facts."""
        old, subline = self.jobs[job.id], self._stands[job.id]
        self.jobs[job.id] = job
        subline.replace(old, job)
        found = subline.scope.by_age.get(job.class_name)
        if found is not None:
            climb, by_age = found
            by_age.replace(old, job)
            if job.id in climb.aged:
                climb.aged[job.id] = (job, climb.aged[job.id][1])
            self._aging.stir(climb, job)

    def keeps_place(self, job: Job) -> bool:
        """Whether `replace` may be used for this job of a known id."""
        old = self.jobs[job.id]
        return (identity(old), old.class_name) == (identity(job), job.class_name)

    def find(self, job_id: str) -> tuple[Job | None, Line | None]:
        """A startable job and its line; None for both when there is no such job."""
        subline = self._stands.get(job_id)
        if subline is None or subline.scope.shut:
            return None, None
        return self.jobs[job_id], subline.line

    def stands_in(self, job_id: str) -> str:
        """The class in which a job stands."""
        return self._stands[job_id].line.class_name

    def startable(self) -> Iterator[tuple[Job, str]]:
        """The jobs in lines with the classes in which they stand, in no order."""
        stands = self._stands
        for key, job in self.jobs.items():
            subline = stands[key]
            if not subline.scope.shut:
                yield job, subline.line.class_name

    def blocked(self) -> Iterator[Job]:
        """The jobs outside the lines, in no order."""
        if not self.scopes.any_shut():
            return iter(())
        return (job for key, job in self.jobs.items() if self._stands[key].scope.shut)

    def why(self, job_id: str) -> tuple[tuple[LimitKey, str], ...]:
        """The blocked keys of a job with their reasons."""
        return self.scopes.why(self._stands[job_id].scope)

    def turn(self, scopes: Iterable[Scope]) -> None:
        """Close or open the sublines of scopes that were shut or opened."""
        for scope in scopes:
            for subline in scope.sublines.values():
                subline.line.refresh(subline)
            for climb, by_age in scope.by_age.values():
                climb.line.refresh(by_age)
                self._aging.stir(climb, by_age.job)

    def advance(self, now: float) -> bool:
        """Let jobs climb and fall back; whether any did."""
        moves = self._aging.moves(now)
        return bool(moves) and self._move(moves)

    def ages_at(self) -> float:
        """When somebody may climb next."""
        return self._aging.due_at()

    def fall_back(self, job: Job) -> bool:
        """`job` is being placed: its tenant's others of its class go back; whether any did."""
        climb = self._climbs.get((job.tenant, job.class_name))
        if climb is None or not climb.aged:
            return False
        return self._move(self._aging.fall_back(climb, job))

    def _move(self, moves: list[tuple[Job, str]]) -> bool:
        """Let jobs stand elsewhere: first in, then out, so that no line is idle in between."""
        left = [(job, self._stands[job.id]) for job, _ in moves]
        into: defaultdict[Subline, list[Job]] = defaultdict(list)
        for job, class_name in moves:
            subline = self._subline(self._stands[job.id].scope, class_name)
            self._stands[job.id] = subline
            into[subline].append(job)
        for subline, jobs in into.items():
            subline.add_all(jobs)
        for job, subline in left:
            subline.drop(job)
        for subline in dict.fromkeys(subline for _, subline in left):
            subline.climb()
        return bool(moves)
