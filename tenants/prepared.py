"""Cursors whose statements the server plans once a connection, for those that run all the time.

Planning a statement of the hot path takes as long as running it for a single job. Django's own cursors
put the values into the text, so that each is planned anew. Here they travel beside it, and psycopg
prepares what comes again. All sessions are told to plan such a statement once (`DATABASES` in the
settings): left to itself the server goes on planning anew where it believes that a plan for these very values is
cheaper, without counting how long planning takes. A plan made once must fit an empty table and a full one: such a
statement names its rows by their ids, and sessions that live by it prefer indexes (`prefer_indexes`). In the
others (the web) one that was planned while its table had a page may read all of it until the server next
analyses that table, within a minute or so.
Sets of values go as array literals (`billing.services.sets`): lists would have another type,
and so another plan, with the size of their numbers.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.backends.utils import CursorWrapper
from psycopg import RawCursor, adapters
from psycopg.pq import Format

# Sessions speak UTC, so psycopg's own loader does what Django's does in Python, several times as fast.
_TIMES = adapters.get_loader(adapters.types["timestamptz"].oid, Format.TEXT)
_BY_INDEX = "-c enable_seqscan=off"


def prepared() -> CursorWrapper:
    """Return a cursor of the present connection that prepares its statements."""
    return _preparing(ServerBindingCursor)  # type: ignore[arg-type]  # stubs


class Writes:
    """Writes of one transaction that go to the server together, as parts of one statement.

    To a job that comes alone each way to the server and back costs as much as the write itself. No
    part sees what another has written, but through what that returns.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._parts: list[str] = []
        self._values: list[Any] = []

    def add(self, parts: str, values: Sequence[Any]) -> None:
        """Add parts with their values: `name AS (statement)`, set apart by commas."""
        self._parts.append(parts)
        self._values += values

    def run(self, answer: str = "SELECT 1") -> list[tuple[Any, ...]]:
        """Write what was added; return the rows of `answer`, which may read what parts return."""
        if not self._parts:
            return []
        statement = _numbered(f"WITH {', '.join(self._parts)} {answer}")
        with _preparing(RawCursor) as cursor:
            cursor.execute(statement, self._values)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


@lru_cache(maxsize=64)
def _numbered(statement: str) -> str:
    """Return a statement with its values numbered, `$1` and so on, in place of each `%s`.

    psycopg reads a statement of more than fifty values anew each time, which takes as long as a
    look-up; one whose values are numbered it leaves as it is.
    """
    numbers = count(1)
    return re.sub("%s", lambda _: f"${next(numbers)}", statement)


def _preparing(kind: Callable[[Any], Any]) -> CursorWrapper:
    """Open a cursor of this kind as `connection.cursor()` would, whose own would be thrown away."""
    own = connections[DEFAULT_DB_ALIAS]  # looked up once: `connection` does it for each attribute
    own.close_if_health_check_failed()
    own.ensure_connection()
    with own.wrap_database_errors:
        cursor = kind(own.connection)
    if _TIMES is not None:
        cursor.adapters.register_loader("timestamptz", _TIMES)
    return own.make_debug_cursor(cursor) if own.queries_logged else own.make_cursor(cursor)


def prefer_indexes() -> None:
    """Let this process's sessions plan with indexes; call it at its start.

    For processes that only work on rows that they name. A plan made while a table is empty would
    else read it from end to end for ever after.
    """
    options = connection.settings_dict["OPTIONS"]
    options["options"] = f"{options.get('options', '')} {_BY_INDEX}".strip()
