"""A browser and a server for tests of pages: Daphne, PostgreSQL, Valkey and headless Chromium.

Skipped where there is no Chromium at /usr/bin/chromium (package chromium) to run it with.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from playwright.sync_api import Browser, Page, expect

from tests.scheduling.cockpit.boards import job_id

PASSWORD = "correct-horse-battery"  # noqa: S105 - a test's own password
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
AXE = Path(__file__).resolve().parents[2] / "vendor/axe/axe.min.js"
PATIENCE_MS = 15_000
expect.set_options(timeout=PATIENCE_MS)  # a busy machine is no fault of the page

NEEDS_CHROMIUM = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Chromium: apt-get install chromium"),
]


DAPHNE = """
from daphne.cli import CommandLineInterface
from django.contrib.auth.hashers import PBKDF2PasswordHasher
PBKDF2PasswordHasher.iterations = 1  # as the tests have it
CommandLineInterface.entrypoint()
"""


class Server:
    """Daphne as a process of its own, on the test's database and Valkey."""

    def __init__(self, static: Path) -> None:
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        self.static = static
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it if it does not run."""
        if self.process is not None:
            return
        options = connection.settings_dict
        login = f"{options['USER']}:{options['PASSWORD']}@{options['HOST']}:{options['PORT']}"
        place = {
            "DATABASE_URL": f"postgres://{login}/{options['NAME']}",
            "REDIS_URL": settings.REDIS_URL,
            "STATIC_ROOT": str(self.static),
        }
        command = [sys.executable, "-c", DAPHNE, "-b", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(
            [*command, "telemachus.asgi:application"],
            env=os.environ | place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self.url)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=20)
            self.process = None


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(url: str) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=2):  # noqa: S310 - http, ours
                return
        except OSError:
            time.sleep(0.1)
    message = "the test's server did not answer within 30 s"
    raise AssertionError(message)


class Visitor:
    """A page of a signed-in person, with what its console said and what its socket brought."""

    def __init__(self, browser: Browser, server: Server, name: str, **options: object) -> None:
        self.context = browser.new_context(timezone_id="Europe/Berlin", **options)  # type: ignore[arg-type]
        self.context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self.frames: list[str] = []
        self.page.on("console", lambda line: self._hear(line.type, line.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on(
            "websocket",
            lambda ws: ws.on("framereceived", lambda text: self.frames.append(str(text))),
        )
        self.page.goto(server.url)
        self.page.fill("[name=username]", name)
        self.page.fill("[name=password]", PASSWORD)
        self.page.click("button[type=submit]")
        self.live()

    def _hear(self, kind: str, words: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(words)

    def live(self) -> None:
        expect(self.page.locator("#link")).to_have_attribute(
            "data-state", "live", timeout=PATIENCE_MS
        )

    def first_row(self, number: int) -> None:
        expect(self.page.locator("#rows tr").first).to_contain_text(
            job_id(number)[-8:], timeout=PATIENCE_MS
        )

    def axe(self) -> list[str]:
        """Return the accessibility rules that the page breaks, with where."""
        self.page.evaluate(AXE.read_text() + "; undefined")
        found = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        return [
            f"{rule['id']}: {node['target']} {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]


DESK = {"width": 1440, "height": 900}
