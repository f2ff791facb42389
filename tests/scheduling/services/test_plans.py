"""The plans that hot statements get once for all, made in empty tables, fit full ones."""

import re

import psycopg
import pytest
from django.db import connection

from billing.services import balances, holds, ledger, reservations
from scheduling.governor import statements
from scheduling.services import settlement_rows
from scheduling.tasks import claim
from tenants.prepared import prefer_indexes

pytestmark = pytest.mark.django_db
HOT = {
    "take up": statements.PICKUP,
    "dispatch": statements.DISPATCH,
    "claim": claim._CLAIM,
    "lock": settlement_rows._LOCK,
    "close": settlement_rows._CLOSE,
    "wake": settlement_rows._WAKE,
    "book": ledger._BOOK,
    "fund": reservations._FUND,
    "give back": holds._CLOSE_OF_JOBS,
    "move": balances._MOVE,
}
SMALL = {"scheduling_governorlease", "tenants_controlclock"}
"""Tables of one row."""


def numbered(statement: str) -> str:
    """Return the statement with the server's own placeholders."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    for number, name in enumerate(names, 1):
        statement = statement.replace(f"%({name})s", f"${number}")
    parts = statement.split("%s")
    return parts[0] + "".join(f"${n}{part}" for n, part in enumerate(parts[1:], 1))


@pytest.mark.parametrize("name", HOT)
def test_a_plan_made_in_empty_tables_reads_no_table_from_end_to_end(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        connection.settings_dict, "OPTIONS", dict(connection.settings_dict["OPTIONS"])
    )
    prefer_indexes()
    wanted = connection.get_connection_params()
    kept = {"host", "port", "user", "password", "dbname", "options"}
    with psycopg.connect(**{key: wanted[key] for key in kept & wanted.keys()}) as session:
        if session.info.server_version < 160_000:
            pytest.skip("generic plans are explained from PostgreSQL 16 on")
        told = session.execute(f"EXPLAIN (GENERIC_PLAN) {numbered(HOT[name])}".encode())
        plan = "\n".join(row[0] for row in told)
    whole = set(re.findall(r"Seq Scan on (\w+)", plan)) - SMALL
    without = re.findall(
        r"Index (?:Only )?Scan using \w+ on (\w+)[^\n]*\n(?!\s+(?:Index Cond|Filter|Order))", plan
    )
    assert (whole, [table for table in without if table not in SMALL]) == (set(), []), plan
