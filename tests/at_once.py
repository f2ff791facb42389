"""Deeds that begin at the same moment, each on a connection of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from django.db import connection


def at_once(deeds: Sequence[Callable[[], object]]) -> None:
    """Do all deeds side by side; raise the first one's fault, if any has one."""
    barrier = threading.Barrier(len(deeds))

    def run(deed: Callable[[], object]) -> None:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=20)
            deed()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(deeds)) as threads:
        list(threads.map(run, deeds))
