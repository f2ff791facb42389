"""Pooled database connections in processes that try again by themselves when one turns out dead.

A connection that is taken from the pool is asked first whether it still lives, a round trip before each claim and
each settlement. Workers repeat what failed anyway, so there a dead one is found by its use, or by the beat
whose own connection broke: `connections_trust` at their start, `connections_renew` where they try again.
"""

from django.db import connection
from psycopg_pool import ConnectionPool


def connections_trust() -> None:
    """Let this process take connections unasked; call it at its start, before the pool is made."""
    connection.settings_dict["CONN_HEALTH_CHECKS"] = False


def connections_renew() -> None:
    """Give this thread's connection back, and have all of the pool made anew as they are free.

    None is asked: the answer of a server that is out of reach may never come.
    """
    connection.close()
    pool: ConnectionPool | None = connection.pool  # type: ignore[attr-defined]  # stubs
    if pool is not None:
        pool.drain()
