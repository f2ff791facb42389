"""What a phase cost: processor seconds of each process, and the functions that took them.

Processor time is read from /proc (utime + stime, children that ended included), so nothing is
installed in what is measured. The functions come from py-spy, a sampling profiler in an environment
of its own that reads a process from outside; it slows what it samples a little, so a profiled phase
is not a measured one.
"""

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.places import environment

_TICKS = os.sysconf("SC_CLK_TCK")
SAMPLES_A_SECOND = 200
FRAMES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Where one process's samples were: functions by own share, and by share with callees."""

    process: str
    samples: int
    own: list[tuple[str, float]]
    whole: list[tuple[str, float]]


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the processor seconds so far of each process with all that it started."""
    stats = dict(_stats())
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in stats.items():
        children.setdefault(parent, []).append(pid)
    return {name: _tree(pid, stats, children) for name, pid in pids.items()}


def cpu_between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return what each process used; one that was started anew counts from nothing."""
    return {name: max(0.0, value - before.get(name, 0.0)) for name, value in after.items()}


def _tree(
    root: int, stats: Mapping[int, tuple[int, float]], children: Mapping[int, list[int]]
) -> float:
    if root not in stats:
        return 0.0
    below = sum(_tree(child, stats, children) for child in children.get(root, ()))
    return stats[root][1] + below


def _stats() -> Iterator[tuple[int, tuple[int, float]]]:
    """Yield (pid, (parent, seconds)) of all processes."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended
        yield int(folder.name), (int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)


class Sampling:
    """Samples processes for the length of a `with` block."""

    def __init__(self, pids: Mapping[str, int], folder: Path) -> None:
        """Get ready; the raw samples stay in `folder`."""
        self._pids = pids
        self._files = {name: folder / f"{name}.samples" for name in pids}
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Sampling":
        program = str(environment("tools") / "py-spy")
        for name, pid in self._pids.items():
            where = ["--pid", str(pid), "--output", str(self._files[name])]
            how = ["--format", "raw", "--rate", str(SAMPLES_A_SECOND), "--duration", "600"]
            argv = [program, "record", *where, *how, "--nonblocking"]
            quiet = subprocess.DEVNULL
            self._running.append(subprocess.Popen(argv, stdout=quiet, stderr=quiet))  # noqa: S603
        time.sleep(1.0)  # until they look
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._running:
            one.send_signal(2)  # as Ctrl-C: write the file, then end
        for one in self._running:
            one.wait(30)

    def profiles(self) -> list[Profile]:
        """Return what was seen, a process each."""
        return [
            _profile(name, path.read_text(encoding="utf-8"))
            for name, path in self._files.items()
            if path.exists()
        ]


def _profile(process: str, raw: str) -> Profile:
    """Sum collapsed stacks: `frame;frame;frame count`, a line each."""
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [_short(frame) for frame in stack.split(";")]
        own[frames[-1]] += int(count)
        whole.update(dict.fromkeys(frames, int(count)))
    samples = sum(own.values())
    return Profile(
        process=process,
        samples=samples,
        own=_shares(own, samples),
        whole=_shares(whole, samples),
    )


def _short(frame: str) -> str:
    """Return `function (file)` of `function (folder/file.py:line)`."""
    name, _, place = frame.partition(" (")
    parts = place.rstrip(")").rsplit(":", 1)[0].split("/")
    return f"{name} ({'/'.join(parts[-2:])})"


def _shares(counts: Counter[str], samples: int) -> list[tuple[str, float]]:
    return [(frame, count / samples) for frame, count in counts.most_common(FRAMES)]
