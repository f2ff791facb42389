"""The collected static files: made anew only when what they are made of has changed.

To hash and to compress them takes longer than all else at a start. What they were made of is noted in
the home folder when they are whole.
"""

import hashlib
import os
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders

from telemachus.storage import ModuleManifestStorage


def are_collected(home: Path) -> bool:
    """Tell whether `STATIC_ROOT` was made of the files that lie there now, and is as it was made."""
    note = _note(home)
    return _manifest().is_file() and note.is_file() and note.read_text() == _digest()


def note_collected(home: Path) -> None:
    """Remember that `STATIC_ROOT` was made just now."""
    _note(home).write_text(_digest())


def _note(home: Path) -> Path:
    return home / "static.sources"


def _manifest() -> Path:
    """Return the file that tells under which hashed names the files were collected."""
    folder: Path = settings.STATIC_ROOT
    return folder / str(ModuleManifestStorage.manifest_name)


def _digest() -> str:
    """Return a digest of the names, sizes and times of all files to be collected, and of the manifest."""
    found = []
    for finder in get_finders():
        for name, storage in finder.list(None):
            known = os.stat(storage.path(name))
            found.append(f"{name} {known.st_size} {known.st_mtime_ns}")
    digest = hashlib.sha256("\n".join([str(settings.STATIC_ROOT), *sorted(found)]).encode())
    if _manifest().is_file():
        digest.update(_manifest().read_bytes())
    return digest.hexdigest()
