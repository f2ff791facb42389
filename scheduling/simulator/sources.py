"""The jobs that a scenario writes out or generates, and their stream with those of a trace.

A generator is one job written once, with `repeat` and `every`; `{n}` in its id, keys and
dependencies counts from 0. Its jobs are made when they are asked for, so a million of them take no
room.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from scheduling.simulator.scenario import SimJob
from scheduling.simulator.traces import Trace

MARK = "{n}"
_PLAIN = tuple(name for name in SimJob.__struct_fields__ if name not in ("class_name", "labels"))


def job_of(values: Mapping[str, Any]) -> SimJob:
    """Return the job that checked values describe; a null takes the default."""
    given = {key: values[key] for key in _PLAIN if values.get(key) is not None}
    labels = frozenset(values.get("labels") or ())
    return SimJob(**given, class_name=values.get("class") or "", labels=labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One entry of `jobs`: a job, or with `repeat` a generator of them.

    `place` is the entry's place in the list, `first` the number of its first job in the file.
    """

    job: SimJob
    place: int
    first: int
    repeat: int | None = None
    every: float = 0.0

    @property
    def count(self) -> int:
        """Return how many jobs it gives."""
        return 1 if self.repeat is None else self.repeat

    @property
    def pattern(self) -> tuple[str, str] | None:
        """Return what stands before and behind the number in its ids; None for a single id."""
        if self.repeat is None or MARK not in self.job.id:
            return None
        before, behind = self.job.id.split(MARK, 1)
        return before, behind

    @property
    def varies(self) -> bool:
        """Tell whether its jobs have different dependencies."""
        return self.repeat is not None and any(MARK in one for one in self.job.after)

    def after(self, n: int) -> tuple[str, ...]:
        """Return the dependencies of its `n`-th job."""
        return _numbered(self.job.after, n) if self.varies else self.job.after

    def arrivals(self) -> Iterator[tuple[float, int, SimJob]]:
        """Yield its jobs with their times and numbers."""
        if self.repeat is None:
            yield self.job.at, self.first, self.job
            return
        numbered = self.varies or any(MARK in key for key in self.job.keys)
        for n in range(self.repeat):
            at = self.job.at + n * self.every
            job = replace(self.job, id=self.job.id.replace(MARK, str(n)), at=at)
            if numbered:
                job = replace(job, keys=_numbered(job.keys, n), after=_numbered(job.after, n))
            yield at, self.first + n, job


def _numbered(names: tuple[str, ...], n: int) -> tuple[str, ...]:
    return tuple(name.replace(MARK, str(n)) for name in names)


def sources_of(rows: tuple[Mapping[str, Any], ...]) -> tuple[Source, ...]:
    """Return the entries of `jobs` in the order of the file."""
    found, first = [], 0
    for place, values in enumerate(rows):
        source = Source(
            job=job_of(values),
            place=place,
            first=first,
            repeat=values.get("repeat"),
            every=values.get("every", 0.0),
        )
        found.append(source)
        first += source.count
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """All jobs of a scenario by (at, number in the file); a trace's stand behind the written."""

    sources: tuple[Source, ...]
    trace: Trace | None

    def __len__(self) -> int:
        """Return how many jobs there are."""
        return sum(source.count for source in self.sources) + len(self.trace or ())

    def __call__(self) -> Iterator[SimJob]:
        """Yield them anew."""
        written = (one for one in self.sources if one.repeat is None)
        singles = sorted((one.job.at, one.first, one.job) for one in written)
        streams = [iter(singles), *(one.arrivals() for one in self.sources if one.repeat)]
        if self.trace is not None:
            streams.append(self._traced(self.trace))
        for _, _, job in heapq.merge(*streams):
            yield job

    def _traced(self, trace: Trace) -> Iterator[tuple[float, int, SimJob]]:
        first = sum(source.count for source in self.sources)
        return ((job.at, first + row, job) for row, job in enumerate(trace.jobs()))
