"""The full pass: the whole order of a pool at once, from columns (numpy).

One function, `_merge`, is applied twice: to workspaces inside their tenant, then to tenants inside
their class. It gives each job its turn from the charges ahead of it in its line, ranks all jobs by
(turn, age), and takes the running maximum of the rank along each line: a job cannot pass one that
is ahead of it in its own line, so it comes no sooner than the latest of those. Sorting by that
maximum, then by the position in the line, is the merge of the lines by the keys of their heads.

Whole-number keys are sorted by their 16-bit digits, the lowest first (`_sorted_by`), as numpy has a
radix sort for those. So the pass is linear but for the sort by age, which meets jobs that stand
nearly in that order already.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from operator import attrgetter, itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduling.core.order.order import Order
from scheduling.core.types import Job, MemoryKey, Spot

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

NO_TURN = -1
"""Stands for the turns of a job in a fifo class."""
DIGIT_BITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The lines of one level: the group that each is merged into, its memory and its weight."""

    group: Ints
    turn: Ints
    used: Ints
    weight: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The startable jobs of a pool, one row each, in any order.

    `line` is the row's index in `workspaces`, whose groups are indexes in `tenants`, whose groups
    are class ranks (0 first). A fifo class is one tenant with one workspace, named in `fifo` by its
    rank, and its rows have charge 0. `deadline` counts before age in a line; 0 where none count.
    """

    line: Ints
    charge: Ints
    submitted: Floats
    seq: Ints
    deadline: Floats
    workspaces: Lines
    tenants: Lines
    fifo: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """`rows` are the row numbers in order; the turns belong to them, NO_TURN in a fifo class."""

    rows: Ints
    turn: Ints
    workspace_turn: Ints


def full_order(columns: Columns) -> Full:
    """The whole order."""
    by_age = np.lexsort((columns.seq, columns.submitted))
    rows = by_age
    if columns.deadline.any():
        rows = rows[np.argsort(columns.deadline[rows], kind="stable")]
    rows = _sorted_by(columns.line, rows)
    rows, inner = _merge(rows, columns.line, columns.charge, by_age, columns.workspaces)
    tenant = columns.workspaces.group[columns.line]
    rows, turn = _merge(rows, tenant, columns.charge, by_age, columns.tenants)
    fifo = np.isin(columns.tenants.group, columns.fifo)[tenant]
    return Full(
        rows=rows,
        turn=np.where(fifo, NO_TURN, turn)[rows],
        workspace_turn=np.where(fifo, NO_TURN, inner)[rows],
    )


def _merge(rows: Ints, line: Ints, charge: Ints, by_age: Ints, lines: Lines) -> tuple[Ints, Ints]:
    """Merge lines, whose jobs `rows` stand one line after another, into their groups.

    The answer is the rows, one group after another in order, and by row number the turn of each in
    its line. `line`, `charge` are by row number too; `by_age` are all rows, oldest first.
    """
    stands = line[rows]
    starts = np.flatnonzero(np.diff(stands, prepend=-1))
    sizes = np.diff(starts, append=len(rows))
    ahead = _ahead(charge[rows], starts, sizes)
    turn = np.empty_like(rows)
    turn[rows] = lines.turn[stands] + (lines.used[stands] + ahead) // lines.weight[stands]
    rank = np.empty_like(rows)
    rank[_sorted_by(turn, by_age)] = np.arange(len(rows))
    offset = np.repeat(np.arange(len(starts)), sizes) * len(rows)
    latest = np.maximum.accumulate(rank[rows] + offset) - offset
    order = _sorted_by(lines.group[stands], _sorted_by(latest, np.arange(len(rows))))
    return rows[order], turn


def _sorted_by(key: Ints, rows: Ints) -> Ints:
    """`rows` sorted by their `key`, which is given by row number; those with equal keys stay put."""
    low, high = (int(key.min()), int(key.max())) if len(key) else (0, 0)
    for shift in range(0, (high - low).bit_length(), DIGIT_BITS):
        digit = ((key - low) >> shift).astype(np.uint16)
        rows = rows[np.argsort(digit[rows], kind="stable")]
    return rows


def _ahead(charge: Ints, starts: Ints, sizes: Ints) -> Ints:
    """For each row, the charges of the rows ahead of it in its own line."""
    before = np.cumsum(charge) - charge
    return before - np.repeat(before[starts], sizes)


def ordered(order: Order) -> list[Spot]:
    """All startable jobs of `order` with their places: what `walk_all` shows, at once."""
    standing = list(order.startable())
    full = full_order(columns_of(order, standing))
    return [
        Spot(
            job=standing[row][0],
            class_name=standing[row][1],
            turn=None if turn == NO_TURN else turn,
            workspace_turn=None if turn == NO_TURN else inner,
        )
        for row, turn, inner in zip(
            full.rows.tolist(), full.turn.tolist(), full.workspace_turn.tolist(), strict=True
        )
    ]


def columns_of(order: Order, standing: Sequence[tuple[Job, str]]) -> Columns:
    """The columns of these jobs, each with the class in which it stands."""
    rank = {name: index for index, name in enumerate(order.class_names)}
    fifo = {rule.name for rule in order.classes if rule.fifo}
    jobs = list(map(_JOB, standing))
    found: defaultdict[MemoryKey, int] = defaultdict(count().__next__)
    names = zip(map(_CLASS, standing), map(_TENANT, jobs), map(_WORKSPACE, jobs), strict=True)
    line = _ints(map(found.__getitem__, names), len(jobs))
    workspaces: dict[MemoryKey, int] = {}
    merged = [
        workspaces.setdefault((key[0], "", "") if key[0] in fifo else key, len(workspaces))
        for key in found
    ]
    tenants: dict[MemoryKey, int] = {}
    tenant = [tenants.setdefault((key[0], key[1], None), len(tenants)) for key in workspaces]
    line = _ints(merged)[line]
    fair = np.array([key[0] not in fifo for key in workspaces], dtype=np.bool_)[line]
    return Columns(
        line=line,
        charge=np.where(fair, _ints(map(_CHARGE, jobs), len(jobs)), 0),
        submitted=_floats(map(_SUBMITTED_AT, jobs), len(jobs)),
        seq=_ints(map(_SEQ, jobs), len(jobs)),
        deadline=np.where(fair, _deadlines(order, jobs), 0.0),
        workspaces=_lines(order, list(workspaces), tenant),
        tenants=_lines(order, list(tenants), [rank[key[0]] for key in tenants]),
        fifo=_ints(rank[name] for name in fifo),
    )


_JOB, _CLASS = itemgetter(0), itemgetter(1)
_TENANT, _WORKSPACE = attrgetter("tenant"), attrgetter("workspace")
_CHARGE, _SEQ, _SUBMITTED_AT = attrgetter("charge"), attrgetter("seq"), attrgetter("submitted_at")


def _deadlines(order: Order, jobs: Sequence[Job]) -> Floats:
    if not order.deadlines:
        return np.zeros(len(jobs))
    return _floats((inf if job.deadline is None else job.deadline for job in jobs), len(jobs))


def _lines(order: Order, keys: Sequence[MemoryKey], group: Sequence[int]) -> Lines:
    memories = [order.memory(key) for key in keys]
    return Lines(
        group=_ints(group),
        turn=_ints(memory.turn for memory in memories),
        used=_ints(memory.used for memory in memories),
        weight=_ints(order.weight(key) for key in keys),
    )


def _ints(values: Iterable[int], size: int = -1) -> Ints:
    return np.fromiter(values, dtype=np.int64, count=size)


def _floats(values: Iterable[float], size: int) -> Floats:
    return np.fromiter(values, dtype=np.float64, count=size)
