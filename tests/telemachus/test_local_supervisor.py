"""The supervisor restarts what dies and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from telemachus.local import leash
from telemachus.local.child import Child, exit_text
from telemachus.local.console import Console
from telemachus.local.processes import command_text
from telemachus.local.supervisor import Backoff, Supervisor

QUICK = Backoff(first_s=0.02, limit_s=0.1, reset_after_s=30)
ROOT = Path(__file__).parents[2]


class Lines:
    """Collects what is written."""

    def __init__(self):
        self.all = []

    def write(self, name, line):
        self.all.append((name, line))

    def of(self, name):
        return [line for who, line in self.all if who == name]


@pytest.fixture
def lines():
    return Lines()


@pytest.fixture
def run(lines):
    """Run children in a thread; stopped at the latest when the test ends."""
    begun = []

    def start(*specs, **options):
        children = [
            Child(name=name, argv=argv, env={**os.environ, "PYTHONUNBUFFERED": "1"}, cwd=ROOT)
            for name, argv in specs
        ]
        supervisor = Supervisor(children, write=lines.write, **({"backoff": QUICK} | options))
        thread = threading.Thread(target=supervisor.run)
        thread.start()
        begun.append((supervisor, thread))
        return supervisor, thread

    yield start
    for supervisor, thread in begun:
        supervisor.request_stop()
        supervisor.request_stop()
        thread.join(10)
        assert not thread.is_alive()


def python(code):
    return (sys.executable, "-S", "-c", code)


def until(condition, within_s=8.0):
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)
    return found


def gone(pid):
    return command_text(pid) is None


def test_the_backoff_doubles_to_its_limit():
    backoff, delay, seen = Backoff(), 0.0, []
    for _ in range(8):
        delay = backoff.after(delay, lived_s=0.5)
        seen.append(delay)
    assert seen == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_the_backoff_begins_anew_after_a_long_life():
    assert Backoff().after(10.0, lived_s=29.9) == 10.0
    assert Backoff().after(10.0, lived_s=30.0) == 0.2


@pytest.mark.parametrize(
    ("code", "text"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "signal SIGKILL")]
)
def test_an_end_is_told_in_words(code, text):
    assert exit_text(code) == text


def test_a_signal_without_a_name_is_told_by_number():
    assert exit_text(-200) == "signal 200"


def test_output_is_passed_on_line_by_line_with_the_childs_name(run, lines):
    code = "import sys, time; print('one'); sys.stderr.write('two\\n'); time.sleep(60)"
    run(("web", python(code)))
    until(lambda: len(lines.of("web")) == 2)
    assert lines.of("web") == ["one", "two"]


def test_a_child_that_ends_is_started_again_later_each_time(run, lines):
    run(("web", python("raise SystemExit(3)")))
    until(lambda: len(lines.of("up")) >= 3)
    assert lines.of("up")[:3] == [
        "web ended with exit code 3, restart in 0.0 s",
        "web ended with exit code 3, restart in 0.0 s",
        "web ended with exit code 3, restart in 0.1 s",
    ]


def test_a_killed_child_is_started_again_and_the_others_are_left_alone(run, lines):
    forever = python("import time; time.sleep(60)")
    supervisor, _ = run(("web", forever), ("governor", forever))
    before = until(lambda: len(supervisor.pids()) == 2 and supervisor.pids())
    os.kill(before["web"], signal.SIGKILL)
    until(lambda: supervisor.pids().get("web") not in (None, before["web"]))
    assert supervisor.pids()["governor"] == before["governor"]
    assert lines.of("up")[0].startswith("web ended with signal SIGKILL")


def test_a_command_that_cannot_run_is_told_and_tried_again(run, lines):
    run(("web", ("/no/such/program",)))
    until(lambda: len(lines.of("up")) >= 2)
    assert lines.of("web")[0] == "cannot run /no/such/program: No such file or directory"
    assert lines.of("up")[0].startswith("web ended with exit code 127")


def test_a_folder_that_is_missing_is_told_and_tried_again(lines):
    child = Child(name="web", argv=python("0"), env={}, cwd=Path("/no/such/folder"))
    supervisor = Supervisor([child], write=lines.write, backoff=QUICK)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    until(lambda: len(lines.of("up")) >= 2)
    supervisor.request_stop()
    thread.join(5)
    assert "could not be started (No such file" in lines.of("up")[0]


def test_stopping_lets_children_finish(run, lines):
    code = (
        "import signal, sys, time\n"
        "def bye(*_): print('bye'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, bye); print('ready'); time.sleep(60)"
    )
    supervisor, thread = run(("web", python(code)), ("worker", python(code)))
    until(lambda: lines.of("web") and lines.of("worker"))
    pids = supervisor.pids()
    supervisor.request_stop()
    thread.join(5)
    assert not thread.is_alive()
    assert lines.of("web") == lines.of("worker") == ["ready", "bye"]
    assert all(gone(pid) for pid in pids.values())
    assert lines.of("up") == []


STUBBORN = (
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "p = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
    "print(p.pid); time.sleep(60)"
)


def test_a_child_that_will_not_stop_is_killed_with_its_own_children(run, lines):
    supervisor, thread = run(("web", python(STUBBORN)), grace_s=0.2)
    grandchild = int(until(lambda: lines.of("web"))[0])
    supervisor.request_stop()
    thread.join(5)
    assert not thread.is_alive()
    until(lambda: gone(grandchild))
    assert lines.of("up") == ["web does not stop, killing it"]


def test_a_second_request_ends_the_grace(run, lines):
    supervisor, thread = run(("web", python(STUBBORN)), grace_s=60)
    until(lambda: lines.of("web"))
    supervisor.request_stop()
    thread.join(0.3)
    assert thread.is_alive()
    supervisor.request_stop()
    thread.join(5)
    assert not thread.is_alive()


def test_what_a_dead_child_left_in_its_group_is_killed(run, lines):
    code = STUBBORN.replace("time.sleep(60)", "sys.exit(1)").replace(
        "import time; sys.exit(1)", "import time; time.sleep(60)"
    )
    run(("web", python(code)))
    grandchild = int(until(lambda: lines.of("web"))[0])
    until(lambda: lines.of("up"))
    until(lambda: gone(grandchild))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's promise is Linux's")
def test_children_die_with_a_supervisor_that_is_killed(tmp_path):
    code = f"""
