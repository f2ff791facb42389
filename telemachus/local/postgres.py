"""The embedded PostgreSQL of a home folder: start or reuse it, find it, stop it.

The server is a daemon: it outlives the process that started it, and the next start reuses it. It
listens on loopback only, asks for a password (scram), and the application's role is no superuser.
`DATABASE_URL` in the environment is the way to another server; callers check that, not this module.
"""

import logging
import shlex
import time
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from telemachus.local.errors import NO_SPACE, LocalServiceError, explained, no_space
from telemachus.local.home import ensure_home, file_lock, subfolder
from telemachus.local.ports import (
    LOOPBACK,
    PortPick,
    free_port,
    pick_port,
    port_setting,
    require_same,
)
from telemachus.local.postgres_cluster import (
    ADMIN,
    Cluster,
    data_folder,
    existing_cluster,
    open_cluster,
)
from telemachus.local.processes import is_running, read_pid
from telemachus.local.secrets_file import load_secrets, read_secrets
from telemachus.local.server_log import log_end, log_since, rotate, tail

logger = logging.getLogger(__name__)

PORT_VARIABLE = "TELEMACHUS_PG_PORT"
DATABASE = ROLE = "telemachus"
START_TRIES = 20
START_WAIT_S = 60
LEFTOVER_WAIT_S = 0.5
SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "synchronous_commit": "on",
    "max_wal_size": "1GB",
    # Containers often give /dev/shm 64 MB, too little for parallel hash joins; two cores gain none.
    "max_parallel_workers_per_gather": "0",
    "autovacuum_naptime": "10s",  # a backlog comes and goes within the minute that is the default
    "jit": "off",  # statements here are short: compiling one would take longer than running it
    "log_line_prefix": "%m [%p] ",
    "lc_messages": "C",  # this module reads the server's messages
}


def ensure_running(home: Path, *, port: int | None = None) -> str:
    """DATABASE_URL of the home's server, started if it does not run; safe to call at any time.

    `port`, else TELEMACHUS_PG_PORT, must be free; without them the last port or any free one is
    used. Raises LocalServiceError: what failed, where, what to do, and the log's last lines.
    """
    home = ensure_home(home)
    asked = port if port is not None else port_setting(PORT_VARIABLE)
    secrets = load_secrets(home)
    with file_lock(home / "postgres.lock"):
        live = _live_port(home)
        if live is None:
            live = _start(home, secrets, asked)
        require_same("PostgreSQL", live=live, asked=asked, setting=PORT_VARIABLE)
        _ensure_database(home, live, secrets)
    return _url(live, secrets)


def url(home: Path) -> str | None:
    """DATABASE_URL of the home's server if it runs, else None; starts and changes nothing."""
    home = home.resolve()
    port = _live_port(home)
    secrets = read_secrets(home) if port is not None else {}
    return _url(port, secrets) if port is not None and "POSTGRES_PASSWORD" in secrets else None


def stop(home: Path) -> None:
    """Stop the home's server, rolling open transactions back; nothing happens if none runs."""
    home = home.resolve()
    if _live_port(home) is None:
        return
    with file_lock(home / "postgres.lock"):
        cluster = existing_cluster(home)
        for mode in ("fast", "immediate"):
            if _live_port(home) is None:
                return
            answer = _pg_ctl(cluster, "-m", mode, "stop")
        if _live_port(home) is not None:
            message = f"PostgreSQL in {cluster.data} does not stop:{tail(answer)}"
            raise LocalServiceError(message)


def _url(port: int, secrets: dict[str, str]) -> str:
    password = quote(secrets["POSTGRES_PASSWORD"], safe="")
    return f"postgresql://{ROLE}:{password}@{LOOPBACK}:{port}/{DATABASE}"


def _live_port(home: Path) -> int | None:
    """Port of the postmaster that runs on the home's data; line 4 of its pid file."""
    data = data_folder(home)
    pid_file = data / "postmaster.pid"
    pid = read_pid(pid_file)
    if pid is None or not is_running(pid, word=f"-D {data}"):
        return None
    try:
        return int(pid_file.read_text(encoding="utf-8").split("\n")[3])
    except (OSError, IndexError, ValueError):
        return None  # just starting, or just gone


