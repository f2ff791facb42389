"""The embedded Valkey of a home folder: start or reuse it, find it, stop it.

It is Celery's broker, the channel layer and the wake-up line. Like PostgreSQL it is a daemon that
outlives its starter. `REDIS_URL` in the environment is the way to another server; callers check
that, not this module.
"""

import os
import signal
import time
from pathlib import Path
from urllib.parse import quote

from telemachus.local.errors import LocalServiceError, explained
from telemachus.local.home import ensure_home, file_lock
from telemachus.local.ports import LOOPBACK, pick_port, port_setting, require_same
from telemachus.local.processes import read_pid, wait_gone
from telemachus.local.secrets_file import load_secrets, read_secrets
from telemachus.local.valkey_server import (
    LOADING_WAIT_S,
    State,
    ask,
    config_port,
    live_port,
    log_file,
    pid_file,
    start,
    title,
)

PORT_VARIABLE = "TELEMACHUS_REDIS_PORT"
ANSWER_WAIT_S = 5.0
STOP_WAIT_S = 15.0


def ensure_running(home: Path, *, port: int | None = None) -> str:
    """REDIS_URL of the home's server, started if it does not run; safe to call at any time.

    `port`, else TELEMACHUS_REDIS_PORT, must be free; without them the last port or any free one
    is used. Raises LocalServiceError: what failed, where, what to do, and the log's last lines.
    """
    home = ensure_home(home)
    asked = port if port is not None else port_setting(PORT_VARIABLE)
    password = load_secrets(home)["VALKEY_PASSWORD"]
    with file_lock(home / "valkey.lock"):
        live = live_port(home)
        if live is None:
            pick = pick_port(asked=asked, last=config_port(home), setting=PORT_VARIABLE)
            live = start(home, password, pick)
        require_same("Valkey", live=live, asked=asked, setting=PORT_VARIABLE)
        _require_up(home, live, password)
    return _url(live, password)


def url(home: Path) -> str | None:
    """REDIS_URL of the home's server if it runs, else None; starts and changes nothing."""
    home = home.resolve()
    port = live_port(home)
    password = read_secrets(home).get("VALKEY_PASSWORD") if port is not None else None
    return _url(port, password) if port is not None and password else None


def stop(home: Path) -> None:
    """Stop the home's server, its writes synced; nothing happens if none runs."""
    home = home.resolve()
    if live_port(home) is None:
        return
    with file_lock(home / "valkey.lock"):
        port, pid = live_port(home), read_pid(pid_file(home))
        if port is None or pid is None:
            return
        with explained("stop the Valkey of", home):
            os.kill(pid, signal.SIGTERM)
        if not wait_gone(pid, word=title(port), within_s=STOP_WAIT_S):
            message = (
                f"Valkey (pid {pid}) of {home} does not stop within {STOP_WAIT_S:.0f} s: see "
                f"{log_file(home)}, or end it with kill -9 {pid}"
            )
            raise LocalServiceError(message)


def _url(port: int, password: str) -> str:
    return f"redis://:{quote(password, safe='')}@{LOOPBACK}:{port}/0"


def _require_up(home: Path, port: int, password: str) -> None:
    """Wait for a live server that is still reading its data; others must answer now."""
    deadline = time.monotonic() + LOADING_WAIT_S
    while (
        state := ask(port, password, within_s=ANSWER_WAIT_S)
    ) is State.LOADING and time.monotonic() < deadline:
        time.sleep(0.05)
    if state is State.FOREIGN:
        message = (
            f"Valkey on port {port} does not know the password in {home}/secrets.env: run "
            f"`manage.py stop`, then start again"
        )
        raise LocalServiceError(message)
    if state is not State.UP:
        message = f"Valkey on port {port} runs but does not answer; see {log_file(home)}"
        raise LocalServiceError(message)
