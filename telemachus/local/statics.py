"""The collected static files: made anew only when what they are made of has changed.

To hash and to compress them takes longer than all else at a start. What they were made of stands beside
their folder, and is written when they are whole.
"""

import hashlib
import os
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders


def sources() -> str:
    """Return a digest of the names, sizes and times of all files that are to be collected."""
    found = []
    for finder in get_finders():
        for name, storage in finder.list(None):
            known = os.stat(storage.path(name))
            found.append(f"{name} {known.st_size} {known.st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()


def are_collected() -> bool:
    """Tell whether `STATIC_ROOT` was made of the files that lie there now."""
    note = _note()
    return settings.STATIC_ROOT.is_dir() and note.is_file() and note.read_text() == sources()


def note_collected() -> None:
    """Remember that `STATIC_ROOT` was made just now."""
    _note().write_text(sources())


def _note() -> Path:
    root: Path = settings.STATIC_ROOT
    return root.with_name(f"{root.name}.sources")
