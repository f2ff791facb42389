"""Waiting, in a test, until another connection waits for what this one's transaction holds."""

import time

from django.db import connection

LONGEST_S = 20.0


def wait_until_waited_for() -> None:
    """Return when another connection waits for the end of the present transaction."""
    end = time.monotonic() + LONGEST_S
    while not _is_waited_for():
        assert time.monotonic() < end, "nobody waits for this transaction"
        time.sleep(0.02)


def _is_waited_for() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM pg_locks "
            "WHERE NOT granted AND transactionid = pg_current_xact_id()::xid)"
        )
        return bool(cursor.fetchone()[0])
