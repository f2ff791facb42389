"""The data folder of the embedded PostgreSQL: made whole or not at all, never deleted.

initdb works in a folder of its own, which is renamed into place when it is done. A killed initdb
so leaves only that draft, and the next start begins it anew. Data that lacks a file which every
cluster has is moved aside with a message.
"""

import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from telemachus.local.errors import NO_SPACE, LocalServiceError, explained, no_space
from telemachus.local.postgres_binaries import find_binaries
from telemachus.local.postgres_owner import Owner, owner_of
from telemachus.local.server_log import tail

logger = logging.getLogger(__name__)

ADMIN = "postgres"
MARKERS = ("PG_VERSION", "global/pg_control", "postgresql.conf", "pg_wal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A complete data folder, the programs for it and the identity they run under."""

    data: Path
    log: Path
    binaries: Path
    owner: Owner


def data_folder(home: Path) -> Path:
    """Where PostgreSQL's data is kept."""
    return home / "pgdata"


def open_cluster(home: Path, *, admin_password: str) -> Cluster:
    """The home's cluster, created if missing. The caller holds the start lock; no server runs.

    Raises LocalServiceError when it cannot be made or reached.
    """
    _set_aside_broken(home)
    cluster = existing_cluster(home)
    if not cluster.data.exists():
        _create(cluster, admin_password)
    return cluster


def existing_cluster(home: Path) -> Cluster:
    """Programs and identity for the data folder as it is, or as it would be made."""
    data = data_folder(home)
    binaries = find_binaries(data_major=_data_major(data))
    owner = owner_of(data, home=home, binaries=binaries)
    return Cluster(data=data, log=home / "logs/postgres.log", binaries=binaries, owner=owner)


def _data_major(data: Path) -> int | None:
    with explained("read", data):
        if not data.exists():
            return None
        text = (data / "PG_VERSION").read_text(encoding="ascii").strip()
    if not text.isdecimal():
        message = f"{data}/PG_VERSION holds {text!r}, no version: move the folder away"
        raise LocalServiceError(message)
    return int(text)


def _set_aside_broken(home: Path) -> None:
    data = data_folder(home)
    with explained("check", data):
        shutil.rmtree(_draft(home), ignore_errors=True)
        if not data.exists() or all((data / marker).exists() for marker in MARKERS):
            return
        if not any(data.iterdir()):
            data.rmdir()
            return
        aside = next(p for n in range(1, 10_000) if not (p := home / f"pgdata.broken-{n}").exists())
        data.rename(aside)
    logger.warning("%s was incomplete and has been moved to %s; making a new one", data, aside)


def _draft(home: Path) -> Path:
    return home / "pgdata.init"


def _create(cluster: Cluster, admin_password: str) -> None:
    home = cluster.data.parent
    draft, password_file = _draft(home), home / "pgdata.password"
    with explained("create", draft):
        draft.mkdir(mode=0o700)
        password_file.unlink(missing_ok=True)
        handle = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(admin_password)
    try:
        cluster.owner.give(draft)
        cluster.owner.give(password_file)
        _initdb(cluster, draft, password_file)
    finally:
        password_file.unlink(missing_ok=True)
    with explained("move into place", cluster.data):
        draft.rename(cluster.data)


def _initdb(cluster: Cluster, draft: Path, password_file: Path) -> None:
    options = ["-U", ADMIN, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8"]
    where = ["-D", str(draft), f"--pwfile={password_file}"]
    answer = cluster.owner.run([cluster.binaries / "initdb", *options, *where])
    if answer.returncode == 0:
        return
    if NO_SPACE in answer.stdout:
        raise no_space(cluster.data)
    message = (
        f"initdb could not create {cluster.data}; correct what it says below, or set DATABASE_URL "
        f"to a running server:{tail(answer.stdout)}"
    )
    raise LocalServiceError(message)
