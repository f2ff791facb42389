"""Runs a command that must not outlive its parent: `python leash.py PARENT_PID COMMAND ...`.

On Linux the kernel is asked to kill this process when its parent dies (PR_SET_PDEATHSIG), which
stays asked for across exec; elsewhere the command simply runs. Done in a program of its own, run
by path with nothing but the standard library, because doing it between fork and exec is unsafe
in a parent with threads. The signal follows the death of the parent's *thread*, so the thread
that starts a leash must live as long as the command should.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
CANNOT_RUN = 127


def main(parent_pid: int, command: list[str]) -> None:
    """Tie this process to its parent, then become `command`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        sys.exit("the parent process is gone")  # it died before the kernel was asked
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it; the command should not
    try:
        os.execvp(command[0], command)  # noqa: S606 no shell is the point
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error.strerror}\n")
        sys.exit(CANNOT_RUN)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
