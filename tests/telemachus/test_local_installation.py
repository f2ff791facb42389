"""`up` as a whole: real servers, a stub project in place of the real processes."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from telemachus.local import installation, services
from telemachus.local.child import Child
from telemachus.local.console import Console
from telemachus.local.errors import LocalServiceError
from telemachus.local.home import instance_pid
from telemachus.local.installation import Installation, Interrupted, Options, children
from telemachus.local.ports import free_port
from telemachus.local.processes import command_text
from telemachus.local.services import POSTGRES, VALKEY, Service, ServiceWatch
from telemachus.local.supervisor import Backoff

ROOT = Path(__file__).parents[2]

# A project whose web answers everything and whose other processes sleep; `prepare` fails on
# request. Run as a program it is `manage.py up` with only the children exchanged.
STUB = """
import os, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()
    def log_message(self, *_):
        pass

def up(port):
    from telemachus.local import installation
    from telemachus.local.child import Child
    from telemachus.local.console import Console
    here = Path(__file__).parent
    def children(options, env):
        argv = (sys.executable, __file__, "web", str(options.port))
        return [Child(name="web", argv=argv, env=env, cwd=here)]
    installation.children, installation.BASE_DIR = children, here
    installation.statics.are_collected = lambda home: True
    options = installation.Options(port=int(port))
    home = Path(os.environ["TELEMACHUS_HOME"])
    installation.Installation(options, home=home, console=Console(sys.stdout)).run()

if sys.argv[1] == "prepare":
    print("preparing", os.environ["DATABASE_URL"].partition(":")[0])
    sys.exit(int(os.environ.get("STUB_PREPARE", "0")))
if sys.argv[1] == "web":
    print("web pid", os.getpid(), flush=True)
    HTTPServer(("127.0.0.1", int(sys.argv[2])), Answer).serve_forever()
if sys.argv[1] == "up":
    up(sys.argv[2])
