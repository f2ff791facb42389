"""The terminal that all processes of `up` share: whole lines, each behind its speaker's name."""

import os
import threading
from typing import Protocol

COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
NAME_WIDTH = 9


class Stream(Protocol):
    """The part of a text stream that is needed here."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...
    def isatty(self) -> bool: ...


class Console:
    """Writes lines from several threads; in colour on a terminal unless NO_COLOR is set."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._colours: dict[str, int] = {}
        self._in_colour = stream.isatty() and not os.environ.get("NO_COLOR")

    def write(self, name: str, line: str) -> None:
        """One line of `name`."""
        prefix = f"{name:<{NAME_WIDTH}} | "
        if self._in_colour:
            colour = self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
            prefix = f"\033[{colour}m{prefix}\033[0m"
        self.plain(prefix + line)

    def plain(self, line: str) -> None:
        """One line as it is."""
        with self._lock:
            try:
                self._stream.write(f"{line}\n")
                self._stream.flush()
            except (OSError, ValueError):
                # Whoever read us has gone (a closed pipe). The children's pipes must still be
                # emptied, or they would block, so lines are dropped from here on.
                return
