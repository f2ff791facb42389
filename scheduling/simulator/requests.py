"""Tables of requests: comma-separated, with a header that has `arrival_s`, `input_tokens` and
`output_tokens`, and `client` where clients are the tenants. Other columns are passed over.

Requests have no durations of their own: the scenario says how long they take, all the same or by
their output. How long the scheduler expects them to take is this very duration when `expected_s` is
`runtime`; a table requests no time, so the scheduler else learns it, as of any job. A row is named by its number, counted from 0.
"""

import csv
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from scheduling.simulator.errors import refusal
from scheduling.simulator.rows import each_row, lines, opened
from scheduling.simulator.traces import Column, Trace, TraceRule, Whole, by_arrival

CLIENT = "client"
_NEEDED = ("arrival_s", "input_tokens", "output_tokens")
_MOST_TOKENS = 10**12
_LONGEST_NAME = 200


def read_requests(rule: TraceRule) -> Trace:
    """Return the table's jobs; raise `InvalidScenario` for a file or row that cannot be read."""
    table = _table(rule)
    at = np.array(table.at, dtype=np.float64)
    tokens_out = np.array(table.tokens_out, dtype=np.int64)
    order, notes = by_arrival(at, rule.path.name)
    duration = _durations(tokens_out, rule)
    return Trace(
        number=order.astype(np.int64),
        at=at[order],
        duration=duration[order],
        expected=(duration if rule.expected == "runtime" else np.full(len(at), np.nan))[order],
        cost=np.full(len(at), rule.cost or 1, dtype=np.int64),
        tokens_in=np.array(table.tokens_in, dtype=np.int64)[order],
        tokens_out=tokens_out[order],
        owner=np.array(table.owner, dtype=np.int64)[order],
        owners=tuple(table.owners),
        user=np.zeros(len(at), dtype=np.int64),
        users=("",),
        notes=notes,
    )


def _durations(tokens_out: Whole, rule: TraceRule) -> Column:
    if rule.fixed_s is not None:
        return np.full(len(tokens_out), rule.fixed_s, dtype=np.float64)
    return rule.base_s + rule.per_token_s * tokens_out.astype(np.float64)


@dataclass(slots=True)
class _Table:
    """The columns that are wanted, filled row by row; `places` is where they stand in a row."""

    width: int
    places: tuple[int, ...]
    client: int | None
    at: "array[float]" = field(default_factory=lambda: array("d"))
    tokens_in: "array[int]" = field(default_factory=lambda: array("q"))
    tokens_out: "array[int]" = field(default_factory=lambda: array("q"))
    owner: "array[int]" = field(default_factory=lambda: array("q"))
    owners: dict[str, int] = field(default_factory=dict)

    def take(self, line: str) -> None:
        """Add a row; raise ValueError with a sentence for a bad one."""
        cells = _cells(line)
        if not cells:
            return
        if len(cells) != self.width:
            wrong = f"Has {len(cells)} cells; the header has {self.width}."
            raise ValueError(wrong)
        at, tokens_in, tokens_out = (cells[place] for place in self.places)
        row = (_arrival(at), _tokens(tokens_in), _tokens(tokens_out))
        self.owner.append(self._owner(cells))
        for column, value in zip((self.at, self.tokens_in, self.tokens_out), row, strict=True):
            column.append(value)  # type: ignore[attr-defined]

    def _owner(self, cells: list[str]) -> int:
        if self.client is None:
            return 0
        name = cells[self.client].strip()
        if not 0 < len(name) <= _LONGEST_NAME:
            wrong = f"client must be a name of 1 to {_LONGEST_NAME} characters."
            raise ValueError(wrong)
        return self.owners.setdefault(name, len(self.owners))


def _table(rule: TraceRule) -> _Table:
    with opened(rule.path) as source:
        numbered = lines(source, rule.path.name)
        table = _headed(rule, numbered)
        each_row(rule.path, numbered, table.take)
    return table


def _headed(rule: TraceRule, numbered: Iterator[tuple[int, str]]) -> _Table:
    number, line = next(numbered, (1, ""))
    try:
        header = [cell.strip() for cell in _cells(line)]
    except ValueError as error:
        raise refusal(rule.path.name, str(error), number) from None
    by_client = rule.tenant in ("", CLIENT)
    missing = [name for name in (*_NEEDED, *[CLIENT] * by_client) if name not in header]
    if missing:
        more = " Name one tenant for all with `tenant`." if CLIENT in missing else ""
        sentence = f"The header has no column {', '.join(missing)}.{more}"
        raise refusal(rule.path.name, sentence, number)
    return _Table(
        width=len(header),
        places=tuple(header.index(name) for name in _NEEDED),
        client=header.index(CLIENT) if by_client else None,
        owners={} if by_client else {rule.tenant: 0},
    )


def _cells(line: str) -> list[str]:
    if '"' not in line:
        text = line.rstrip("\r\n")
        return text.split(",") if text else []
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        wrong = "Is no row of comma-separated cells."
        raise ValueError(wrong) from None


def _arrival(cell: str) -> float:
    return _checked(cell, float, 1e10, "arrival_s must be a number of seconds, 0 or more")


def _tokens(cell: str) -> int:
    return int(_checked(cell, int, _MOST_TOKENS, "tokens must be whole numbers, 0 or more"))


def _checked(cell: str, kind: Callable[[str], float], most: float, sentence: str) -> float:
    try:
        value = kind(cell)
    except ValueError:
        value = -1
    if not 0 <= value <= most:
        wrong = f"{sentence}, not {cell[:40] or 'empty'}."
        raise ValueError(wrong)
    return value
