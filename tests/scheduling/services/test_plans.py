"""The plans that hot statements get once for all fit empty tables and full ones."""

import re

import psycopg
import pytest
from django.db import connection

from billing.services import balances, holds, ledger, reservations
from scheduling.governor import statements
from scheduling.services import catalogue, expiry, settlement_rows
from scheduling.tasks import claim
from tenants.prepared import prefer_indexes

pytestmark = pytest.mark.django_db
HOT = {
    "count what waits": catalogue._FACTS,
    "take up": statements.PICKUP,
    "dispatch": statements.DISPATCH,
    "make room": statements.MAKE_ROOM,
    "claim": claim._CLAIM,
    "lock": settlement_rows._LOCK,
    "close": settlement_rows._CLOSE,
    "wake": settlement_rows._WAKE,
    "what expires": statements.EXPIRY_DUE,
    "expire": expiry._DUE,
    "book": ledger._BOOK,
    "fund": f"WITH {reservations._FUND} SELECT 1",
    "give back": holds._CLOSE_OF_JOBS,
    "move": balances._MOVE,
}
SMALL = {"scheduling_governorlease", "tenants_controlclock"}
"""Tables of one row."""
STATISTICS = """
SELECT pg_restore_relation_stats('schemaname', 'public', 'relname', relname::text,
    'relpages', %s::integer, 'reltuples', %s::real)
FROM pg_class WHERE relkind IN ('r', 'i') AND relname ~ '^(scheduling|billing|tenants)_'
"""


def numbered(statement: str) -> str:
    """Return the statement with the server's own placeholders."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    for number, name in enumerate(names, 1):
        statement = statement.replace(f"%({name})s", f"${number}")
    parts = statement.split("%s")
    return parts[0] + "".join(f"${n}{part}" for n, part in enumerate(parts[1:], 1))


def plan_of(name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the plan that a worker's session makes once for all, of tables said to have rows."""
    monkeypatch.setitem(
        connection.settings_dict, "OPTIONS", dict(connection.settings_dict["OPTIONS"])
    )
    prefer_indexes()
    wanted = connection.get_connection_params()
    kept = {"host", "port", "user", "password", "dbname", "options"}
    with psycopg.connect(**{key: wanted[key] for key in kept & wanted.keys()}) as session:
        if session.info.server_version < 180_000:
            pytest.skip("statistics can be set from PostgreSQL 18 on")
        session.execute(STATISTICS, [max(rows, 0) // 20 + 1, rows])
        told = session.execute(f"EXPLAIN (GENERIC_PLAN) {numbered(HOT[name])}".encode())
        session.rollback()
        return "\n".join(row[0] for row in told)


@pytest.mark.parametrize("rows", [-1, 3, 1_000_000])
@pytest.mark.parametrize("name", HOT)
def test_whatever_the_tables_held_when_it_was_made_a_plan_reads_no_table_from_end_to_end(
    name: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(name, rows, monkeypatch)
    whole = set(re.findall(r"Seq Scan on (\w+)", plan)) - SMALL
    without = re.findall(
        r"Index (?:Only )?Scan using \w+ on (\w+)[^\n]*\n(?!\s+(?:Index Cond|Filter|Order))", plan
    )
    assert (whole, [table for table in without if table not in SMALL]) == (set(), []), plan


@pytest.mark.parametrize("name", ["dispatch", "claim", "close"])
def test_no_row_of_a_set_is_compared_with_all_others(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(name, -1, monkeypatch)
    assert re.findall(r"Join Filter|AND \(id = ANY", plan) == [], plan
