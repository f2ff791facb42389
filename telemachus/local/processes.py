"""Is that process still ours? Looks at a pid, not trusting that it means what it meant.

A pid file outlives kill -9, its pid may since belong to another program, and where pid 1 is slow
to reap, a killed server stays a zombie for seconds: it answers signal 0 and runs nothing.
"""

import shutil
import subprocess
import time
from pathlib import Path

PROC = Path("/proc")


def command_text(pid: int) -> str | None:
    """Command line of a running process, words apart by a space; None if dead or a zombie."""
    if pid <= 0:
        return None
    if (PROC / "self" / "stat").exists():
        return _from_proc(pid)
    return _from_ps(pid)


def is_running(pid: int, *, word: str) -> bool:
    """True if the process lives and `word` stands alone in its command line."""
    text = command_text(pid)
    return text is not None and f" {word} " in f" {text} "


def read_pid(path: Path) -> int | None:
    """The number on a pid file's first line; None without a readable one."""
    try:
        return int(path.read_text(encoding="utf-8").split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def wait_gone(pid: int, *, word: str, within_s: float) -> bool:
    """Wait until the process no longer runs; False when it outlived `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while is_running(pid, word=word):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _from_proc(pid: int) -> str | None:
    try:
        state = (PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0]
        words = (PROC / str(pid) / "cmdline").read_bytes()
    except (OSError, IndexError):
        return None
    if state in "ZX":
        return None
    return words.replace(b"\0", b" ").decode(errors="replace").strip()


def _from_ps(pid: int) -> str | None:
    """The same where there is no /proc (macOS, BSD)."""
    ps = shutil.which("ps")
    if ps is None:
        return None
    argv = [ps, "-ww", "-o", "stat=,command=", "-p", str(pid)]  # ww: not cut to a width
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 fixed argv
    state, _, command = answer.stdout.strip().partition(" ")
    return command.strip() if state and not state.startswith("Z") else None
