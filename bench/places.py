"""The places of a benchmark: servers, databases, environments and stamps, all under `var/bench`.

The servers are Telemachus' own embedded ones, so every system meets the same PostgreSQL and Valkey.
Each peer gets a virtual environment of its own, at the versions below, made at the first run.
"""

import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import redis
from psycopg import sql

from telemachus.local import postgres, valkey
from telemachus.local.home import BASE_DIR, ensure_home

PINNED: Mapping[str, tuple[str, ...]] = {
    "celery": ("celery==5.7.0", "redis==8.1.0", "packaging"),
    "procrastinate": ("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.9"),
    "dbos": ("dbos==3.4.0", "psycopg[binary]==3.3.9"),
    "tools": ("py-spy==0.4.3",),
}
HOME = BASE_DIR / "var" / "bench"
INSTALLED = "installed.txt"
DROP_TRIES = 40
FOREIGN = (
    "DJANGO_SETTINGS_MODULE",
    "TELEMACHUS_HOME",
    "DATABASE_URL",
    "REDIS_URL",
    "CELERY_BROKER_URL",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where everything is; the URLs carry passwords and are shown to nobody."""

    home: Path
    database_url: str
    valkey_url: str
    stamps: Path
    logs: Path

    def database(self, name: str) -> str:
        """Return the URL of another database of the same server."""
        parts = urlsplit(self.database_url)
        return urlunsplit(parts._replace(path=f"/{name}"))

    def broker(self, number: int) -> str:
        """Return the URL of a numbered database of the Valkey."""
        return f"{self.valkey_url.removesuffix('/0')}/{number}"

    def database_renew(self, name: str, *, template: str = "template1") -> str:
        """Make a database anew, as a copy of another; returns its URL."""
        with psycopg.connect(self.database_url, autocommit=True) as session:
            named, source = sql.Identifier(name), sql.Identifier(template)
            _drop(session, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(named))
            session.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(named, source))
        return self.database(name)

    def broker_empty(self, number: int) -> str:
        """Empty a numbered database of the Valkey; returns its URL."""
        with redis.Redis.from_url(self.broker(number)) as client:
            client.flushdb()
        return self.broker(number)

    def postgres_pid(self) -> int:
        """Return the server's process id."""
        return int((self.home / "pgdata" / "postmaster.pid").read_text().split("\n", 1)[0])

    def valkey_pid(self) -> int:
        """Return the broker's process id."""
        with redis.Redis.from_url(self.valkey_url) as client:
            return int(client.info("server")["process_id"])

    def server_versions(self) -> dict[str, str]:
        """Return the versions of the two servers."""
        with psycopg.connect(self.database_url) as session:
            row = session.execute("SHOW server_version").fetchone()
        with redis.Redis.from_url(self.valkey_url) as client:
            info = client.info("server")
        valkey_version = info.get("valkey_version") or info["redis_version"]
        return {"PostgreSQL": row[0] if row else "", "Valkey": str(valkey_version)}


def _drop(session: psycopg.Connection, statement: sql.Composed) -> None:
    """Drop a database; the server's own vacuum in it may be ended by none but the server."""
    for left in reversed(range(DROP_TRIES)):
        try:
            session.execute(statement)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectInUse):
            if not left:
                raise
            time.sleep(0.5)
        else:
            return


@contextmanager
def places_open() -> Iterator[Places]:
    """Start or reuse the servers, and stop them after the block; the rest stays for the next run.

    Raises LocalServiceError when they cannot run.
    """
    home = ensure_home(HOME)
    stamps, logs = home / "stamps", home / "life-logs"
    for folder in (stamps, logs):
        folder.mkdir(exist_ok=True)
    try:
        yield Places(
            home=home,
            database_url=postgres.ensure_running(home),
            valkey_url=valkey.ensure_running(home),
            stamps=stamps,
            logs=logs,
        )
    finally:
        places_close(home)


def places_close(home: Path) -> None:
    """Stop the servers; the data and environments stay for the next run."""
    valkey.stop(home)
    postgres.stop(home)


def environment(name: str) -> Path:
    """Return the folder of programs of a peer's environment, making it if it is not there."""
    folder = HOME / f"venv-{name}"
    wanted = "\n".join(PINNED[name])
    marker = folder / INSTALLED
    if not marker.exists() or marker.read_text(encoding="utf-8") != wanted:
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        command = [*pip, "--disable-pip-version-check", *PINNED[name]]
        subprocess.run(command, check=True)  # noqa: S603 (pinned names of this file)
        marker.write_text(wanted, encoding="utf-8")
    return folder / "bin"


def plain_environ() -> dict[str, str]:
    """Return this process's variables without those that would name other servers."""
    kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    return kept | {"PYTHONPATH": str(BASE_DIR), "PYTHONUNBUFFERED": "1"}


def versions() -> dict[str, str]:
    """Return what the peers are pinned to, and the Python that runs all."""
    named = [pin.partition("==") for pins in PINNED.values() for pin in pins[:1]]
    found = {name: version for name, _, version in named if name in PINNED}
    return {"Python": sys.version.split()[0]} | found
