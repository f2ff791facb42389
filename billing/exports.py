"""Reports as CSV, safe to open in a spreadsheet.

Theory. A spreadsheet runs a cell that begins with =, +, - or @ (or a tab or carriage return before
one) as a formula; such text gets an apostrophe in front, which makes it text. Numbers are written
plainly, without exponent, and are no text: a negative amount stays a number.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import chain

from billing.reports import CostRow

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
COST_COLUMNS = (
    "key", "label", "jobs", "input_tokens", "output_tokens", "reserved", "incurred", "wasted",
    "avoided", "unallocated", "total",
)  # fmt: skip


def costs_csv(rows: Iterable[CostRow]) -> Iterator[str]:
    """Yield the lines of a cost report, the header first."""
    yield from csv_lines(
        COST_COLUMNS, ([getattr(row, name) for name in COST_COLUMNS] for row in rows)
    )


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield CSV lines (with their line ends) one by one, so that a long export streams."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    for row in chain([header], rows):
        writer.writerow([cell(value) for value in row])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def cell(value: object) -> str:
    """Return a value as the text of a cell: numbers plain, times in ISO form, text defused."""
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.isoformat()
    text = str(value)
    if not isinstance(value, int) and text.lstrip(" ").startswith(FORMULA_STARTS):
        return f"'{text}"
    return text
