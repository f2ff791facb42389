"""Statements of the hot path are planned once a connection, and with indexes where that was asked for."""

import psycopg
import pytest
from django.db import DataError, connection

from tenants.prepared import Writes, prefer_indexes, prepared

pytestmark = pytest.mark.django_db


def test_a_statement_that_comes_again_is_prepared_once_for_all_its_values() -> None:
    for number in range(5):
        with prepared() as cursor:
            cursor.execute("SELECT %s::int + 40", [number])
            assert cursor.fetchone() == (number + 40,)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%+ 40'")
        assert cursor.fetchone() == (1,)


def test_a_statement_is_planned_once_whatever_its_values_are() -> None:
    """Left to itself, the server plans this one anew for each value."""
    for number in range(20):
        with prepared() as cursor:
            cursor.execute(
                "SELECT count(*) FROM generate_series(1, 1000) n WHERE n <= %s::int", [number]
            )
            assert cursor.fetchone() == (number,)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT custom_plans, generic_plans > 0 FROM pg_prepared_statements "
            "WHERE statement LIKE '%n <= %'"
        )
        assert cursor.fetchone() == (0, True)


def test_writes_of_many_values_go_together_and_are_prepared_once() -> None:
    for number in range(5):
        writes = Writes()
        writes.add("made AS (SELECT " + " + ".join(["%s::int"] * 60) + " AS sixty)", [number] * 60)
        writes.add("more AS (SELECT %s::int AS one)", [1])
        assert writes.run("SELECT sixty + one AS sixty_one FROM made, more") == [(60 * number + 1,)]
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements WHERE statement LIKE 'WITH%'")
        ((statement,),) = cursor.fetchall()
    assert "+ $60::int AS sixty), more AS (SELECT $61::int AS one) SELECT sixty" in statement


def test_without_writes_nothing_is_sent(django_assert_num_queries) -> None:
    with django_assert_num_queries(0):
        assert Writes().run() == []


def test_its_faults_are_djangos() -> None:
    with pytest.raises(DataError, match="invalid input syntax"), prepared() as cursor:
        cursor.execute("SELECT %s::uuid", ["x"])


def test_sessions_that_prefer_indexes_keep_what_the_address_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = connection.settings_dict["OPTIONS"] | {"options": "-c application_name=given"}
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    prefer_indexes()
    wanted = connection.get_connection_params()
    kept = {"host", "port", "user", "password", "dbname", "options"}
    with psycopg.connect(**{name: wanted[name] for name in kept & wanted.keys()}) as session:
        shown = [
            session.execute(f"SHOW {name}").fetchone()
            for name in ("enable_seqscan", "application_name")
        ]
    assert shown == [("off",), ("given",)]