"""


@pytest.fixture(autouse=True)
def own_home(monkeypatch, tmp_path):
    for variable in ("DATABASE_URL", "REDIS_URL", "TELEMACHUS_PG_PORT", "TELEMACHUS_REDIS_PORT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TELEMACHUS_HOME", str(tmp_path / "home"))
    yield
    services.stop((POSTGRES, VALKEY), tmp_path / "home")


class Up:
    """A running `up` of the stub project, and what it has printed."""

    def __init__(self, folder):
        (folder / "manage.py").write_text(STUB)
        self.home = folder / "home"
        self.port = free_port()
        argv = [sys.executable, str(folder / "manage.py"), "up", str(self.port)]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd=folder
        )
        assert self.process.stdout is not None
        self._stream = self.process.stdout
        self.text = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        with self._stream as stream:
            for line in stream:
                self.text += line

    def until(self, pattern, within_s=15):
        deadline = time.monotonic() + within_s
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < deadline, self.text
            time.sleep(0.01)
        return found

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()


@pytest.fixture
def up(tmp_path):
    running = Up(tmp_path)
    yield running
    running.end()


def gone(pid):
    deadline = time.monotonic() + 5
    while command_text(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    return command_text(pid) is None


@pytest.mark.slow
def test_up_starts_all_revives_a_killed_server_and_stops_clean(up):
    up.until(rf"telemachus is up: http://127.0.0.1:{up.port}/\n")
    assert re.search(r"prepare +\| preparing postgresql\n", up.text)
    web = int(up.until(r"web pid (\d+)")[1])
    before = {service.name: service.url(up.home) for service in (POSTGRES, VALKEY)}
    for pid_file in ("pgdata/postmaster.pid", "valkey/valkey.pid"):
        os.kill(int((up.home / pid_file).read_text().split()[0]), signal.SIGKILL)
    up.until(r"postgres +\| runs again on port")
    up.until(r"valkey +\| runs again on port")
    assert before == {service.name: service.url(up.home) for service in (POSTGRES, VALKEY)}
    assert instance_pid(up.home) == up.process.pid
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(15) == 0
    assert gone(web)
    assert POSTGRES.url(up.home) is VALKEY.url(up.home) is None
    assert "Traceback" not in up.text


@pytest.mark.slow
def test_a_killed_up_leaves_no_processes_and_its_servers_are_stopped_by_stop(up):
    up.until(r"telemachus is up")
    web = int(up.until(r"web pid (\d+)")[1])
    up.process.kill()
    up.process.wait()
    if sys.platform == "linux":
        assert gone(web)
    assert POSTGRES.url(up.home) is not None
    said = StringIO()
    call_command("stop", stdout=said)
    assert said.getvalue() == "stopped: postgres, valkey\n"
    assert POSTGRES.url(up.home) is VALKEY.url(up.home) is None


@pytest.mark.slow
def test_a_second_up_is_refused_and_stop_ends_the_first(up):
    up.until(r"telemachus is up")
    with pytest.raises(CommandError, match=rf"already runs on .* \(pid {up.process.pid}\)"):
        call_command("up", port=up.port)
    said = StringIO()
    call_command("stop", stdout=said)
    assert said.getvalue() == "stopped: up\n"
    assert up.process.wait(5) == 0
    said = StringIO()
    call_command("stop", stdout=said)
    assert said.getvalue() == "nothing was running\n"


@pytest.mark.slow
def test_a_stop_while_starting_ends_it_clean(up):
    up.until(r"postgres +\| runs")
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(15) == 0
    assert POSTGRES.url(up.home) is None


@pytest.mark.slow
def test_a_thread_may_run_it_and_stop_it(tmp_path, monkeypatch):
    (tmp_path / "manage.py").write_text(STUB)
    options = Options(port=free_port())
    argv = (sys.executable, str(tmp_path / "manage.py"), "web", str(options.port))
    web = [Child(name="web", argv=argv, env=dict(os.environ), cwd=tmp_path)]
    monkeypatch.setattr(installation, "BASE_DIR", tmp_path)
    monkeypatch.setattr(installation, "children", lambda _options, _env: web)
    said = StringIO()
    whole = Installation(options, home=tmp_path / "home", console=Console(said))
    thread = threading.Thread(target=whole.run)
    thread.start()
    deadline = time.monotonic() + 15
    while "is up" not in said.getvalue() and time.monotonic() < deadline:
        time.sleep(0.01)
    whole.request_stop()
    thread.join(15)
    assert not thread.is_alive()
    assert f"telemachus is up: {options.address}\n" in said.getvalue()
    assert POSTGRES.url(tmp_path / "home") is VALKEY.url(tmp_path / "home") is None


def test_a_stop_before_the_migration_is_no_failure(tmp_path, monkeypatch):
    def interrupted(_services, _home):
        raise Interrupted

    monkeypatch.setattr(services, "start", interrupted)
    said = StringIO()
    Installation(Options(web=False), home=tmp_path / "home", console=Console(said)).run()
    assert said.getvalue() == "up        | stopped while starting\n"


@pytest.mark.slow
def test_a_failed_migration_stops_all_and_says_where_to_look(tmp_path, monkeypatch):
    (tmp_path / "manage.py").write_text(STUB)
    monkeypatch.setenv("STUB_PREPARE", "3")
    monkeypatch.setattr(installation, "BASE_DIR", tmp_path)
    said = StringIO()
    whole = Installation(Options(web=False), home=tmp_path / "home", console=Console(said))
    with pytest.raises(LocalServiceError, match=r"prepare ended with exit code 3"):
        whole.run()
    assert "preparing postgresql" in said.getvalue()
    assert POSTGRES.url(tmp_path / "home") is VALKEY.url(tmp_path / "home") is None


def test_a_taken_web_port_is_refused_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(services, "start", lambda *_: pytest.fail("it started"))
    monkeypatch.setattr(
        "telemachus.local.ports.port_problem", lambda host, port: f"port {port} is taken"
    )
    with pytest.raises(CommandError, match=r"port 8123 is taken.*--port"):
        call_command("up", port=8123)


@pytest.mark.parametrize("option", ["--port=0", "--port=web", "--workers=0", "--threads=9999"])
def test_a_number_out_of_range_is_refused_by_its_option(option):
    with pytest.raises(CommandError, match=rf"{option.split('=')[0]}: .*no whole number from 1"):
        call_command("up", option)


def test_the_processes_are_web_governor_control_and_workers():
    made = children(Options(host="::1", port=8001, workers=2, threads=5), {"A": "b"})
    assert [child.name for child in made] == ["web", "governor", "control", "worker-1", "worker-2"]
    by_name = {child.name: " ".join(child.argv[1:]) for child in made}
    assert by_name["web"] == "-m daphne -b ::1 -p 8001 telemachus.asgi:application"
    assert by_name["governor"].endswith("manage.py governor --skip-checks")
    assert "-P threads -c 2 -n control@%h -Q control " in by_name["control"]
    assert "-P threads -c 5 -n model-2@%h -Q local-model,simulated " in by_name["worker-2"]
    assert {child.env["A"] for child in made} == {"b"}


def test_without_web_one_worker_is_a_shorter_list():
    made = children(Options(web=False, workers=1), {})
    assert [child.name for child in made] == ["governor", "control", "worker-1"]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000/"),
        ("0.0.0.0", "http://127.0.0.1:8000/"),  # noqa: S104 a name to be shown otherwise
        ("::", "http://[::1]:8000/"),
        ("box.example", "http://box.example:8000/"),
    ],
)
def test_the_address_to_open_can_be_opened(host, address):
    assert Options(host=host).address == address


def test_a_service_with_a_url_in_the_environment_is_not_embedded():
    assert services.embedded({}) == (POSTGRES, VALKEY)
    assert services.embedded({"DATABASE_URL": "postgresql://db/x"}) == (VALKEY,)
    assert services.embedded({"DATABASE_URL": "x", "REDIS_URL": "y"}) == ()
    assert services.embedded({"DATABASE_URL": ""}) == (POSTGRES, VALKEY)


def test_a_request_to_stop_while_starting_starts_no_processes(tmp_path, monkeypatch):
    said = StringIO()
    whole = Installation(Options(web=False), home=tmp_path / "home", console=Console(said))
    monkeypatch.setattr(services, "embedded", lambda: ())

    @contextmanager
    def managing(*_: object) -> Iterator[None]:
        whole.request_stop()
        yield

    monkeypatch.setattr(Installation, "_managing", managing)
    whole.run()
    assert said.getvalue() == ""


def unused(_home, *, port=None):
    return None


def refusing(_home):
    message = "it does not stop"
    raise LocalServiceError(message)


def test_a_service_that_does_not_stop_keeps_no_other_from_stopping(tmp_path):
    stopped: list[Path] = []
    first, second = (
        Service(name=name, variable="X", ensure_running=unused, url=unused, stop=stop)
        for name, stop in (("first", stopped.append), ("second", refusing))
    )
    with pytest.raises(LocalServiceError, match=r"does not stop"):
        services.stop((first, second), tmp_path)
    assert stopped == [tmp_path]


def test_the_watch_tries_again_when_a_service_does_not_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(services, "WATCH_EVERY_S", 0.01)
    tries: list[int | None] = []
    lines: list[str] = []
    live: list[bool] = []

    def ensure_running(home: Path, *, port: int | None = None) -> str:
        tries.append(port)
        if len(tries) < 3:
            message = "port is taken"
            raise LocalServiceError(message)
        live.append(True)
        return "redis://"

    service = Service(
        name="valkey",
        variable="X",
        ensure_running=ensure_running,
        url=lambda _: "redis://" if live else None,
        stop=lambda _: None,
    )
    with ServiceWatch(
        service,
        tmp_path,
        url="redis://:p@127.0.0.1:7001/0",
        write=lambda name, line: lines.append(f"{name}: {line}"),
        backoff=Backoff(first_s=0.01),
    ):
        deadline = time.monotonic() + 5
        while not live and time.monotonic() < deadline:
            time.sleep(0.01)
    assert tries == [7001] * 3
    assert lines.count("valkey: port is taken") == 2
    assert lines[-1] == "valkey: runs again on port 7001"
