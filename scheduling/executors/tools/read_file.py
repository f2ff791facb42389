"""Tool `read_file`: a text file of one folder, and of nothing outside it.

The path is walked name by name from an open folder, and no name may be a link: there is no moment
at which a checked path could be exchanged for another one.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import PurePosixPath
from threading import Event
from typing import Any

from django.conf import settings

from scheduling.executors.tools.contract import MOST_CHARS, ToolFault, cut

MOST_BYTES = 4 * MOST_CHARS + 4
MOST_PARTS = 32


def read_file(arguments: Mapping[str, Any], _cancel: Event) -> str:
    """The text of the file at `path`, cut to the longest reply."""
    folder: str = settings.FLOW_FILES_DIR
    if not folder:
        raise ToolFault("No folder is shared with flows here.")
    return text_of(folder, arguments["path"])


def text_of(folder: str, path: str) -> str:
    """Return the text of a file in a folder; raise `ToolFault` for anything else."""
    parts = _parts(path)
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in parts[:-1]:
                at = _stepped(at, name, os.O_DIRECTORY)
            at = _stepped(at, parts[-1], os.O_NONBLOCK)
            return cut(_read(at, path))
        finally:
            os.close(at)
    except OSError as error:
        why = "is no file or folder that may be read here (links are not followed)"
        message = f"{path!r} {why}: {os.strerror(error.errno or 0)}."
        raise ToolFault(message) from None


def _parts(path: str) -> tuple[str, ...]:
    pure = PurePosixPath(path)
    inside = 1 <= len(pure.parts) <= MOST_PARTS and ".." not in pure.parts
    if not inside or pure.is_absolute() or "\0" in path:
        raise ToolFault("The path must be a relative one that stays in the shared folder.")
    return pure.parts


def _stepped(at: int, name: str, how: int) -> int:
    """Open a name in the folder `at`, which is closed only when that went well."""
    following = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | how, dir_fd=at)
    os.close(at)
    return following


def _read(file: int, path: str) -> str:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        message = f"{path!r} is not a file."
        raise ToolFault(message)
    data = b""
    while len(data) < MOST_BYTES and (piece := os.read(file, MOST_BYTES - len(data))):
        data += piece
    if b"\0" in data:
        message = f"{path!r} is not a text."
        raise ToolFault(message)
    return data.decode("utf-8", "replace")
