"""A heap of the heads of many sorted sources, with lazy removal, and the merge of those sources.

Putting a new head for a source leaves its old entry in the heap; an entry counts only while its
source still points at it. So a change costs O(log sources), and a walk starts from a plain copy of
the heap without touching the original.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
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

    __slots__ = ("_heap", "_live", "_pushes")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._live = 0
        self._pushes = 0

    def put(self, source: Source, job: Job, key: Key) -> bool:
        """Make `job` the head of `source`, under `key`; say whether that is a change."""
        source.job = job
        old = source.entry
        if old is None:
            self._live += 1
        elif old[:3] == key:
            return False
        self._pushes += 1
        source.entry = entry = (*key, self._pushes, source)
        heappush(self._heap, entry)
        if len(self._heap) > 2 * self._live + 64:
            self._drop_stale()
        return True

    def drop(self, source: Source) -> bool:
        """Let `source` have no head; say whether that is a change."""
        if source.entry is None:
            return False
        source.entry = source.job = None
        self._live -= 1
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
