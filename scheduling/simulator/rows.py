"""The lines of a trace's file, gzip or not, with their numbers, and what is said of bad ones."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from scheduling.simulator.errors import InvalidScenario, ScenarioError, refusal

MOST_ROWS = 20_000_000
LONGEST_LINE = 10_000
MOST_TOLD = 20
_GZIP = b"\x1f\x8b"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a trace's file, unpacked; raise `InvalidScenario` for one that cannot be read."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            if packed:
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield unpacked  # type: ignore[misc]
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise refusal(path.name, "Is a broken gzip file.") from None
    except OSError as error:
        raise refusal(path.name, f"Cannot be read: {error.strerror}.") from None


def lines(source: IO[bytes], file: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines; raise `InvalidScenario` for one too long, or too many."""
    for number in range(1, MOST_ROWS + 2):
        line = source.readline(LONGEST_LINE + 1)
        if not line:
            return
        if len(line) > LONGEST_LINE:
            raise refusal(file, f"Is longer than {LONGEST_LINE:,} characters.", number)
        yield number, line.decode("utf-8-sig" if number == 1 else "utf-8", "replace")
    raise refusal(file, f"Holds more than {MOST_ROWS:,} rows.", MOST_ROWS + 1)


def each_row(path: Path, numbered: Iterator[tuple[int, str]], take: Callable[[str], None]) -> None:
    """Hand every line to `take`, which raises ValueError with a sentence for a bad one.

    Raises `InvalidScenario` with the first bad rows once all were seen.
    """
    wrong: list[ScenarioError] = []
    for number, line in numbered:
        try:
            take(line)
        except ValueError as error:
            wrong.append(ScenarioError(file=path.name, line=number, path="", sentence=str(error)))
            if len(wrong) >= MOST_TOLD:
                break
    if wrong:
        raise InvalidScenario(wrong)
