"""Which entry gives a job id, and which ids are given twice, found without a list of all ids.

The ids of a generator are a pattern: what stands before the number, the number, what stands behind.
Two patterns can share an id only when they are equal but for digits about the number, so patterns
are kept by their sides without those digits, and an id is looked up by each of its runs of digits.
"""

import re
from collections.abc import Iterator

import numpy as np

from scheduling.simulator.sources import Source
from scheduling.simulator.traces import Trace

_DIGITS = re.compile(r"[0-9]+")
_MOST_DIGITS = 15


class Ids:
    """The ids of all jobs of a scenario."""

    def __init__(self, sources: tuple[Source, ...], trace: Trace | None) -> None:
        """Take in the sources; `twins` are those that give an id which another gives too."""
        numbers = () if trace is None else trace.number
        self._traced = np.sort(np.asarray(numbers, dtype=np.int64))
        self._written: dict[str, Source] = {}
        self._patterns: dict[tuple[str, str], list[Source]] = {}
        self.twins: list[tuple[Source, str]] = []
        for source in (one for one in sources if one.pattern is not None):
            self._add_generator(source)
        for source in (one for one in sources if one.pattern is None and one.count):
            if source.job.id in self:
                self.twins.append((source, source.job.id))
            self._written.setdefault(source.job.id, source)

    def find(self, job_id: str) -> tuple[Source, int] | None:
        """Return the entry of a written or generated job, and which of its jobs it is."""
        if job_id in self._written:
            return self._written[job_id], 0
        for digits in _DIGITS.finditer(job_id):
            sides = (job_id[: digits.start()], job_id[digits.end() :])
            for source in self._patterns.get(sides, ()):
                n = number_in(source, job_id)
                if n is not None:
                    return source, n
        return None

    def __contains__(self, job_id: str) -> bool:
        """Tell whether any job has that id."""
        return self.find(job_id) is not None or self._is_traced(job_id)

    def _is_traced(self, job_id: str) -> bool:
        number = _whole(job_id)
        if number is None:
            return False
        place = int(np.searchsorted(self._traced, number))
        return place < len(self._traced) and int(self._traced[place]) == number

    def _add_generator(self, source: Source) -> None:
        before, behind = source.pattern or ("", "")
        sides = (before.rstrip("0123456789"), behind.lstrip("0123456789"))
        group = self._patterns.setdefault(sides, [])
        taken = next(self._shared(source, group, numeric=sides == ("", "")), None)
        if taken is not None:
            self.twins.append((source, taken))
        group.append(source)

    def _shared(self, source: Source, group: list[Source], *, numeric: bool) -> Iterator[str]:
        """Yield ids that the generator shares with others or the trace."""
        for other in group:
            if _may_meet(source, other):
                yield from _in_both(*sorted((source, other), key=lambda one: one.count))
        if numeric:
            ids = map(str, self._traced.tolist())
            yield from (one for one in ids if number_in(source, one) is not None)


def _may_meet(one: Source, other: Source) -> bool:
    (before, behind), (before_2, behind_2) = one.pattern or ("", ""), other.pattern or ("", "")
    starts = before.startswith(before_2) or before_2.startswith(before)
    return starts and (behind.endswith(behind_2) or behind_2.endswith(behind))


def _in_both(fewer: Source, more: Source) -> Iterator[str]:
    before, behind = fewer.pattern or ("", "")
    ids = (f"{before}{n}{behind}" for n in range(fewer.count))
    return (job_id for job_id in ids if number_in(more, job_id) is not None)


def number_in(source: Source, job_id: str) -> int | None:
    """Return the number for which the generator gives that id."""
    before, behind = source.pattern or ("", "")
    end = len(job_id) - len(behind)
    if end <= len(before) or not (job_id.startswith(before) and job_id.endswith(behind)):
        return None
    number = _whole(job_id[len(before) : end])
    return number if number is not None and number < source.count else None


def _whole(digits: str) -> int | None:
    """Return the whole number that is written in the one way that `str` writes it."""
    if len(digits) > _MOST_DIGITS or not (digits.isascii() and digits.isdecimal()):
        return None
    return None if digits[0] == "0" and digits != "0" else int(digits)
