"""The monkey: kills, freezes and restarts random parts of a running system."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from telemachus.local.home import BASE_DIR
from tests.e2e.system import MANAGE, System

POOL_WORKER = "-n prefork-1@"
FROZEN_S = (0.5, 5.0)


@dataclass
class Monkey:
    """Does each deed of `first`, then `deeds` by draw; `done` counts them by name."""

    system: System
    dice: random.Random
    first: list[str] = field(
        default_factory=lambda: [
            f"kill -9 {part}" for part in ("worker", "governor", "valkey", "postgres")
        ]
    )
    done: Counter[str] = field(default_factory=Counter)
    _extra: dict[str, subprocess.Popen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._parts = {
            "web": "daphne",
            "governor": "manage.py governor",
            "control worker": "-n control@",
            "worker": "-n model-1@",
            "other worker": "-n model-2@",
        }
        self.deeds: dict[str, Callable[[], None]] = {
            **{
                f"kill -9 {name}": self._signal(part, signal.SIGKILL)
                for name, part in self._parts.items()
            },
            **{
                f"restart {name}": self._signal(part, signal.SIGTERM)
                for name, part in self._parts.items()
            },
            **{f"freeze {name}": self._freeze(part) for name, part in self._parts.items()},
            "kill -9 worker pool child": self._kill_child,
            "kill -9 worker parent": self._signal(POOL_WORKER, signal.SIGKILL),
            "kill -9 valkey": self.system.kill_valkey,
            "kill -9 postgres": self.system.kill_postgres,
        }

    def start(self) -> None:
        """Add what `up` does not run: a standby governor and a worker with a pool of processes."""
        celery = [sys.executable, "-m", "celery", "-A", "telemachus", "--skip-checks", "worker"]
        pool = ["-P", "prefork", "-c", "2", *POOL_WORKER.split(), "-Q", "simulated"]
        pool[5] += "%h"
        self._commands = {
            "standby": [*MANAGE, "governor", "--skip-checks"],
            "pool": [*celery, *pool],
        }
        self.keep_extras()

    def keep_extras(self) -> None:
        """Start again what is not under `up`'s care and has died."""
        for name, command in self._commands.items():
            process = self._extra.get(name)
            if process is None or process.poll() is not None:
                self._extra[name] = subprocess.Popen(
                    command,
                    env=self.system.env,
                    cwd=BASE_DIR,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )

    def stop(self) -> None:
        for process in self._extra.values():
            process.terminate()
        for process in self._extra.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def kills(self) -> int:
        """How often it has killed."""
        return sum(count for name, count in self.done.items() if name.startswith("kill -9"))

    def strike(self) -> str:
        """Do one deed; return its name."""
        name = self.first[0] if self.first else self.dice.choice(sorted(self.deeds))
        try:
            self.deeds[name]()
        except (ProcessLookupError, AssertionError, ValueError, FileNotFoundError):
            return ""  # it is down already and on its way back
        self.done[name] += 1
        self.first = self.first[1:]
        self.keep_extras()
        return name

    def _signal(self, part: str, number: signal.Signals) -> Callable[[], None]:
        return lambda: os.kill(self._pid(part), number)

    def _freeze(self, part: str) -> Callable[[], None]:
        def freeze() -> None:
            pid = self._pid(part)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.dice.uniform(*FROZEN_S))
            os.kill(pid, signal.SIGCONT)

        return freeze

    def _kill_child(self) -> None:
        parent = self._extra["pool"].pid
        children = [pid for pid in self.system.pids(POOL_WORKER) if pid != parent]
        if not children:
            raise ProcessLookupError(POOL_WORKER)
        os.kill(self.dice.choice(children), signal.SIGKILL)

    def _pid(self, part: str) -> int:
        pids = self.system.pids(part)
        if not pids:
            raise ProcessLookupError(part)
        return self.dice.choice(pids)
