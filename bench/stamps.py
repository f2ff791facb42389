"""Stamps: what a peer's no-op writes, 24 bytes a start, to a file of its own process.

A peer has no record of its own of when a job began, so its no-op keeps one: the job's number, when
its client began to submit it, and now. Writing one takes some 2 microseconds. A job that sleeps
leaves a second one at its end, with the number -1 - number.
"""

import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "BENCH_STAMPS"
_RECORD = struct.Struct("qdd")

_files: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class Stamp:
    """One start of a job; times are epoch seconds of this machine's clock."""

    number: int
    submitted_at: float
    started_at: float


def stamp(number: int, submitted_at: float) -> None:
    """Record that the job starts now."""
    pid = os.getpid()
    if pid not in _files:
        path = Path(os.environ[FOLDER_VARIABLE]) / f"{pid}.bin"
        _files[pid] = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    os.write(_files[pid], _RECORD.pack(number, submitted_at, time.time()))


def stamp_end(number: int, submitted_at: float) -> None:
    """Record that the job ends now."""
    stamp(-1 - number, submitted_at)


def stamps_count(folder: Path) -> int:
    """Return how many starts were recorded."""
    return sum(path.stat().st_size for path in folder.glob("*.bin")) // _RECORD.size


def stamps_read(folder: Path) -> Iterator[Stamp]:
    """Yield every start; a record half written is left out."""
    for path in folder.glob("*.bin"):
        content = path.read_bytes()
        whole = content[: len(content) // _RECORD.size * _RECORD.size]
        yield from (Stamp(*record) for record in _RECORD.iter_unpack(whole))


def stamps_clear(folder: Path) -> None:
    """Forget all; the files stay, for their processes hold them open."""
    for path in folder.glob("*.bin"):
        os.truncate(path, 0)
