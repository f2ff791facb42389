"""How much memory processes hold: their share of each page (PSS), children included, from /proc."""

from collections.abc import Mapping
from pathlib import Path

import psutil  # type: ignore[import-untyped]

MEGABYTE = 1 << 20


def memory_mb(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the megabytes of each process with all that it started."""
    return {name: _tree(pid) / MEGABYTE for name, pid in pids.items()}


def _tree(pid: int) -> int:
    try:
        root = psutil.Process(pid)
        members = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    return sum(_pss(member.pid) for member in members)


def _pss(pid: int) -> int:
    try:
        lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has ended
    found = next((line for line in lines if line.startswith("Pss:")), "Pss: 0 kB")
    return int(found.split()[1]) * 1024
