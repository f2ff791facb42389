"""Log files of the embedded servers: how long, and what the last start wrote."""

from pathlib import Path

ROTATE_AT_BYTES = 10_000_000
TAIL_LINES = 12


def log_end(path: Path) -> int:
    """Present length in bytes, to read on from later; 0 without a file."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def log_since(path: Path, offset: int) -> str:
    """What was written after `offset`, as far as it can be read."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last lines, indented, to stand below an error's sentence."""
    return "".join(f"\n    {line}" for line in text.strip().splitlines()[-lines:])


def rotate(path: Path) -> None:
    """Put a long log aside as `<name>.1`, over the one before; only while its server is down."""
    if log_end(path) > ROTATE_AT_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