import os, sys
from pathlib import Path
from telemachus.local.child import Child
from telemachus.local.supervisor import Supervisor
sleep = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
argv = (sys.executable, "-S", "-c", sleep)
child = Child(name="web", argv=argv, env=dict(os.environ), cwd=Path({str(tmp_path)!r}))
Supervisor([child], write=lambda name, line: print(line, flush=True)).run()
"""
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT) as supervisor:
        assert supervisor.stdout is not None
        child = int(supervisor.stdout.readline())
        assert not gone(child)
        supervisor.kill()
        until(lambda: gone(child))


@pytest.fixture
def leashed(monkeypatch):
    """The leash in this very process: nothing is asked of the kernel or the signals."""
    monkeypatch.setattr(sys, "platform", "elsewhere")
    monkeypatch.setattr(signal, "signal", lambda *_: None)


@pytest.mark.usefixtures("leashed")
def test_the_leash_runs_nothing_when_the_parent_is_gone(monkeypatch):
    monkeypatch.setattr(os, "execvp", lambda *_: pytest.fail("it ran"))
    with pytest.raises(SystemExit, match="parent process is gone"):
        leash.main(os.getppid() + 1, ["true"])


@pytest.mark.usefixtures("leashed")
def test_the_leash_becomes_the_command(monkeypatch):
    ran = []
    monkeypatch.setattr(os, "execvp", lambda *argv: ran.append(argv))
    leash.main(os.getppid(), ["true", "1"])
    assert ran == [("true", ["true", "1"])]


class Terminal:
    """A stream that may be a terminal, and may break."""

    def __init__(self, *, tty, broken=False):
        self.text, self.tty, self.broken = "", tty, broken

    def write(self, text):
        if self.broken:
            raise BrokenPipeError
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return self.tty


def test_the_console_puts_the_name_before_each_line():
    stream = Terminal(tty=False)
    Console(stream).write("web", "GET /")
    assert stream.text == "web       | GET /\n"


def test_the_console_gives_each_name_its_colour_on_a_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal(tty=True)
    console = Console(stream)
    for name in ("web", "up", "web"):
        console.write(name, "x")
    first, second, third = stream.text.splitlines()
    assert first == third == "\033[36mweb       | \033[0mx"
    assert second.startswith("\033[33m")


def test_the_console_is_plain_under_no_color(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal(tty=True)
    Console(stream).write("web", "x")
    assert "\033" not in stream.text


def test_a_reader_that_went_away_does_not_stop_the_console():
    Console(Terminal(tty=False, broken=True)).write("web", "x")
