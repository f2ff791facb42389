"""Files that are written whole or not at all: under another name first, then renamed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

STANDARD_OUT = "-"


@contextmanager
def whole_file(name: str) -> Iterator[IO[bytes]]:
    """Open a file to be written; it takes its name when the block ends without an exception.

    "-" is the standard output; that, and what is no plain file (a pipe, a device), is written as it
    comes. Raises OSError for a place that cannot be written to.
    """
    if name == STANDARD_OUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(name).resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as out:
            yield out
        return
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as out:
            yield out
        part.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error
    finally:
        with suppress(OSError):
            part.unlink()
