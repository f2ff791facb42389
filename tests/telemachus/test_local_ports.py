"""Ports are checked before use, and every refusal names the port and the setting."""

import os
import shutil
import socket
import subprocess
import sys

import pytest

from telemachus.local import processes
from telemachus.local.errors import LocalServiceError
from telemachus.local.ports import (
    free_port,
    pick_port,
    port_problem,
    port_setting,
    require_free,
    require_same,
)


@pytest.fixture
def taken():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize("text", ["", "  ", None])
def test_an_unset_port_is_no_port(monkeypatch, text):
    monkeypatch.delenv("SOME_PORT", raising=False)
    if text is not None:
        monkeypatch.setenv("SOME_PORT", text)
    assert port_setting("SOME_PORT") is None


def test_a_set_port_is_read(monkeypatch):
    monkeypatch.setenv("SOME_PORT", " 5433 ")
    assert port_setting("SOME_PORT") == 5433


@pytest.mark.parametrize("text", ["0", "65536", "-1", "http", "5432.0", "²"])
def test_a_wrong_port_is_refused_by_its_variables_name(monkeypatch, text):
    monkeypatch.setenv("SOME_PORT", text)
    with pytest.raises(LocalServiceError, match=r"SOME_PORT=.*1 to 65535"):
        port_setting("SOME_PORT")


def test_a_taken_port_is_named_with_its_setting(taken):
    with pytest.raises(LocalServiceError, match=rf"port {taken} on 127.0.0.1 is taken.*--port"):
        require_free("127.0.0.1", taken, setting="--port")


def test_a_host_that_is_not_ours_is_a_problem():
    assert "cannot be used" in (port_problem("192.0.2.1", free_port()) or "")


def test_an_asked_port_must_be_free(taken):
    with pytest.raises(LocalServiceError, match=r"SOME_PORT"):
        pick_port(asked=taken, last=None, setting="SOME_PORT")
    port = free_port()
    pick = pick_port(asked=port, last=taken, setting="SOME_PORT")
    assert (pick.port, pick.fixed) == (port, True)


def test_the_last_port_is_taken_again_unless_another_program_has_it(taken):
    port = free_port()
    assert pick_port(asked=None, last=port, setting="X").port == port
    other = pick_port(asked=None, last=taken, setting="X")
    assert other.port != taken
    assert not other.fixed


def test_a_live_service_on_another_port_than_asked_is_an_error():
    require_same("Valkey", live=7000, asked=None, setting="X")
    require_same("Valkey", live=7000, asked=7000, setting="X")
    with pytest.raises(LocalServiceError, match=r"runs on port 7000, but X asks for 7001"):
        require_same("Valkey", live=7000, asked=7001, setting="X")


@pytest.fixture(params=["proc", "ps"])
def way_to_look(request, monkeypatch, tmp_path):
    if request.param == "ps":
        if shutil.which("ps") is None:
            pytest.skip("no ps here")
        monkeypatch.setattr(processes, "PROC", tmp_path)


@pytest.fixture
def sleeper():
    argv = [sys.executable, "-c", "import time; time.sleep(60)", "-D", "/some where/pgdata"]
    with subprocess.Popen(argv) as process:
        yield process
        process.kill()


@pytest.mark.usefixtures("way_to_look")
def test_a_running_process_is_known_by_a_word_of_its_command_line(sleeper):
    assert processes.is_running(sleeper.pid, word="-D /some where/pgdata")
    assert not processes.is_running(sleeper.pid, word="-D /some where/pg")
    assert not processes.is_running(sleeper.pid, word="/pgdata")


@pytest.mark.usefixtures("way_to_look")
def test_a_zombie_does_not_run(sleeper):
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet reaped
    assert processes.command_text(sleeper.pid) is None
    sleeper.wait()
    assert processes.command_text(sleeper.pid) is None


def test_a_process_that_outlives_the_wait_is_told(sleeper):
    assert not processes.wait_gone(sleeper.pid, word=sys.executable, within_s=0.05)
    sleeper.kill()
    assert processes.wait_gone(sleeper.pid, word=sys.executable, within_s=5)
    assert processes.command_text(0) is None


def test_a_pid_file_without_a_number_holds_no_pid(tmp_path):
    assert processes.read_pid(tmp_path / "none") is None
    (tmp_path / "junk").write_text("junk\n")
    assert processes.read_pid(tmp_path / "junk") is None
