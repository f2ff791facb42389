"""The full pass: the whole order of a pool at once, from columns (numpy).

One function, `_merge`, is applied twice: to workspaces inside their tenant, then to tenants inside
their class. It gives each job its turn from the charges ahead of it in its line, ranks all jobs by
(turn, age), and takes the running maximum of the rank along each line: a job cannot pass one that
is ahead of it in its own line, so it comes no sooner than the latest of those. Sorting by that
maximum, then by the position in the line, is the merge of the lines by the keys of their heads.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduling.core.order.order import Order
from scheduling.core.types import Job, MemoryKey, Spot

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

NO_TURN = -1
"""Stands for the turns of a job in a fifo class."""


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
    age = np.empty_like(by_age)
    age[by_age] = np.arange(len(by_age))
    rows = np.lexsort((age, columns.deadline, columns.line))
    rows, workspace_turn = _merge(rows, columns.line[rows], columns, age, columns.workspaces)
    inner = np.empty_like(rows)
    inner[rows] = workspace_turn
    tenant = columns.workspaces.group[columns.line[rows]]
    rows, turn = _merge(rows, tenant, columns, age, columns.tenants)
    rank = columns.tenants.group[columns.workspaces.group[columns.line[rows]]]
    fifo = np.isin(rank, columns.fifo)
    return Full(
        rows=rows,
        turn=np.where(fifo, NO_TURN, turn),
        workspace_turn=np.where(fifo, NO_TURN, inner[rows]),
    )


def _merge(rows: Ints, line: Ints, columns: Columns, age: Ints, lines: Lines) -> tuple[Ints, Ints]:
    """Merge lines, whose jobs `rows` stand one line after another, into their groups.

    The answer is the rows, one group after another in order, and each row's turn in its line.
    """
    starts = np.flatnonzero(np.diff(line, prepend=-1))
    sizes = np.diff(starts, append=len(line))
    turn = (
        lines.turn[line]
        + (lines.used[line] + _ahead(columns.charge[rows], starts, sizes)) // (lines.weight[line])
    )
    rank = np.empty_like(rows)
    rank[np.lexsort((age[rows], turn))] = np.arange(len(rows))
    span = len(rows)
    offset = np.repeat(np.arange(len(starts)), sizes) * span
    latest = np.maximum.accumulate(rank + offset) - offset
    order = np.argsort(lines.group[line] * span + latest, kind="stable")
    return rows[order], turn[order]


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
    workspaces: dict[MemoryKey, int] = {}
    line = [
        workspaces.setdefault(
            (name, "", "") if name in fifo else (name, job.tenant, job.workspace), len(workspaces)
        )
        for job, name in standing
    ]
    tenants: dict[MemoryKey, int] = {}
    tenant = [tenants.setdefault((key[0], key[1], None), len(tenants)) for key in workspaces]
    return Columns(
        line=np.array(line, dtype=np.int64),
        charge=_ints(0 if name in fifo else job.charge for job, name in standing),
        submitted=_floats(job.submitted_at for job, _ in standing),
        seq=_ints(job.seq for job, _ in standing),
        deadline=_floats(
            _deadline(job) if order.deadlines and name not in fifo else 0.0
            for job, name in standing
        ),
        workspaces=_lines(order, list(workspaces), tenant),
        tenants=_lines(order, list(tenants), [rank[key[0]] for key in tenants]),
        fifo=_ints(rank[name] for name in fifo),
    )


def _deadline(job: Job) -> float:
    return inf if job.deadline is None else job.deadline


def _lines(order: Order, keys: Sequence[MemoryKey], group: Sequence[int]) -> Lines:
    memories = [order.memory(key) for key in keys]
    return Lines(
        group=_ints(group),
        turn=_ints(memory.turn for memory in memories),
        used=_ints(memory.used for memory in memories),
        weight=_ints(order.weight(key) for key in keys),
    )


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _floats(values: Iterable[float]) -> Floats:
    return np.fromiter(values, dtype=np.float64)
