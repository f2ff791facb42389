"""One supervised child process: its specification, and the process that runs it now."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

LEASH = Path(__file__).with_name("leash.py")
LONGEST_LINE = 64_000
PUMP_WAIT_S = 1.0

Write = Callable[[str, str], None]  # (name of the speaker, one line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """What to run: a name for the logs, a command, its whole environment, its folder."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path


def exit_text(code: int) -> str:
    """How a process ended, in words: `exit code 3` or `signal SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


class Running:
    """A started child: in a process group of its own, its output going to `write` line by line.

    Raises OSError when it cannot be started.
    """

    def __init__(self, child: Child, write: Write) -> None:
        # -I -S: nothing but the standard library, so the leash costs a few milliseconds.
        leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid())]
        self._process = subprocess.Popen(  # noqa: S603 commands are the caller's own
            [*leash, *child.argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=child.cwd,
            env=dict(child.env),
            process_group=0,
        )
        self.pid = self._process.pid
        self._pump = threading.Thread(
            target=_pump, args=(child.name, self._process.stdout, write), daemon=True
        )
        self._pump.start()

    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        return self._process.wait()

    def terminate(self) -> None:
        """Ask it to finish."""
        self._process.terminate()

    def kill_group(self) -> None:
        """Kill it and all it started in its group; call it after an exit too, for those left."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return  # nobody left (macOS says so by EPERM)

    def close(self) -> None:
        """Wait for the killed process, and for its last lines."""
        self._process.wait()
        self._pump.join(PUMP_WAIT_S)


def _pump(name: str, stream: IO[bytes], write: Write) -> None:
    with stream:
        while line := stream.readline(LONGEST_LINE):
            write(name, line.decode(errors="replace").rstrip("\r\n"))
