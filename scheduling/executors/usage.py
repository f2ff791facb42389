"""Counting what an attempt used, from whatever the server says about it.

Servers report running totals, so the last word of each count wins and nothing is added up. A count
that is missing, or cannot be true, is replaced by our estimate and marked as such: an answer that
was given is never free because its server was silent.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from scheduling.executors.contract import Source, Usage
from scheduling.kinds.contract import Estimate

MAX_COUNT = 10**9

# Each count with the places where servers are known to write it.
_PLACES: dict[str, tuple[tuple[str, ...], ...]] = {
    "input": (("prompt_tokens",), ("input_tokens",), ("prompt_eval_count",)),
    "output": (("completion_tokens",), ("output_tokens",), ("eval_count",)),
    "cached_read": (
        ("prompt_tokens_details", "cached_tokens"),
        ("cache_read_input_tokens",),
        ("prompt_cache_hit_tokens",),
    ),
    "cached_write": (
        ("prompt_tokens_details", "cache_write_tokens"),
        ("cache_creation_input_tokens",),
    ),
    "reasoning": (("completion_tokens_details", "reasoning_tokens"),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What of an answer has arrived: estimated tokens of its text, and tool calls asked for."""

    tokens: int = 0
    tool_calls: int = 0


@dataclass(slots=True)
class Meter:
    """The counts of one attempt so far."""

    estimate: Estimate
    _counts: dict[str, int] = field(default_factory=dict)
    _impossible: bool = False

    @property
    def reported(self) -> bool:
        """Whether the server has named any count."""
        return bool(self._counts)

    def take(self, report: object) -> None:
        """Read a usage object; anything else than an object says nothing."""
        if not isinstance(report, dict):
            return
        for name, places in _PLACES.items():
            for place in places:
                self._take_count(name, _at(report, place))

    def usage(self, written: Written, *, elapsed_s: float, partial: bool) -> Usage:
        """The usage of an attempt whose request was sent and not refused."""
        # Zero input is what a server says whose prompt was cached: no prompt has no tokens.
        told_input = self._counts.get("input") or None
        told_output = self._counts.get("output")
        if not told_output and written.tokens:
            told_output = None
        read, write = self._counts.get("cached_read", 0), self._counts.get("cached_write", 0)
        total_in = self.estimate.input_tokens if told_input is None else told_input
        total_out = written.tokens if told_output is None else told_output
        reasoning = self._counts.get("reasoning", 0)
        return Usage(
            input_total=total_in,
            cached_read=read,
            cached_write=write,
            output_total=total_out,
            reasoning=reasoning,
            requests=1,
            tool_calls=written.tool_calls,
            worker_seconds=worker_seconds(elapsed_s),
            input_source=_source(told_input),
            output_source=_source(told_output),
            partial=partial,
            inconsistent=self._impossible or read + write > total_in or reasoning > total_out,
        )

    def _take_count(self, name: str, value: object) -> None:
        if value is None:
            return
        count = _whole(value)
        if count is None:
            self._impossible = True
        else:
            self._counts[name] = count


def unused(*, requests: int, elapsed_s: float) -> Usage:
    """The usage of an attempt that was refused or never sent: nothing but its time."""
    return Usage(requests=requests, worker_seconds=worker_seconds(elapsed_s))


def worker_seconds(elapsed_s: float) -> Decimal:
    """Seconds as billing keeps them, to the thousandth."""
    return Decimal(max(0, round(elapsed_s * 1_000))) / 1_000


def _source(told: int | None) -> Source:
    return Source.ESTIMATED if told is None else Source.REPORTED


def _at(report: dict[str, Any], place: tuple[str, ...]) -> object:
    value: object = report
    for key in place:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _whole(value: object) -> int | None:
    """The value as a count, or None if it is not one; 12.0 is one, true is not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= MAX_COUNT or value != int(value):
        return None
    return int(value)
