"""Values read from rows that only levers change, remembered while the control clock stands still.

Theory. A lever changes its rows and moves the clock in one transaction. Who reads the clock first
and the rows after it sees rows that are at least as new as the clock says, so a value kept under
the version read before it may be given to whoever reads the same version later. A change that
commits in between moves the clock and the value is read anew. Health and circuits of executors
change without a lever: nothing remembered may depend on them.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tenants.controls import NO_VERSION, Version

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

MOST = 1000


class Remembered(Generic[Key, Value]):
    """What `read` returned for each key, at most `MOST` of them; callers must not change it."""

    def __init__(self, read: Callable[[Key, Version], Value]) -> None:
        """Begin with nothing; `read` gets the key, and the version for what it needs itself."""
        self._read = read
        self._kept: dict[Key, tuple[Version, Value]] = {}

    def at(self, version: Version, key: Key) -> Value:
        """Return the key's value; `version` must have been read in the present transaction."""
        kept = self._kept.get(key)
        if kept is not None and kept[0] == version:
            return kept[1]
        value = self._read(key, version)
        if version != NO_VERSION:
            if len(self._kept) >= MOST:
                self._kept.clear()
            self._kept[key] = (version, value)
        return value
