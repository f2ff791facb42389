"""The phases of one system's turn: a whole life, the wait until a start, and a killed worker."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from bench.costs import cpu_between, cpu_seconds
from bench.places import Places
from bench.stamps import stamps_clear, stamps_count, stamps_read
from bench.systems import Running, System
from telemachus.local.child import Child

WARM_JOBS = 200
POLL_S = 0.02
MANY, POLL_MANY_S = 500, 0.1
"""While many jobs are left, they are counted less often, for counting costs the database time."""
STALL_S = 60.0
KILL_AFTER_S = 1.2
KILL_WATCH_S = 20.0


class Unfinished(RuntimeError):
    """A system did not do all its jobs; the text says which and how many are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """`jobs` from the first submit to the last done, and the processor seconds it took."""

    jobs: int
    seconds: float
    submit_s: float
    cpu_s: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """What came of a killed worker: when all was done, None if not within the watch."""

    jobs: int
    done: int
    left_at_kill: int
    seconds: float | None
    own_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One system at its place."""

    system: System
    places: Places

    def life(self, running: Running, command: str, jobs: int) -> Life:
        """Submit no-op jobs and wait until all are done."""
        stamps_clear(self.places.stamps)
        pids = running.pids() | {
            "postgres": self.places.postgres_pid(),
            "valkey": self.places.valkey_pid(),
        }
        before = cpu_seconds(pids)
        answer = self._submit(command, jobs)
        ended = self._wait(jobs)
        used = cpu_between(before, cpu_seconds(pids)) | {"client": answer["cpu_s"]}
        return Life(
            jobs=jobs,
            seconds=ended - answer["began"],
            submit_s=answer["ended"] - answer["began"],
            cpu_s=used,
        )

    def warm(self, running: Running) -> float:
        """Run some jobs, so that everything is up, imported and connected; returns jobs a second."""
        self.life(running, "bulk", WARM_JOBS)
        return self.life(running, "bulk", WARM_JOBS).rate

    def waits(self, per_second: float, seconds: float) -> dict[str, list[float]]:
        """Return the seconds from submit to start of jobs submitted at an even pace, by clock."""
        stamps_clear(self.places.stamps)
        before = self.system.recorded()
        answer = self._submit("rate", per_second, seconds)
        jobs = int(per_second * seconds)
        self._wait(jobs)
        if not self.system.shape.stamps:
            return _recorded_waits(answer["times"], self.system.recorded()[len(before) :])
        found = [one.started_at - one.submitted_at for one in stamps_read(self.places.stamps)]
        return {"call": found}

    def kill(self, running: Running) -> Kill:
        """Kill a worker process amid sleeping jobs; the supervisor starts another."""
        shape = self.system.shape
        stamps_clear(self.places.stamps)
        answer = self._submit("sleep", shape.kill_jobs, shape.kill_s)
        time.sleep(max(0.0, answer["began"] + KILL_AFTER_S - time.time()))
        left = shape.kill_jobs - self._slept()
        os.killpg(self.system.victim(running.pids()), signal.SIGKILL)
        killed = time.time()
        while self._slept() < shape.kill_jobs and time.time() < killed + KILL_WATCH_S:
            time.sleep(POLL_S)
        done, ended = self._slept(), time.time()
        return Kill(
            jobs=shape.kill_jobs,
            done=done,
            left_at_kill=left,
            seconds=ended - killed if done == shape.kill_jobs else None,
            own_s=-(-left // shape.slots) * shape.kill_s,
        )

    def _slept(self) -> int:
        """Return how many sleeping jobs have ended."""
        if not self.system.shape.stamps:
            return self.system.shape.kill_jobs - self.system.unfinished()
        return len({one.number for one in stamps_read(self.places.stamps) if one.number < 0})

    def _submit(self, *arguments: float | str) -> dict[str, Any]:
        return submitted(self.system.client(*[str(one) for one in arguments]))

    def _wait(self, jobs: int) -> float:
        """Wait until all are done; returns when that was. Raises `Unfinished` when it stalls."""
        last, moved = -1, time.time()
        while left := self._left(jobs):
            if left != last:
                last, moved = left, time.time()
            elif time.time() > moved + STALL_S:
                message = f"{self.system.name}: {left} of {jobs} jobs are not done and none moves"
                raise Unfinished(message)
            time.sleep(POLL_S if left < MANY else POLL_MANY_S)
        if self.system.shape.recorded:
            return time.time()
        return max(one.started_at for one in stamps_read(self.places.stamps))

    def _left(self, jobs: int) -> int:
        """Return how many jobs are not done; the database is asked only when it may be none."""
        shape = self.system.shape
        missing = jobs - stamps_count(self.places.stamps) if shape.stamps else 0
        if missing > 0 or not shape.recorded:
            return max(0, missing)
        return self.system.unfinished()


def submitted(client: Child) -> dict[str, Any]:
    """Run a submitting process; returns its answer. Raises CalledProcessError when it fails."""
    done = subprocess.run(  # noqa: S603 (the systems' own commands)
        client.argv, env=dict(client.env), cwd=client.cwd, check=True, stdout=subprocess.PIPE
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _recorded_waits(times: list[float], rows: list[tuple[float, float]]) -> dict[str, list[float]]:
    """Measure from the client's call, as peers are, and by the database's clock alone."""
    return {
        "call": [started - at for at, (_, started) in zip(times, rows, strict=True)],
        "database": [started - submitted_at for submitted_at, started in rows],
    }
