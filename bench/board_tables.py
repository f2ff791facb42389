"""What boards showed, as markdown beside its target."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.tables import quantile

FRAME_MOST = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Seconds from a commit until pages had painted it: dials, placements, events."""

    dial: list[float]
    placed: list[float]
    event: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Everything that one run measured; times in seconds, sizes in bytes.

    `load` is the machine's load average at the end: above its cores, all times hold waiting.
    """

    waiting: int
    boards: int
    seconds: float
    delays: Delays
    first_pages: list[float]
    pages: list[float]
    scrolls: list[float]
    windows: list[float]
    sizes: dict[str, list[int]]
    cpu_share: dict[str, float]
    memory_mb: dict[str, float]
    load: float
    faults: list[str] = field(default_factory=list)


def table(result: Result) -> str:
    """Return all tables."""
    what = f"{result.waiting:,} jobs wait, {result.boards} boards, {result.seconds:.0f} s"
    title = f"{what}, load average {result.load:.1f} on {os.cpu_count()} cores\n"
    return "\n".join([title, _times(result), _frames(result), _processes(result)])


def _times(result: Result) -> str:
    delays = result.delays
    rows = [
        _row("dial committed -> painted", delays.dial, "1,000 at p95"),
        _row("job placed -> gone from the order", delays.placed, "1,000 at p95"),
        _row("event committed -> in the list", delays.event, "1,000 at p95"),
        _row("window asked for -> whole (sockets)", result.windows, "300"),
        _row("scrolled -> rows painted (pages)", result.scrolls, "300"),
        _row("page loaded again -> rows painted", result.pages, ""),
        _row("page loaded first -> rows painted", result.first_pages, ""),
    ]
    head = "| ms | times | p50 | p95 | most | target |\n|---|---:|---:|---:|---:|---:|"
    return "\n".join([head, *rows, ""])


def _row(label: str, seconds: Sequence[float], target: str) -> str:
    if not seconds:
        return f"| {label} | 0 | - | - | - | {target} |"
    p50, p95, most = (quantile(seconds, share) * 1000 for share in (0.5, 0.95, 1.0))
    return f"| {label} | {len(seconds)} | {p50:,.0f} | {p95:,.0f} | {most:,.0f} | {target} |"


def _frames(result: Result) -> str:
    """Return the frames by kind and topic; the bytes are a board's."""
    head = "| frames (most bytes 4,000) | a second | p50 | p95 | most | bytes a second |"
    line = "|---|---:|---:|---:|---:|---:|"
    rows = [_frame(name, sizes, result) for name, sizes in sorted(result.sizes.items())]
    every = [size for sizes in result.sizes.values() for size in sizes]
    return "\n".join([head, line, *rows, _frame("all", every, result), ""])


def _frame(name: str, sizes: Sequence[int], result: Result) -> str:
    if not sizes:
        return f"| {name} | 0 | - | - | - | - |"
    whole = result.seconds * result.boards
    p50, p95 = quantile(sizes, 0.5), quantile(sizes, 0.95)
    rates = (len(sizes) / whole, sum(sizes) / whole)
    return f"| {name} | {rates[0]:.2f} | {p50:,} | {p95:,} | {max(sizes):,} | {rates[1]:,.0f} |"


def _processes(result: Result) -> str:
    head = "| process | memory, MB | of one core |\n|---|---:|---:|"
    memory: Mapping[str, float] = result.memory_mb
    rows = [
        f"| {name} | {f'{memory[name]:,.0f}' if name in memory else '-'} | {share:.0%} |"
        for name, share in result.cpu_share.items()
    ]
    return "\n".join([head, *rows, ""])
