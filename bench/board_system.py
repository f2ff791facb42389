"""The system under the boards: Telemachus as `manage.py up` runs it, in a home of its own."""

import json
import subprocess
import sys
from collections.abc import Mapping

from bench.board_sockets import Seats
from bench.places import HOME, Places, places_close, plain_environ
from telemachus.local import postgres, valkey
from telemachus.local.child import Child
from telemachus.local.home import BASE_DIR, ensure_home
from telemachus.local.installation import ROWS, STATIC, Options, children
from telemachus.local.ports import free_port


class Installed:
    """A Telemachus in a home of its own, with an empty database, for a `with` block."""

    name = "boards"

    def __init__(self, threads: int) -> None:
        """Remember how many jobs run at a time; nothing starts before the block."""
        self._home = ensure_home(HOME / "boards")
        self.options = Options(port=free_port(), workers=1, threads=threads)
        self.env: dict[str, str] = {}

    def __enter__(self) -> "Installed":
        home = self._home
        for folder in ("stamps", "logs"):
            (home / folder).mkdir(exist_ok=True)
        self.places = Places(
            home=home,
            database_url=postgres.ensure_running(home),
            valkey_url=valkey.ensure_running(home),
            stamps=home / "stamps",
            logs=home / "logs",
        )
        self.env = plain_environ() | {
            "TELEMACHUS_HOME": str(home),
            "DATABASE_URL": self.places.database_renew("boards"),
            "REDIS_URL": self.places.broker_empty(0),
            "LOG_LEVEL": "WARNING",
        }
        return self

    def __exit__(self, *_: object) -> None:
        places_close(self._home)

    def processes(self, *, kill: bool) -> list[Child]:
        """Return web, governor, control worker and one worker."""
        del kill
        return children(self.options, self.env)

    def seats(self, jobs: int, tenants: int) -> Seats:
        """Bring up the schema, set the scene; returns who may sign in."""
        for command in (STATIC, ROWS):
            self._run(str(BASE_DIR / "manage.py"), *command)
        made = self._run("-m", "bench.board_scene", "make", str(jobs), str(tenants))
        return Seats(**json.loads(made))

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(  # noqa: S603 (our own modules)
            [sys.executable, *arguments],
            env=self.env,
            cwd=BASE_DIR,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
        )
        return done.stdout


class Lever:
    """The dial of the pool, in a process that stays, so that only the change itself takes time."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Start the process."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.board_scene", "levers"],
            env=env,
            cwd=BASE_DIR,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def dial(self, units: int) -> float:
        """Dial the pool; returns when that had committed, in epoch seconds."""
        if self._process.stdin is None or self._process.stdout is None:
            message = "the lever's process has no pipes"
            raise RuntimeError(message)
        self._process.stdin.write(f"{units}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
