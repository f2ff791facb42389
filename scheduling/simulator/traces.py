"""Traces of real systems, replayed as jobs: kept as columns of numbers and given out one by one.

A million rows take some 60 MB as columns, where as many jobs would take more than a gigabyte.
`swf` reads the logs of the Parallel Workloads Archive, `requests` tables of requests.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scheduling.simulator.scenario import SimJob

Column = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
_CHUNK = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRule:
    """How a trace's rows become jobs, as the scenario's part `trace` says; `budget` is its pool's.

    `tenant` is user, group, client or a tenant's name ("": the format's usual one); `cost` None are
    the processors (swf) or 1. Durations are `fixed_s`, or `base_s` and `per_token_s` for each
    output token.
    """

    path: Path
    tenant: str = ""
    cost: int | None = None
    expected: str = ""
    fixed_s: float | None = None
    per_token_s: float = 0.0
    base_s: float = 0.0
    budget: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The jobs of a trace by arrival, in columns of one length.

    `owner` are indexes into `owners`, the tenants by first appearance, `user` likewise into `users`
    ("" where the format knows none); `expected` NaN: not known.
    `notes` are sentences on what was left out or put in order.
    """

    number: Whole
    at: Column
    duration: Column
    expected: Column
    cost: Whole
    tokens_in: Whole
    tokens_out: Whole
    owner: Whole
    owners: tuple[str, ...]
    user: Whole
    users: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        """Return how many jobs there are."""
        return len(self.number)

    def jobs(self) -> Iterator[SimJob]:
        """Yield the jobs by (arrival, row)."""
        for start in range(0, len(self), _CHUNK):
            yield from self._jobs(slice(start, start + _CHUNK))

    def _jobs(self, part: slice) -> Iterator[SimJob]:
        columns = (self.number, self.at, self.duration, self.expected, self.cost)
        more = (self.tokens_in, self.tokens_out, self.owner, self.user)
        rows = zip(*(column[part].tolist() for column in (*columns, *more)), strict=True)
        for number, at, duration, expected, cost, tokens_in, tokens_out, owner, who in rows:
            yield SimJob(
                id=str(number),
                tenant=self.owners[owner],
                at=at,
                duration=duration,
                expected_s=None if expected != expected else expected,
                cost=cost,
                tokens_in=tokens_in,
                tokens_out=tokens_out,
                user=self.users[who],
            )


def by_arrival(at: Column, file: str) -> tuple[npt.NDArray[np.intp], tuple[str, ...]]:
    """Return the order of the rows by arrival, ties as they stand, and a note if it is another."""
    if (at[1:] >= at[:-1]).all():
        return np.arange(len(at)), ()
    late = int((at[1:] < at[:-1]).sum())
    note = f"{file}: {late:,} rows arrive before the row above them; they were put in order."
    return np.argsort(at, kind="stable"), (note,)
