"""The collected static files: made anew only when what they are made of has changed.

To hash and to compress them takes longer than all else at a start. What they were made of is noted in
the home folder when they are whole.
"""

import hashlib
import os
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders


def are_collected(home: Path) -> bool:
    """Tell whether `STATIC_ROOT` was made of the files that lie there now."""
    note = _note(home)
    return settings.STATIC_ROOT.is_dir() and note.is_file() and note.read_text() == _sources()


def note_collected(home: Path) -> None:
    """Remember that `STATIC_ROOT` was made just now."""
    _note(home).write_text(_sources())


def _note(home: Path) -> Path:
    return home / "static.sources"


def _sources() -> str:
    """Return a digest of the names, sizes and times of all files to be collected, and whereto."""
    found = []
    for finder in get_finders():
        for name, storage in finder.list(None):
            known = os.stat(storage.path(name))
            found.append(f"{name} {known.st_size} {known.st_mtime_ns}")
    return hashlib.sha256(
        "\n".join([str(settings.STATIC_ROOT), *sorted(found)]).encode()
    ).hexdigest()
