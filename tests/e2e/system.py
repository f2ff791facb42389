"""A whole running system for a test: `manage.py up` in a home of its own, and hands to reach it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg

from telemachus.local import postgres, valkey
from telemachus.local.home import BASE_DIR
from telemachus.local.ports import free_port

READY = "telemachus is up: "
MANAGE = [sys.executable, str(BASE_DIR / "manage.py")]
FOREIGN = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "TELEMACHUS_TEST_RUN")


@dataclass
class System:
    """One `up`: its address, its log so far, its home, and the tenants' keys."""

    home: Path
    port: int
    lines: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    ready: threading.Event = field(default_factory=threading.Event)

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        return {**kept, "TELEMACHUS_HOME": str(self.home), "PYTHONUNBUFFERED": "1"}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [*MANAGE, "up", "--port", str(self.port), "--threads", "4", *options],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=BASE_DIR,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.ready.wait(90), self.tail()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if READY in line:
                self.ready.set()

    def tail(self, count: int = 60) -> str:
        return "\n".join(self.lines[-count:])

    def seed(self, budget: int, share_by: str, **policy: object) -> None:
        self.seed_by("tests.e2e.seed", str(budget), share_by, json.dumps(policy))

    def seed_by(self, module: str, *arguments: str) -> None:
        """Make a scene by a module that prints the tenants' keys."""
        self.keys = json.loads(self.run(module, *arguments))

    def run(self, module: str, *arguments: str) -> str:
        """Run a module in a process of its own on this system; return what it printed."""
        return self._done([sys.executable, "-m", module, *arguments])

    def manage(self, *arguments: str) -> str:
        """Run a management command on this system; return what it printed."""
        return self._done([*MANAGE, *arguments])

    def _done(self, command: list[str]) -> str:
        done = subprocess.run(
            command, env=self.env, cwd=BASE_DIR, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def client(self, tenant: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.keys[tenant]}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=30)

    @contextmanager
    def signed_in(self, name: str, password: str) -> Iterator[httpx.Client]:
        """Give a client of the API with a browser's session instead of a key."""
        with httpx.Client(base_url=self.url, timeout=30) as client:
            client.get("/login/")
            client.headers["Referer"] = self.url
            token = {"csrfmiddlewaretoken": client.cookies["csrftoken"]}
            told = {"username": name, "password": password}
            assert client.post("/login/", data=told | token).status_code == 302
            client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
            client.base_url = f"{self.url}/api/v1"
            yield client

    def sql(self, statement: str, *values: object) -> list[tuple]:
        url = postgres.url(self.home)
        assert url is not None, "the database is down"
        with psycopg.connect(url, autocommit=True) as session:
            cursor = session.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def wait(self, what: str, true: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if true():
                    return
            except (psycopg.Error, AssertionError):
                pass  # the database is coming back
            time.sleep(0.1)
        message = f"{what} did not happen within {seconds} s\n{self.tail()}"
        raise AssertionError(message)

    def pids(self, part: str) -> list[int]:
        """Return the processes of this system whose command line has `part`."""
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal():
                continue
            try:
                environ = (folder / "environ").read_bytes()
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if f"TELEMACHUS_HOME={self.home}".encode() in environ and part in command:
                found.append(int(folder.name))
        return found

    def kill(self, part: str) -> None:
        pids = self.pids(part)
        assert pids, f"no process with {part!r}"
        os.kill(pids[0], signal.SIGKILL)

    def kill_postgres(self) -> None:
        pid = int((self.home / "pgdata" / "postmaster.pid").read_text().split("\n")[0])
        os.kill(pid, signal.SIGKILL)

    def kill_valkey(self) -> None:
        url = valkey.url(self.home)
        assert url is not None
        port = url.rsplit(":", 1)[1].split("/")[0]
        (pid,) = {
            int(folder.name)
            for folder in Path("/proc").iterdir()
            if folder.name.isdecimal() and _is_valkey(folder, port)
        }
        os.kill(pid, signal.SIGKILL)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self._reader.join(5)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def system_of(ready_home: Path, folder: Path) -> System:
    """Return a system that has not started, whose home in `folder` is a copy of a ready one."""
    one = System(home=folder / "home", port=free_port())
    shutil.copytree(ready_home, one.home, symlinks=True)
    return one


def _is_valkey(folder: Path, port: str) -> bool:
    try:
        command = (folder / "cmdline").read_bytes().decode()
    except OSError:
        return False
    return "valkey-server" in command and f":{port}" in command
