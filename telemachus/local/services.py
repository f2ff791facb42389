"""The embedded services that an installation needs, and the watch that revives a dead one.

A service whose URL is given in the environment lives elsewhere and is never started here.
"""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from telemachus.local import postgres, valkey
from telemachus.local.child import Write
from telemachus.local.errors import LocalServiceError
from telemachus.local.supervisor import Backoff

WATCH_EVERY_S = 0.5


class EnsureRunning(Protocol):
    """Start or reuse; see the services' modules."""

    def __call__(self, home: Path, *, port: int | None = None) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """An embedded server, and the environment variable that carries its URL."""

    name: str
    variable: str
    ensure_running: EnsureRunning
    url: Callable[[Path], str | None]
    stop: Callable[[Path], None]


POSTGRES = Service(
    name="postgres",
    variable="DATABASE_URL",
    ensure_running=postgres.ensure_running,
    url=postgres.url,
    stop=postgres.stop,
)
VALKEY = Service(
    name="valkey",
    variable="REDIS_URL",
    ensure_running=valkey.ensure_running,
    url=valkey.url,
    stop=valkey.stop,
)


def embedded(environ: Mapping[str, str] | None = None) -> tuple[Service, ...]:
    """The services whose URL is not given in the environment."""
    given = os.environ if environ is None else environ
    return tuple(service for service in (POSTGRES, VALKEY) if not given.get(service.variable))


def start(services: tuple[Service, ...], home: Path) -> dict[str, str]:
    """Start or reuse each; their URLs by variable name, fit for a child's environment.

    Raises LocalServiceError.
    """
    return {service.variable: service.ensure_running(home) for service in services}


def stop(services: tuple[Service, ...], home: Path) -> None:
    """Stop each, the last first; one that will not stop keeps no other from stopping.

    Raises the first LocalServiceError after all were tried.
    """
    failures: list[LocalServiceError] = []
    for service in reversed(services):
        try:
            service.stop(home)
        except LocalServiceError as error:
            failures.append(error)
    if failures:
        raise failures[0]


class ServiceWatch:
    """A thread that starts a dead service again on its old port, so that URLs stay true."""

    def __init__(
        self,
        service: Service,
        home: Path,
        *,
        url: str,
        write: Write,
        backoff: Backoff | None = None,
    ) -> None:
        self._service = service
        self._home = home
        self._port = urlsplit(url).port
        self._write = write
        self._backoff = backoff or Backoff()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watch-{service.name}")

    def __enter__(self) -> "ServiceWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        pause_s = 0.0
        while not self._stopping.wait(max(WATCH_EVERY_S, pause_s)):
            if self._service.url(self._home) is not None or self._revived():
                pause_s = 0.0
            else:
                pause_s = self._backoff.after(pause_s, lived_s=0.0)

    def _revived(self) -> bool:
        self._write(self._service.name, "is gone, starting it again")
        try:
            self._service.ensure_running(self._home, port=self._port)
        except LocalServiceError as error:
            self._write(self._service.name, str(error))
            return False
        self._write(self._service.name, f"runs again on port {self._port}")
        return True
