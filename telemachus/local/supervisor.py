"""Keeps a set of child processes alive until told to stop, then ends them in good order.

A child that ends, however it ends, is started again after a delay that doubles while it keeps
failing at once, and begins anew after it has lived a while. Stopping: SIGTERM to each, a time of
grace, SIGKILL to the groups of those left. A second request to stop ends the grace.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from telemachus.local.child import Child, Running, Write, exit_text

SPEAKER = "up"
TICK_S = 0.05
GRACE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delay before a restart, in seconds."""

    first_s: float = 0.2
    limit_s: float = 10.0
    reset_after_s: float = 30.0

    def after(self, previous_s: float, lived_s: float) -> float:
        """The next delay, for a process that lived `lived_s` after a delay of `previous_s`."""
        if previous_s <= 0 or lived_s >= self.reset_after_s:
            return self.first_s
        return min(self.limit_s, previous_s * 2)


class _Slot:
    """One child's place: running now, or due to start at a time of the monotonic clock."""

    def __init__(self, child: Child, write: Write, backoff: Backoff) -> None:
        self.child = child
        self.running: Running | None = None
        self._write = write
        self._backoff = backoff
        self._delay_s = 0.0
        self._begun = 0.0
        self._due = 0.0

    def tick(self, now: float) -> None:
        """Start the child if it is due; notice its end if it has ended."""
        if self.running is None:
            if now >= self._due:
                self._start(now)
            return
        code = self.running.exit_code()
        if code is not None:
            self.end()
            self._retry(now, f"ended with {exit_text(code)}")

    def end(self) -> None:
        """Kill what is left of the child and its group."""
        if self.running is not None:
            self.running.kill_group()
            self.running.close()
            self.running = None

    def _start(self, now: float) -> None:
        self._begun = now
        try:
            self.running = Running(self.child, self._write)
        except OSError as error:
            self._retry(now, f"could not be started ({error.strerror or error})")

    def _retry(self, now: float, what: str) -> None:
        self._delay_s = self._backoff.after(self._delay_s, now - self._begun)
        self._due = now + self._delay_s
        self._write(SPEAKER, f"{self.child.name} {what}, restart in {self._delay_s:.1f} s")


class Supervisor:
    """Runs children until `request_stop`; `write` takes (speaker, line) from several threads."""

    def __init__(
        self,
        children: Sequence[Child],
        *,
        write: Write,
        backoff: Backoff | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self._write = write
        self._grace_s = grace_s
        self._slots = [_Slot(child, write, backoff or Backoff()) for child in children]
        # A plain number, not an Event: a signal handler may not wait for a lock.
        self._stops = 0

    def request_stop(self) -> None:
        """Begin to stop; asked again, kill at once. Safe in a signal handler or another thread."""
        self._stops += 1

    def pids(self) -> dict[str, int]:
        """Process id of each child that runs at this moment, by name."""
        running = [(slot.child.name, slot.running) for slot in self._slots]
        return {name: process.pid for name, process in running if process is not None}

    def run(self) -> None:
        """Keep the children alive until asked to stop; returns when all are gone.

        The thread that calls this is the children's parent: on Linux they are killed when it dies.
        """
        try:
            while not self._stops:
                now = time.monotonic()
                for slot in self._slots:
                    slot.tick(now)
                time.sleep(TICK_S)
        finally:
            self._shut_down()

    def _shut_down(self) -> None:
        waiting = [slot for slot in self._slots if slot.running is not None]
        for slot in waiting:
            if slot.running is not None:
                slot.running.terminate()
        deadline = time.monotonic() + self._grace_s
        while waiting and self._stops < 2 and time.monotonic() < deadline:
            time.sleep(TICK_S)
            waiting = [slot for slot in waiting if _alive(slot)]
        for slot in waiting:
            self._write(SPEAKER, f"{slot.child.name} does not stop, killing it")
        for slot in self._slots:
            slot.end()


def _alive(slot: _Slot) -> bool:
    return slot.running is not None and slot.running.exit_code() is None
