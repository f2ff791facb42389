"""The one error of the embedded services: a sentence that says what failed, where, and the way out."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_SPACE = "No space left on device"  # as initdb, postgres and valkey-server print it


class LocalServiceError(RuntimeError):
    """An embedded service could not be started, found or stopped; the text is fit for a user."""


def no_space(where: Path) -> LocalServiceError:
    """The disk under `where` is full."""
    return LocalServiceError(
        f"no space left on the disk of {where}: free some there, or set TELEMACHUS_HOME to a "
        f"folder on another disk"
    )


@contextmanager
def explained(what: str, where: Path) -> Iterator[None]:
    """Turn an OSError of the block into a LocalServiceError: `cannot <what> <where>: ...`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise no_space(where) from error
        way_out = (
            "run as the user who owns it, or set TELEMACHUS_HOME to a folder that you can write"
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
            else "correct that, or set TELEMACHUS_HOME to another folder"
        )
        message = f"cannot {what} {where}: {error.strerror or error}; {way_out}"
        raise LocalServiceError(message) from error
