"""The summary of a simulated run as a short table for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

MOST_TENANTS = 20
_COLUMNS = (
    ("tenant", None),
    ("jobs", "jobs"),
    ("done", "done"),
    ("mean wait", "mean_wait_s"),
    ("p95 wait", "p95_wait_s"),
    ("served", "served"),
    ("share", "share"),
    ("share/weight", "share_per_weight"),
)
_FIGURES = (
    ("makespan", "makespan_s", " s"),
    ("utilisation", "utilisation", ""),
    ("Jain's index", "jain", ""),
    ("mean bounded slowdown", "mean_bounded_slowdown", ""),
    ("max bounded slowdown", "max_bounded_slowdown", ""),
)
_AMOUNTS = ("reserved", "incurred", "wasted", "avoided", "unallocated")


def summary_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines: a row for each tenant that had most jobs, then the whole run's figures."""
    yield from _table(summary.get("tenants", {}))
    for label, key, unit in _FIGURES:
        yield f"{label:22} {_shown(summary.get(key))}{unit}"
    eta = summary.get("eta", {})
    if eta.get("count"):
        mean, naive = _shown(eta.get("mean_error_s")), _shown(eta.get("naive_mean_error_s"))
        hits = _shown(eta.get("hit_rate"))
        yield f"{'ETA error':22} {mean} s (naive {naive} s), range hit {hits}"
    cost = summary.get("cost", {})
    if cost:
        amounts = (f"{name} {cost[name]}" for name in _AMOUNTS if name in cost)
        yield f"{'cost (USD)':22} {', '.join(amounts)}"


def _table(tenants: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    by_jobs = sorted(tenants.items(), key=lambda one: -int(one[1].get("jobs", 0)))
    rows = [[label for label, _ in _COLUMNS]]
    for name, row in by_jobs[:MOST_TENANTS]:
        rows.append([_short(name), *(_shown(row.get(key)) for _, key in _COLUMNS[1:] if key)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        padded = zip(cells[1:], widths[1:], strict=True)
        yield "  ".join(
            [f"{cells[0]:{widths[0]}}", *(f"{cell:>{width}}" for cell, width in padded)]
        )
    if len(tenants) > MOST_TENANTS:
        yield f"and {len(tenants) - MOST_TENANTS} tenants with fewer jobs"


def _short(name: str) -> str:
    return name if len(name) <= 30 else f"{name[:29]}…"


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.1f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
