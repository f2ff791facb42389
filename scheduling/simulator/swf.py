"""Logs in the Standard Workload Format of the Parallel Workloads Archive (Feitelson, version 2.2).

A line is a job of 18 fields, -1 stands for what is not known, and lines that begin with `;` are
comments. Left out are, and counted in the trace's notes: partial runs of jobs that were checkpointed
(status 2 to 4: the job has a line of its own for the whole), jobs with no submit time, no run time,
no processors or, where processors are the cost, more of them than the pool's budget, and jobs with
no requested time, unless the log states none at all and run times are taken for expected ones. A run
time is capped at the requested time. A user or group that is not known is "unknown".
Whoever is the tenant, the user is the user of the job: whose runs its own are likened to.
"""

import math
from array import array
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from scheduling.simulator.errors import refusal
from scheduling.simulator.rows import each_row, lines, opened
from scheduling.simulator.traces import Column, Trace, TraceRule, Whole, by_arrival

_FIELDS = 18
NUMBER, SUBMIT, RUN, ALLOCATED, REQUESTED, TIME, STATUS, USER, GROUP = range(9)
_PLACES = (0, 1, 3, 4, 7, 8, 10, 11, 12)
_OWNERS = {"user": USER, "group": GROUP}
_PARTIAL = (2, 3, 4)
_MOST = 1e12
UNKNOWN = "unknown"
_HINT = "A log that states no requested times needs expected_s: runtime."
Columns: TypeAlias = list[Column]
Mask: TypeAlias = npt.NDArray[np.bool_]


def read_swf(rule: TraceRule) -> Trace:
    """Return the log's jobs; raise `InvalidScenario` for a file or row that cannot be read."""
    columns = _columns(rule)
    kept, notes = _kept(columns, rule)
    columns = [column[kept] for column in columns]
    order, sorted_note = by_arrival(columns[SUBMIT], rule.path.name)
    columns = [column[order] for column in columns]
    _refuse_twins(columns[NUMBER], rule.path.name)
    owner, owners = _owners(columns, rule.tenant)
    user, users = _owners(columns, "user")
    none = np.zeros(len(order), dtype=np.int64)
    duration = _capped(columns[RUN], columns[TIME])
    return Trace(
        number=columns[NUMBER].astype(np.int64),
        at=columns[SUBMIT],
        duration=duration,
        expected=duration if rule.expected == "runtime" else columns[TIME],
        cost=_costs(columns, rule),
        tokens_in=none,
        tokens_out=none,
        owner=owner,
        owners=owners,
        user=user,
        users=users,
        notes=(*notes, *sorted_note),
    )


def _columns(rule: TraceRule) -> Columns:
    found = [array("d") for _ in _PLACES]
    with opened(rule.path) as source:
        each_row(rule.path, lines(source, rule.path.name), _taker(found))
    return [np.array(column, dtype=np.float64) for column in found]


def _taker(found: list["array[float]"]) -> Callable[[str], None]:
    def take(line: str) -> None:
        fields = line.split()
        if not fields or fields[0].startswith(";"):
            return
        if len(fields) != _FIELDS:
            wrong = f"Has {len(fields)} fields; a job of this format has {_FIELDS}."
            raise ValueError(wrong)
        row = _row(fields)
        for column, value in zip(found, row, strict=True):
            column.append(value)

    return take


def _row(fields: list[str]) -> list[float]:
    """Return the wanted fields; raise ValueError with a sentence for the first that is wrong."""
    try:
        row = [float(fields[place]) for place in _PLACES]
    except ValueError:
        row = [math.nan]
    if not (math.isfinite(sum(row)) and min(row) > -_MOST and max(row) < _MOST):
        wrong = next(place for place in _PLACES if not _is_number(fields[place]))
        sentence = f"Field {wrong + 1} must be a number, not {fields[wrong][:40]}."
        raise ValueError(sentence)
    if not (row[NUMBER].is_integer() and row[NUMBER] >= 0):
        sentence = f"Field 1 must be a job number, not {fields[0][:40]}."
        raise ValueError(sentence)
    return row


def _is_number(text: str) -> bool:
    try:
        return -_MOST < float(text) < _MOST
    except ValueError:
        return False


def _processors(columns: Columns) -> Column:
    return np.where(columns[REQUESTED] > 0, columns[REQUESTED], columns[ALLOCATED])


def _kept(columns: Columns, rule: TraceRule) -> tuple[Mask, tuple[str, ...]]:
    """Return which rows are jobs, and notes on those that are not, each counted once."""
    kept, notes = np.ones(len(columns[NUMBER]), dtype=np.bool_), []
    for wrong, why in _against(columns, rule):
        if count := int((kept & wrong).sum()):
            notes.append(f"{rule.path.name}: {count:,} jobs left out: {why}.")
        kept &= ~wrong
    if len(kept) and not kept.any():
        raise refusal(rule.path.name, " ".join(("No job is left of it.", *notes, _HINT)))
    return kept, tuple(notes)


def _against(columns: Columns, rule: TraceRule) -> list[tuple[Mask, str]]:
    processors = _processors(columns)
    reasons = [
        (np.isin(columns[STATUS], _PARTIAL), "partial runs of a checkpointed job"),
        (columns[SUBMIT] < 0, "no submit time"),
        (columns[RUN] <= 0, "no run time"),
        (processors <= 0, "no processors"),
    ]
    if rule.expected != "runtime" or (columns[TIME] > 0).any():
        reasons.append((columns[TIME] <= 0, "no requested time"))
    if rule.cost is None:
        reasons.append((processors > rule.budget, f"more than {rule.budget} processors"))
    else:
        reasons = [one for one in reasons if one[1] != "no processors"]
    return reasons


def _refuse_twins(numbers: Column, file: str) -> None:
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) < len(numbers):
        twin = int(values[counts > 1][0])
        raise refusal(file, f"Job number {twin} stands on more than one line.")


def _capped(run: Column, requested: Column) -> Column:
    return np.where(requested > 0, np.minimum(run, requested), run)


def _costs(columns: Columns, rule: TraceRule) -> Whole:
    if rule.cost is None:
        return np.ceil(_processors(columns)).astype(np.int64)
    return np.full(len(columns[NUMBER]), rule.cost, dtype=np.int64)


def _owners(columns: Columns, tenant: str) -> tuple[Whole, tuple[str, ...]]:
    """Return each row's index into the tenants, which stand by their first job."""
    if tenant and tenant not in _OWNERS:
        return np.zeros(len(columns[NUMBER]), dtype=np.int64), (tenant,)
    who = columns[_OWNERS[tenant or "user"]]
    values, first, index = np.unique(who, return_index=True, return_inverse=True)
    rank = np.empty(len(values), dtype=np.int64)
    by_first = np.argsort(first)
    rank[by_first] = np.arange(len(values))
    names = (UNKNOWN if value < 0 else f"{value:.0f}" for value in values[by_first])
    return rank[index], tuple(names)
