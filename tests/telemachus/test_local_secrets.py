"""Secrets are made once, kept private, and never shown."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from telemachus.local import home as home_module
from telemachus.local.errors import LocalServiceError
from telemachus.local.home import (
    ensure_home,
    file_lock,
    home_folder,
    instance_pid,
    single_instance,
)
from telemachus.local.secrets_file import NAMES, load_secrets, read_secrets, secrets_path


def test_a_first_load_makes_all_secrets_in_a_private_file(tmp_path):
    made = load_secrets(tmp_path / "new" / "home")
    path = secrets_path(tmp_path / "new" / "home")
    assert set(made) == set(NAMES)
    assert min(len(value) for value in made.values()) >= 50
    assert len(set(made.values())) == len(NAMES)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o066 == 0


def test_a_second_load_gives_the_same_secrets(tmp_path):
    assert load_secrets(tmp_path) == load_secrets(tmp_path)


def test_a_missing_secret_is_added_and_the_others_stay(tmp_path):
    path = secrets_path(tmp_path)
    path.write_text("# mine\nSECRET_KEY = chosen-by-me\nOTHER=x=y")
    path.chmod(0o600)
    loaded = load_secrets(tmp_path)
    assert {"SECRET_KEY": "chosen-by-me", "OTHER": "x=y"}.items() <= loaded.items()
    assert set(loaded) == {*NAMES, "OTHER"}
    assert loaded == read_secrets(tmp_path)
    assert path.read_text().startswith("# mine\n")


def test_reading_makes_nothing(tmp_path):
    assert read_secrets(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_draft_of_a_killed_writer_is_no_obstacle(tmp_path):
    (tmp_path / "secrets.env.new").write_text("half")
    assert set(load_secrets(tmp_path)) == set(NAMES)
    assert not (tmp_path / "secrets.env.new").exists()


def test_a_file_open_to_others_is_tightened_with_a_warning(tmp_path, caplog):
    before = load_secrets(tmp_path)
    secrets_path(tmp_path).chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert load_secrets(tmp_path) == before
    assert secrets_path(tmp_path).stat().st_mode & 0o777 == 0o600
    assert "mode 644" in caplog.text
    assert before["SECRET_KEY"] not in caplog.text


@pytest.mark.parametrize("line", ["hunter2", "=hunter2", "SECRET_KEY="])
def test_a_malformed_line_is_named_but_not_shown(tmp_path, line):
    secrets_path(tmp_path).write_text(f"A=b\n{line}\n")
    with pytest.raises(LocalServiceError, match=r"line 2 of .*secrets.env") as caught:
        load_secrets(tmp_path)
    assert "hunter2" not in str(caught.value)


def test_starts_at_once_agree_on_one_file(tmp_path):
    code = (
        "import sys; from pathlib import Path; from telemachus.local.secrets_file import *; "
        "print(sorted(load_secrets(Path(sys.argv[1])).items()))"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "home")]
    started = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(3)]
    answers = {process.communicate()[0] for process in started}
    assert len(answers) == 1
    assert b"SECRET_KEY" in answers.pop()


def test_a_home_that_cannot_be_made_gets_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalServiceError, match=r"cannot .*/file.*TELEMACHUS_HOME"):
        load_secrets(tmp_path / "file" / "home")


def test_a_home_without_rights_gets_a_clear_error(tmp_path, monkeypatch):
    # Root may write anywhere, so the kernel's answer is given in its stead.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(LocalServiceError, match=r"cannot write to .*TELEMACHUS_HOME"):
        load_secrets(tmp_path)


def test_the_home_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TELEMACHUS_HOME", str(tmp_path / "elsewhere"))
    assert home_folder() == tmp_path / "elsewhere"
    monkeypatch.delenv("TELEMACHUS_HOME")
    assert home_folder() == Path(home_module.__file__).parents[2] / "var"


def test_a_home_with_a_quote_in_its_path_is_refused(monkeypatch):
    monkeypatch.setenv("TELEMACHUS_HOME", "/srv/it's mine")
    with pytest.raises(LocalServiceError, match=r"plainer path"):
        home_folder()


def test_a_lock_held_too_long_is_named(tmp_path):
    path = tmp_path / "some.lock"
    with (
        file_lock(path),
        pytest.raises(LocalServiceError, match=r"some\.lock"),
        file_lock(path, wait_s=0.05),
    ):
        pass


def test_a_second_instance_is_refused_and_told_the_pid(tmp_path):
    home = ensure_home(tmp_path)
    with single_instance(home):
        assert instance_pid(home) == os.getpid()
        with (
            pytest.raises(LocalServiceError, match=rf"pid {os.getpid()}\).*manage.py stop"),
            single_instance(home),
        ):
            pass
    assert instance_pid(home) is None
