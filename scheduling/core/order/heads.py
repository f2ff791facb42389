"""A heap of the heads of many sorted sources, with lazy removal, and the merge of those sources.

Putting a new head for a source leaves its old entry in the heap, unless that stands on top; an
entry counts only while its source still points at it. So a change costs O(log sources), and a walk
starts from a plain copy of the heap without touching the original.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, TypeAlias

from scheduling.core.types import Job

Key: TypeAlias = tuple[float, float, int]
"""(turn or deadline, submitted_at, seq): unique, as two jobs never share a seq."""

Step: TypeAlias = tuple[Job, tuple[int, ...]]
"""A job on a walk and its turns, the outermost level first."""

Entry: TypeAlias = tuple[float, float, int, int, Any]
"""A key, the number of the push (so that a comparison never reaches the source) and the source."""


class Source:
    """Something with a head, the job `job`; `entry` is its valid entry in its `Heads`."""

    __slots__ = ("entry", "job")

    def __init__(self) -> None:
        self.entry: Entry | None = None
        self.job: Job | None = None

    def ahead(self) -> Iterator[tuple[Key, Step]]:
        """Every job of this source in its own order, without changing anything."""
        raise NotImplementedError


class _Stream:
    """A source that a walk has begun: the step that it shows now, and the rest."""

    __slots__ = ("rest", "step")

    def __init__(self, source: Source) -> None:
        self.rest = source.ahead()
        self.step = next(self.rest)[1]


class Heads:
    """The heads of many sources; `first` is the least."""

    __slots__ = ("_heap", "_pushes", "live")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._pushes = 0
        self.live = 0
        """How many sources have a head."""

    def put(self, source: Source, job: Job, first: float) -> bool:
        """Make `job` the head of `source`, `first` (a turn or deadline) before its age.

        Say whether that changes its key.
        """
        source.job = job
        old, heap = source.entry, self._heap
        if old is not None and old[:3] == (first, job.submitted_at, job.seq):
            return False
        self._pushes += 1
        source.entry = entry = (first, job.submitted_at, job.seq, self._pushes, source)
        if old is not None and heap[0] is old:
            heapreplace(heap, entry)
            return True
        self.live += old is None
        heappush(heap, entry)
        if len(heap) > 2 * self.live + 64:
            self._drop_stale()
        return True

    def drop(self, source: Source) -> bool:
        """Let `source` have no head; say whether that is a change."""
        old = source.entry
        if old is None:
            return False
        source.entry = source.job = None
        self.live -= 1
        if self._heap[0] is old:
            heappop(self._heap)
        return True

    def _drop_stale(self) -> None:
        self._heap = [entry for entry in self._heap if entry[4].entry is entry]
        heapify(self._heap)

    def first(self) -> Any:  # noqa: ANN401 - the owner knows which kind of source it put in
        """The source with the least head, or None."""
        heap = self._heap
        while heap:
            entry = heap[0]
            source = entry[4]
            if source.entry is entry:
                return source
            heappop(heap)
        return None

    def walk(self) -> Iterator[Step]:
        """Merge all sources by the keys of their heads, lazily.

        The next step of a source is read only when the walk goes on, so a walk stays right while
        steps that it has already shown are placed. Any other change makes it worthless. A source
        goes on without a detour over the heap while its next key is the least.
        """
        heap: list[Entry] = self._heap.copy()
        while heap:
            entry = heappop(heap)
            stream = entry[4]
            if isinstance(stream, Source):
                if stream.entry is not entry:
                    continue
                stream = _Stream(stream)
            yield stream.step
            for key, step in stream.rest:
                if heap and heap[0] < key:
                    stream.step = step
                    heappush(heap, (*key, 0, stream))
                    break
                yield step
