"""Connections that are taken from their pool unasked: a dead one is found by its use, and then all are."""

from collections.abc import Iterator
from datetime import datetime

import pytest
from django.db import OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from tenants import connections as module
from tenants.connections import connections_renew, connections_trust

HELD = 3


@pytest.fixture
def trusting(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[BaseDatabaseWrapper]:
    """A connection like that of a worker's thread, with a pool of its own."""
    one = connection.copy(alias="trusting")
    monkeypatch.setattr(module, "connection", one)
    connections["trusting"] = one
    connections_trust()
    yield one
    one.close()
    one.close_pool()
    del connections["trusting"]


def pid(one: BaseDatabaseWrapper) -> int:
    with one.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def test_after_one_dead_connection_was_found_none_is_given_out_any_more(
    trusting: BaseDatabaseWrapper,
) -> None:
    raw = [trusting.pool.open() or trusting.pool.getconn() for _ in range(HELD)]
    dead = {each.info.backend_pid for each in raw}
    for each in raw:
        trusting.pool.putconn(each)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(x) FROM unnest(%s) x", [list(dead)])
    with pytest.raises(OperationalError) as died:
        pid(trusting)
    connections_renew(died.value)
    assert pid(trusting) not in dead


def test_a_connection_that_lives_is_not_asked_whether_it_does(
    trusting: BaseDatabaseWrapper,
) -> None:
    first = pid(trusting)
    trusting.close()
    before = heard_at(first)
    trusting.ensure_connection()
    trusting.close()
    assert heard_at(first) == before
    assert pid(trusting) == first
    assert heard_at(first) > before


def heard_at(backend: int) -> datetime:
    """Return when a connection's server process last began or ended something."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT state_change FROM pg_stat_activity WHERE pid = %s", [backend])
        return cursor.fetchone()[0]


def test_a_fault_that_is_not_the_connections_leaves_the_pool_as_it_is(
    trusting: BaseDatabaseWrapper,
) -> None:
    first = pid(trusting)
    with trusting.cursor() as cursor:
        cursor.execute("SET statement_timeout = 20")
        with pytest.raises(OperationalError) as canceled:
            cursor.execute("SELECT pg_sleep(5)")
    connections_renew(canceled.value)
    assert pid(trusting) == first
