"""Figures into tables: medians of the repetitions, and Telemachus' ratio to each peer."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.costs import Profile
from bench.phases import Kill, Life

OWN = "telemachus"
COMMANDS = {"bulk": "bulk submit, jobs/s", "one": "one by one, jobs/s"}
CLOCKS = {"call": "submit -> start", "database": "the same by the database's clock"}


@dataclass(slots=True, kw_only=True)
class Found:
    """What one system showed, a list entry a repetition."""

    lives: dict[str, list[Life]] = field(default_factory=dict)
    waits: dict[str, list[list[float]]] = field(default_factory=dict)
    kills: list[Kill] = field(default_factory=list)

    def rate(self, command: str) -> float | None:
        """Return the median jobs a second, None if it was not measured."""
        lives = self.lives.get(command)
        return median(life.rate for life in lives) if lives else None

    def wait_ms(self, clock: str, share: float) -> float | None:
        """Return the median over repetitions of a quantile of the waits, in milliseconds."""
        waits = self.waits.get(clock)
        return median(quantile(one, share) for one in waits) * 1000 if waits else None


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def lives_table(found: Mapping[str, Found]) -> str:
    """Return everything in markdown: a row a figure, a column a system, then the ratios."""
    names = list(found)
    rows = [_row(label, [one.rate(c) for one in found.values()]) for c, label in COMMANDS.items()]
    for clock, label in CLOCKS.items():
        for share in (0.5, 0.95, 0.99):
            waits = [one.wait_ms(clock, share) for one in found.values()]
            rows.append(_row(f"{label} p{share * 100:.0f}, ms", waits, digits=1))
    rows.append(_cells("worker killed: all done after, s", [_kill(one) for one in found.values()]))
    counts = [one.lives["bulk"][0].jobs if one.lives else None for one in found.values()]
    rows.append(_row("jobs of a bulk life", counts))
    blocks = [_table(["median", *names], rows), _ratios(found)]
    blocks.append(costs_table({n: f.lives["bulk"][-1] for n, f in found.items() if f.lives}))
    return "\n".join(block for block in blocks if block)


def costs_table(lives: Mapping[str, Life]) -> str:
    """Return the processor milliseconds a job by process, of a life each."""
    parts = list(dict.fromkeys(part for life in lives.values() for part in life.cpu_s))
    rows = []
    for part in parts:
        cells = [
            life.cpu_s[part] / life.jobs * 1000 if part in life.cpu_s else None
            for life in lives.values()
        ]
        rows.append(_row(part, cells, digits=3))
    totals = [sum(life.cpu_s.values()) / life.jobs * 1000 for life in lives.values()]
    rows.append(_row("all", totals, digits=3))
    busy = [sum(life.cpu_s.values()) / life.seconds for life in lives.values()]
    rows.append(_row("cores kept busy", busy, digits=2))
    submits = [life.submit_s / life.seconds for life in lives.values()]
    rows.append(_row("share of the time until all were submitted", submits, digits=2))
    return _table(["CPU ms a job, bulk", *lives], rows)


def profile_table(profiles: Sequence[Profile]) -> str:
    """Return the functions that took the time, by their own share and with their callees."""
    blocks = []
    for one in profiles:
        rows = [
            f"| {own} | {own_share:.1%} | {whole} | {whole_share:.1%} |"
            for (own, own_share), (whole, whole_share) in zip(one.own, one.whole, strict=False)
        ]
        head = [f"{one.process} ({one.samples} samples): itself", "share", "with callees", "share"]
        blocks.append(_table(head, rows))
    return "\n".join(blocks)


def run_table(known: Mapping[str, str], jobs: int, repeat: int) -> str:
    """Return what the run was made of."""
    listed = ", ".join(f"{name} {version}" for name, version in known.items())
    return (
        f"{jobs} jobs at the most, {repeat} interleaved repetitions, "
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}; {listed}.\n"
    )


def _ratios(found: Mapping[str, Found]) -> str:
    own = found.get(OWN)
    peers = {name: one for name, one in found.items() if name != OWN}
    if own is None or not peers:
        return ""
    rows = [
        _row(label, [_ratio(own.rate(c), one.rate(c)) for one in peers.values()], digits=2)
        for c, label in COMMANDS.items()
    ]
    for clock, label in CLOCKS.items():
        waits = [
            _ratio(own.wait_ms(clock, 0.5), one.wait_ms("call", 0.5)) for one in peers.values()
        ]
        rows.append(_row(f"{label} p50 (less is better)", waits, digits=2))
    return _table(["Telemachus / peer", *peers], rows)


def _ratio(own: float | None, peer: float | None) -> float | None:
    return own / peer if own is not None and peer else None


def _kill(found: Found) -> str:
    if not found.kills:
        return ""
    one = found.kills[0]
    if one.seconds is None:
        return f"never ({one.done} of {one.jobs} in the watch)"
    return f"{one.seconds:.1f} (own length {one.own_s:.1f})"


def _row(label: str, values: Sequence[float | None], *, digits: int = 0) -> str:
    return _cells(label, ["" if value is None else f"{value:,.{digits}f}" for value in values])


def _cells(label: str, cells: Sequence[str]) -> str:
    return f"| {label} | {' | '.join(cells)} |"


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    rule = "|---" * len(head) + "|"
    return "\n".join([f"| {' | '.join(head)} |", rule, *rows]) + "\n"
