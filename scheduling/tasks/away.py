"""Waiting for a database that is away for a moment, in the middle of work that should not be lost."""

import time
from collections.abc import Callable
from typing import TypeVar

import psycopg
from django.db import InterfaceError, OperationalError

from tenants.connections import connections_renew

AWAY = (OperationalError, InterfaceError, psycopg.OperationalError)
WAIT_S = 0.5
MOST_TRIES = 20

Answer = TypeVar("Answer")


def patiently(call: Callable[[], Answer], tries: int = MOST_TRIES) -> Answer:
    """Return what the call does, made again while the database is away; it must bear being repeated.

    Raises one of `AWAY` after so many tries.
    """
    for _ in range(tries - 1):
        try:
            return call()
        except AWAY as error:
            connections_renew(error)
            time.sleep(WAIT_S)
    return call()
