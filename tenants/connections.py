"""Pooled database connections in processes that try again by themselves when one turns out dead.

A connection that is taken from the pool is asked first whether it still lives, a round trip before each claim and
each settlement. In workers a dead one is found by its use, or by the beat whose own connection broke:
`connections_trust` at their start, `connections_renew` where they try again. What does not try again (the
duties that the governor asks for by its clock) is asked for anew.
"""

import psycopg
from django.db import connection
from psycopg_pool import ConnectionPool, PoolTimeout

_LOST = ("08", "57P")
"""SQLSTATE classes of a connection that is over: connection exceptions, and a server that shuts down."""


def connections_trust() -> None:
    """Let this process take connections unasked; call it at its start, before the pool is made."""
    connection.settings_dict["CONN_HEALTH_CHECKS"] = False


def connections_renew(error: Exception) -> None:
    """Give this thread's connection back; where it was lost, have all of the pool made anew.

    None of the others is asked: the answer of a server that is out of reach may never come.
    """
    connection.close()
    pool: ConnectionPool | None = connection.pool  # type: ignore[attr-defined]  # stubs
    if pool is not None and _is_lost(error):
        pool.drain()


def _is_lost(error: Exception) -> bool:
    """Tell a lost connection from a lock, a deadlock, a time-out, or a pool with none to spare."""
    cause = error.__cause__ or error
    if isinstance(cause, PoolTimeout):
        return False
    state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
    return state is None or state.startswith(_LOST)
