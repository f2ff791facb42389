"""A line: the startable jobs of one workspace and class (or of a whole fifo class), oldest first.

A line is the merge of sublines, one for each scope (set of own-limit keys) that its jobs count
under, so that filling or freeing a limit opens or closes whole sublines instead of moving jobs.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf
from typing import Protocol, TypeAlias

from sortedcontainers import SortedList

from scheduling.core.order.heads import Heads, Key, Source, Step
from scheduling.core.order.scopes import Scope
from scheduling.core.types import Job

Item: TypeAlias = tuple[float, float, int, Job]

CHUNK = 256
"""Most jobs that a walk reads ahead of what it has shown."""


class Above(Protocol):
    """What a line reports to: its place among the lines beside it."""

    def refresh(self) -> None:
        """The line's head may have changed: look again, upwards as long as heads change."""

    def renew(self) -> None:
        """The line's turn and those above it may have changed too: look again, up to the top."""

    def place(self, charge: int) -> tuple[int, ...]:
        """Charge a placement at this level and above; the lift counts, outermost first."""


class Line:
    """Jobs in order: by deadline if told, then submitted_at, then seq."""

    __slots__ = ("above", "class_name", "deadlines", "heads")

    def __init__(self, class_name: str, *, deadlines: bool = False) -> None:
        self.class_name = class_name
        self.deadlines = deadlines
        self.above: Above | None = None
        self.heads = Heads()

    def item(self, job: Job) -> Item:
        """The job with its sort key."""
        first = 0.0
        if self.deadlines:
            first = inf if job.deadline is None else job.deadline
        return first, job.submitted_at, job.seq, job

    def first(self) -> Job | None:
        """The head, or None."""
        subline: Subline | None = self.heads.first()
        return None if subline is None else subline.job

    def head(self) -> Step | None:
        """The head as the first step of a walk."""
        job = self.first()
        return None if job is None else (job, ())

    def walk(self) -> Iterator[Step]:
        """All jobs of open sublines in order."""
        return self.heads.walk()

    def settle(self, subline: "Subline") -> bool:
        """Note the head of `subline` as it is now; say whether it changed."""
        if subline.scope.shut or not subline.items:
            return self.heads.drop(subline)
        item: Item = subline.items[0]
        return self.heads.put(subline, item[3], item[0])

    def refresh(self, subline: "Subline") -> None:
        """Note the head of `subline`, and tell the level above when it changed."""
        if self.settle(subline) and self.above is not None:
            self.above.refresh()


class Subline(Source):
    """The jobs of one line that share one scope."""

    __slots__ = ("items", "line", "scope")

    def __init__(self, line: Line, scope: Scope) -> None:
        super().__init__()
        self.line = line
        self.scope = scope
        self.items: SortedList = SortedList()

    def add(self, job: Job) -> None:
        """Put a job in."""
        item = self.line.item(job)
        self.items.add(item)
        if self.entry is None or item < self.entry:
            self.line.refresh(self)

    def add_all(self, jobs: Iterable[Job]) -> None:
        """Put many jobs in at once: they are sorted, and the line looks once."""
        self.items.update(map(self.line.item, jobs))
        self.line.refresh(self)

    def remove(self, job: Job) -> None:
        """Take a job out; the levels above look again whether it was the head or not."""
        self.drop(job)
        self.climb()

    def drop(self, job: Job) -> None:
        """Take a job out, with a `climb` to follow."""
        if self.job is job or self.items[0][3] is job:
            self.items.pop(0)
        else:
            self.items.remove(self.line.item(job))

    def replace(self, old: Job, new: Job) -> None:
        """Put `new` in the stead of `old`; the line is not idle in between."""
        self.drop(old)
        self.items.add(self.line.item(new))
        self.climb()

    def climb(self) -> None:
        """Note the head, and let the levels above look again."""
        self.line.settle(self)
        if self.line.above is not None:
            self.line.above.renew()

    def ahead(self) -> Iterator[tuple[Key, Step]]:
        """Every job in order, read in growing chunks that start behind the last one shown."""
        size, last = 1, None
        while True:
            chunk: list[Item] = list(islice(self.items.irange(last, None, (False, True)), size))
            for item in chunk:
                yield item[:3], (item[3], ())
            if len(chunk) < size:
                return
            size, last = min(size * 4, CHUNK), chunk[-1]
