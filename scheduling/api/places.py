"""How many may be served at once in one process, and of one caller in it: those who wait in long
polls and streams, and those whose question is long work."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from scheduling.api.problems import Problem

RETRY_S = 2
WAITING = "Too many wait here already; ask without waiting, or again in {seconds} seconds."


class Places:
    """So many places in all, of which one caller may have a part."""

    def __init__(self, *, most: int, of_one: int) -> None:
        """Begin with all free."""
        self._most = most
        self._of_one = of_one
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, who: str) -> bool:
        """Take a place; False, and nothing taken, when there is none for that caller."""
        with self._lock:
            if self._taken.total() >= self._most or self._taken[who] >= self._of_one:
                return False
            self._taken[who] += 1
            return True

    def give_back(self, who: str) -> None:
        """Give a place back."""
        with self._lock:
            self._taken[who] -= 1
            if self._taken[who] <= 0:
                del self._taken[who]

    @contextmanager
    def held(self, who: str, *, full: str = WAITING) -> Iterator[None]:
        """Hold a place inside the block; raises a 429 `Problem` that says `full` when there is none."""
        if not self.take(who):
            raise too_many(full)
        try:
            yield
        finally:
            self.give_back(who)


def too_many(full: str = WAITING) -> Problem:
    """Return the problem of a caller who finds no place."""
    return Problem(
        429,
        "too_many_waiting",
        full.format(seconds=RETRY_S),
        headers={"Retry-After": str(RETRY_S)},
    )
