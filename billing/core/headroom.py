"""Whether an estimate fits under every ceiling of its chain: pure comparison, no locking.

Theory. A budget line lets an estimate in if and only if spent + held + estimate <= limit; equality
is allowed. Every line of the chain must pass, for one open ceiling must not excuse a closed one,
and the first that does not is the answer: its order (tenant first) is the caller's. A line whose
dimension the estimate does not name is not touched by it. Holding before spending is what makes
parallel admissions safe: the next one sees the held part.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Protocol, TypeVar

MARKS = (50, 80, 100)
"""Shares of a limit, in percent, whose crossing is announced."""


class Line(Protocol):
    """One budget in one window: its ceiling, what was spent, and what is held."""

    @property
    def dimension(self) -> str:
        """What the budget limits."""
        ...

    @property
    def limit(self) -> Decimal:
        """The ceiling."""
        ...

    @property
    def spent(self) -> Decimal:
        """What was booked."""
        ...

    @property
    def held(self) -> Decimal:
        """What open reservations hold."""
        ...


AnyLine = TypeVar("AnyLine", bound=Line)


def remaining(line: Line) -> Decimal:
    """Return what may still be asked for; never negative, also after an overrun."""
    return max(Decimal(0), line.limit - line.spent - line.held)


def refusal(lines: Iterable[AnyLine], estimates: Mapping[str, Decimal]) -> AnyLine | None:
    """Return the first line that does not let the estimates in, or None when all do."""
    for line in lines:
        estimate = estimates.get(line.dimension)
        if estimate is not None and line.spent + line.held + estimate > line.limit:
            return line
    return None


def crossings(*, before: Decimal, after: Decimal, limit: Decimal) -> tuple[int, ...]:
    """Return the marks (percent of the limit) that a rise from `before` to `after` reached."""
    return tuple(
        mark for mark in MARKS if before * 100 < limit * mark <= after * 100 and after > before
    )