def _start(home: Path, secrets: dict[str, str], asked: int | None) -> int:
    memory = home / "postgres.port"
    pick = pick_port(asked=asked, last=read_pid(memory), setting=PORT_VARIABLE)
    log_folder = subfolder(home, "logs")
    cluster = open_cluster(home, admin_password=secrets["POSTGRES_ADMIN_PASSWORD"])
    with explained("clear the leftovers in", cluster.data):
        (cluster.data / "postmaster.pid").unlink(missing_ok=True)  # a dead server's
        rotate(log_folder / "postgres.log")
        cluster.log.touch(mode=0o600)
        cluster.owner.give(cluster.log)
    port = _launch_until_up(cluster, pick)
    with explained("write", memory):
        memory.write_text(f"{port}\n", encoding="utf-8")
    return port


def _launch_until_up(cluster: Cluster, pick: PortPick) -> int:
    """Launch, again when the cause passes: a killed server's last backend, a port just taken."""
    port, said = pick.port, ""
    for _ in range(START_TRIES):
        failed, said = _launch(cluster, port)
        if not failed:
            return port
        if "shared memory block" in said:
            time.sleep(LEFTOVER_WAIT_S)
        elif "Address already in use" in said and not pick.fixed:
            port = free_port()
        else:
            break
    if NO_SPACE in said:
        raise no_space(cluster.data)
    message = (
        f"PostgreSQL did not start on {cluster.data}, port {port}; correct what its log "
        f"{cluster.log} says, or set DATABASE_URL to a running server:{tail(said)}"
    )
    raise LocalServiceError(message)


def _launch(cluster: Cluster, port: int) -> tuple[bool, str]:
    """Whether a launch failed, and what it said."""
    settings = SETTINGS | {"port": str(port)}
    options = shlex.join(part for item in settings.items() for part in ("-c", "=".join(item)))
    offset = log_end(cluster.log)
    said = _pg_ctl(cluster, "-l", str(cluster.log), "-o", options, "start")
    failed = _live_port(cluster.data.parent) is None
    return failed, log_since(cluster.log, offset) or said


def _pg_ctl(cluster: Cluster, *arguments: str) -> str:
    program = cluster.binaries / "pg_ctl"
    waiting = ("-w", "-t", str(START_WAIT_S))
    return cluster.owner.run([program, "-D", cluster.data, *waiting, *arguments]).stdout


def _ensure_database(home: Path, port: int, secrets: dict[str, str]) -> None:
    """The application's role, with the password of the secrets file, and its database."""
    with _admin_connection(home, port, secrets) as connection:
        known = connection.execute(
            "SELECT (SELECT count(*) FROM pg_roles WHERE rolname = %s), "
            "(SELECT count(*) FROM pg_database WHERE datname = %s)",
            (ROLE, DATABASE),
        ).fetchone()
        has_role, has_database = known or (0, 0)
        verb = sql.SQL("ALTER ROLE" if has_role else "CREATE ROLE")
        role, database = sql.Identifier(ROLE), sql.Identifier(DATABASE)
        # Hashed here, so that no password can reach the server's log.
        hashed = connection.pgconn.encrypt_password(
            secrets["POSTGRES_PASSWORD"].encode(), ROLE.encode(), b"scram-sha-256"
        )
        change = sql.SQL("{} {} LOGIN CREATEDB PASSWORD {}")
        connection.execute(change.format(verb, role, sql.Literal(hashed.decode())))
        if not has_database:
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, role))


def _admin_connection(
    home: Path, port: int, secrets: dict[str, str]
) -> psycopg.Connection[tuple[object, ...]]:
    """A superuser's connection, waiting while the server recovers from a crash."""
    deadline = time.monotonic() + START_WAIT_S
    while True:
        try:
            return psycopg.connect(
                host=LOOPBACK,
                port=port,
                user=ADMIN,
                password=secrets["POSTGRES_ADMIN_PASSWORD"],
                dbname="postgres",
                connect_timeout=10,
                autocommit=True,
            )
        except psycopg.OperationalError as error:
            text = str(error)
            recovering = "starting up" in text or "recovery" in text
            if not recovering or time.monotonic() > deadline:
                raise _refused(home, port, text) from error
        time.sleep(0.05)


def _refused(home: Path, port: int, text: str) -> LocalServiceError:
    if "password authentication failed" in text:
        return LocalServiceError(
            f"PostgreSQL on port {port} does not know the password in {home}/secrets.env: put back "
            f"the file that belongs to {data_folder(home)}, or stop the server and move that "
            f"folder away to begin with an empty database"
        )
    return LocalServiceError(
        f"PostgreSQL on port {port} runs but refuses a connection; see "
        f"{home}/logs/postgres.log:{tail(text)}"
    )
