"""A whole Telemachus on one machine: servers, migrations, then supervised processes.

The order matters: servers come up first, their URLs go into the children's environment, the
schema is brought up to date by a child, and only then the long-lived processes start. The parent
itself never opens the database.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from telemachus.local import services, statics
from telemachus.local.child import Child, Running, exit_text
from telemachus.local.console import Console
from telemachus.local.errors import LocalServiceError
from telemachus.local.home import BASE_DIR, ensure_home, single_instance
from telemachus.local.ports import require_free
from telemachus.local.reach import require_reachable
from telemachus.local.readiness import ReadinessProbe
from telemachus.local.supervisor import SPEAKER, Supervisor

NETWORK_QUEUES = "local-model,simulated"
CONTROL_THREADS = 2
STATIC = ("collectstatic", "--noinput", "-v0")
ROWS = ("prepare",)
"""What is done by children side by side before the long-lived processes start; `ROWS` also checks the
project, so those need not."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run: where the web listens, how many worker processes and threads in each.

    With `model_port` the demo's translating model runs there too, answering each request
    `model_delay_s` later than it could.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 2
    threads: int = 8
    web: bool = True
    model_port: int | None = None
    model_delay_s: float = 0.0

    @property
    def address(self) -> str:
        """The page to open; a wildcard host is reached through loopback."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 a name
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"


class Interrupted(BaseException):
    """A signal came while starting; a BaseException, so that nothing swallows it."""


def children(options: Options, env: dict[str, str]) -> list[Child]:
    """The long-lived processes."""

    def child(name: str, *arguments: str) -> Child:
        return Child(name=name, argv=(sys.executable, *arguments), env=env, cwd=BASE_DIR)

    def worker(name: str, node: str, threads: int, queues: str) -> Child:
        size = ("-P", "threads", "-c", str(threads), "-n", f"{node}@%h", "-Q", queues)
        celery = ("-m", "celery", "-A", "telemachus", "--skip-checks", "worker")
        return child(name, *celery, *size, "--loglevel", "INFO")

    listen = ("-b", options.host, "-p", str(options.port))
    web = child("web", "-m", "daphne", *listen, "telemachus.asgi:application")
    delay = ("--delay", str(options.model_delay_s))
    model = child(
        "model", "-m", "telemachus.local.model_server", "--port", str(options.model_port), *delay
    )
    return [
        *([web] if options.web else []),
        *([model] if options.model_port else []),
        child("governor", str(BASE_DIR / "manage.py"), "governor", "--skip-checks"),
        worker("control", "control", CONTROL_THREADS, "control"),
        *(
            worker(f"worker-{n}", f"model-{n}", options.threads, NETWORK_QUEUES)
            for n in range(1, options.workers + 1)
        ),
    ]


class Installation:
    """Runs everything until a signal or `request_stop`."""

    def __init__(self, options: Options, *, home: Path, console: Console) -> None:
        self._options = options
        self._home = ensure_home(home)
        self._console = console
        self._supervisor: Supervisor | None = None
        self._stops = 0
        self._stopping = False  # from here on no signal may break off the orderly end

    def request_stop(self) -> None:
        """Stop as soon as may be; asked again, hurry. Safe from another thread."""
        self._stops += 1
        if self._supervisor is not None:
            self._supervisor.request_stop()

    def run(self) -> None:
        """Start all, and return after all has stopped.

        Raises LocalServiceError when it cannot start; what was started is stopped then too.
        """
        wanted = services.embedded()
        with single_instance(self._home), self._signals():
            require_reachable(os.environ)
            if self._options.web:
                require_free(self._options.host, self._options.port, setting="--port")
            try:
                self._run(wanted)
            except Interrupted:
                self._console.write(SPEAKER, "stopped while starting")
            finally:
                self._stopping = True
                services.stop(wanted, self._home)

    def _run(self, wanted: tuple[services.Service, ...]) -> None:
        urls = services.start(wanted, self._home)
        for service in wanted:
            self._console.write(service.name, "runs")
        own = {"TELEMACHUS_HOME": str(self._home), "PYTHONUNBUFFERED": "1"}
        env = {**os.environ, **urls, **own}
        stale = not statics.are_collected(self._home)
        with ExitStack() as stack:
            for command in (STATIC, ROWS) if stale else (ROWS,):
                stack.enter_context(self._managing(env, *command))
        if self._stops:
            return
        if stale:
            statics.note_collected(self._home)
        self._supervisor = Supervisor(children(self._options, env), write=self._console.write)
        with ExitStack() as stack:
            for service in wanted:
                watch = services.ServiceWatch(
                    service, self._home, url=urls[service.variable], write=self._console.write
                )
                stack.enter_context(watch)
            if self._options.web:
                stack.enter_context(ReadinessProbe(self._options.address, self._announce))
            self._supervisor.run()

    def _announce(self) -> None:
        self._console.plain(f"telemachus is up: {self._options.address}")

    @contextmanager
    def _managing(self, env: dict[str, str], *command: str) -> Iterator[None]:
        """Run a management command beside the block; it must have ended well at the block's end."""
        if self._stops:
            yield
            return
        argv = (sys.executable, str(BASE_DIR / "manage.py"), *command)
        child = Child(name=command[0], argv=argv, env=env, cwd=BASE_DIR)
        running = Running(child, self._console.write)
        try:
            yield
            code = running.wait()
        finally:
            running.kill_group()
            running.close()
        if code:
            message = (
                f"{command[0]} ended with {exit_text(code)}: see its lines above; correct that and "
                f"start again"
            )
            raise LocalServiceError(message)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Let signals stop us, where they may be caught: in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handler(_number: int, _frame: FrameType | None) -> None:
            self.request_stop()
            if self._supervisor is None and not self._stopping:
                raise Interrupted

        before = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)
