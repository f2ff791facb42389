"""The dependencies of a scenario's jobs: names that no job has, and circles.

A circle is found by a walk in depth with three colours. A generator whose jobs all wait for the
same is one node of the graph: a path that comes in at any of its jobs leaves it the same way.
"""

from collections.abc import Iterator
from typing import TypeAlias

from scheduling.simulator.ids import Ids
from scheduling.simulator.sources import Source

Node: TypeAlias = tuple[int, int]
"""(the entry's place, which of its jobs; -1 for all)."""


def unknown(sources: tuple[Source, ...], ids: Ids) -> Iterator[tuple[Source, str]]:
    """Yield the entries with a dependency that no job has, the first of each entry."""
    for source in sources:
        first = next((name for name in _names(source) if name not in ids), None)
        if first is not None:
            yield source, first


def _names(source: Source) -> Iterator[str]:
    for n in range(source.count if source.varies else min(source.count, 1)):
        yield from source.after(n)


def circle(sources: tuple[Source, ...], ids: Ids) -> tuple[Source, tuple[str, ...]] | None:
    """Return an entry that stands in a circle, with the ids on the way round; None: there is none."""
    done: set[Node] = set()
    for source in sources:
        for n in range(source.count if source.varies else min(source.count, 1)):
            found = _walked((source, n), ids, done)
            if found is not None:
                return source, found
    return None


class _Step:
    """A node on the present path, with what is left to look at behind it."""

    def __init__(self, source: Source, n: int, name: str) -> None:
        self.node = (source.place, n if source.varies else -1)
        self.name = name
        self.rest = iter(source.after(n))


def _walked(start: tuple[Source, int], ids: Ids, done: set[Node]) -> tuple[str, ...] | None:
    """Walk from an entry; return the ids of a circle that is met."""
    first = _Step(*start, start[0].job.id)
    if first.node in done:
        return None
    path, on_path = [first], {first.node}
    while path:
        name = next(path[-1].rest, None)
        if name is None:
            node = path.pop().node
            on_path.discard(node)
            done.add(node)
            continue
        found = ids.find(name)
        if found is None or not found[0].job.after:
            continue
        step = _Step(*found, name)
        if step.node in on_path:
            names = [one.name for one in path] + [name]
            return tuple(names[[one.node for one in path].index(step.node) :])
        if step.node not in done:
            path.append(step)
            on_path.add(step.node)
    return None
