"""`manage.py demo`: a whole system with the translating model, its jobs, and a board to look at."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from django.core.management.base import BaseCommand, CommandError, CommandParser

from telemachus.local.errors import LocalServiceError
from telemachus.local.home import BASE_DIR, ensure_home, home_folder
from telemachus.local.ports import free_port
from telemachus.management.commands.up import port_number

MODEL_DELAY_S = 0.2
EXPECTED_S = 0.35
READY = "telemachus is up: "
READY_WAIT_S = 120.0
STOP_WAIT_S = 30.0


class Command(BaseCommand):
    """Starts `up` with the model, runs `demo_run` against it, and stays up unless told to exit."""

    help = "See it work: start everything, run 150 real translations of three tenants, report."
    requires_system_checks = []  # they may ask the database, which `up` starts

    def add_arguments(self, parser: CommandParser) -> None:
        """The few options."""
        parser.add_argument("--exit", action="store_true", help="end after the report")
        parser.add_argument("--port", type=port_number, default=8000, help="web port")
        parser.add_argument(
            "--model-delay", type=float, default=MODEL_DELAY_S, help="seconds added to each answer"
        )

    def handle(self, *_args: object, port: int, model_delay: float, **options: bool) -> None:
        """Run; the exit status is that of `demo_run`."""
        try:
            home = ensure_home(home_folder())
        except LocalServiceError as error:
            raise CommandError(str(error)) from error
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as Ctrl-C does
        log = home / "demo.log"
        model_port = free_port()
        self.stdout.write(f"Starting everything; the processes' log is {_short(log)}")
        system = System(port, model_port, model_delay, log)
        try:
            _run(system, model_port, EXPECTED_S - MODEL_DELAY_S + model_delay)
            if not options["exit"]:
                self.stdout.write("It stays up until Ctrl-C.")
                system.wait()
        except KeyboardInterrupt:
            self.stdout.write("Stopping.")
        finally:
            system.stop()


def _run(system: "System", model_port: int, expected_s: float) -> None:
    """Run the demo's jobs against the system once it is ready; raise CommandError if they fail."""
    where = ("--url", system.wait_ready(), "--model-url", f"http://127.0.0.1:{model_port}")
    command = _manage("demo_run", *where, "--expected", str(expected_s))
    code = subprocess.run(command, check=False).returncode  # noqa: S603 (our own command)
    if code:
        message = f"the demo's run ended with status {code}; see {_short(system.log)}"
        raise CommandError(message)


class System:
    """`manage.py up` as a child, its log in a file."""

    def __init__(self, port: int, model_port: int, model_delay_s: float, log: Path) -> None:
        """Start it."""
        options = ("--port", str(port), "--model-port", str(model_port))
        self.log = log
        self._address = ""
        self._ready = threading.Event()
        self._last: list[str] = []
        self._process = subprocess.Popen(  # noqa: S603 (our own command)
            _manage("up", *options, "--model-delay", str(model_delay_s)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_ready(self) -> str:
        """Return the address once the system answers; raise CommandError when it does not."""
        if not self._ready.wait(READY_WAIT_S) or not self._address:
            told = "\n".join(self._last[-8:])
            message = f"the system did not come up; its last words:\n{told}"
            raise CommandError(message)
        return self._address

    def wait(self) -> None:
        """Wait until it ends by itself."""
        self._process.wait()

    def stop(self) -> None:
        """End it gently, and for certain."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=5)

    def _read(self) -> None:
        pipe: IO[str] | None = self._process.stdout
        with self.log.open("w", encoding="utf-8") as log:
            for line in pipe or ():
                log.write(line)
                log.flush()
                self._last = [*self._last[-20:], line.rstrip()]
                if READY in line:
                    self._address = line.split(READY, 1)[1].strip()
                    self._ready.set()
        self._ready.set()


def _manage(*arguments: str) -> list[str]:
    return [sys.executable, str(BASE_DIR / "manage.py"), *arguments]


def _short(path: Path) -> str:
    return str(path.relative_to(BASE_DIR)) if path.is_relative_to(BASE_DIR) else str(path)
