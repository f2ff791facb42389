"""Secrets of one installation, made on first use and kept in `<home>/secrets.env`, mode 0600.

Plain standard library: the settings module reads it before Django exists. Readers take no lock,
because the file is only ever replaced whole; writers hold one, so two first starts agree.
"""

import logging
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from telemachus.local.errors import LocalServiceError, explained
from telemachus.local.home import ensure_home, file_lock

logger = logging.getLogger(__name__)

# POSTGRES_PASSWORD is the application's role, which is no superuser; the ADMIN one is.
NAMES = ("SECRET_KEY", "POSTGRES_PASSWORD", "POSTGRES_ADMIN_PASSWORD", "VALKEY_PASSWORD")
ENTROPY_BYTES = 48
HEADER = "# Secrets of this Telemachus installation. Keep this file private; do not commit it.\n"


def secrets_path(home: Path) -> Path:
    """Where the secrets of this home are kept."""
    return home / "secrets.env"


def read_secrets(home: Path) -> dict[str, str]:
    """The secrets there are, without making any; empty if there is no file.

    Raises LocalServiceError for a file that cannot be read or a line that is not NAME=value.
    """
    path = secrets_path(home)
    with explained("read", path):
        if not path.exists():
            return {}
        _tighten(path)
        lines = path.read_text(encoding="utf-8").splitlines()
    return dict(_pairs(path, lines))


def load_secrets(home: Path, names: Iterable[str] = NAMES) -> dict[str, str]:
    """All secrets; missing ones are made and added first, whoever else starts at this moment.

    Raises LocalServiceError when the home cannot be written or the file is malformed.
    """
    wanted = tuple(names)
    found = read_secrets(home)
    if all(name in found for name in wanted):
        return found
    home = ensure_home(home)
    with file_lock(home / "secrets.lock"):
        found = read_secrets(home)
        fresh = {n: secrets.token_urlsafe(ENTROPY_BYTES) for n in wanted if n not in found}
        if fresh:
            _append(secrets_path(home), fresh)
    return found | fresh


def _pairs(path: Path, lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            message = (
                f"line {number} of {path} is not NAME=value: correct it, or remove the line to "
                f"have a new secret made"
            )
            raise LocalServiceError(message)
        yield name, value


def _tighten(path: Path) -> None:
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        path.chmod(0o600)
        logger.warning(
            "%s could be read by others (mode %o) and has been set to 600; if anyone may have "
            "read it, remove its SECRET_KEY and VALKEY_PASSWORD lines to have new ones made",
            path,
            mode,
        )


def _append(path: Path, fresh: dict[str, str]) -> None:
    """Replace the file by itself plus `fresh`; a reader sees the old one or the new one."""
    draft = path.with_name("secrets.env.new")
    with explained("write", path):
        old = path.read_text(encoding="utf-8") if path.exists() else HEADER
        text = old if old.endswith("\n") else f"{old}\n"
        text += "".join(f"{name}={value}\n" for name, value in fresh.items())
        draft.unlink(missing_ok=True)  # left by a writer that was killed; we hold the lock
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
