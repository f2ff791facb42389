"""Taking up changed rows, so that none is missed.

Every writer notes its transaction in the job's `changed`; the governor reads what the snapshot of
its last reading did not show (`scheduling.models.xact`) and writes nothing. A row that somebody is
changing comes when that transaction ends. Job and attempt are read in one statement, and so as
they stood at one moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from scheduling.governor.rows import AttemptRow, JobRow, split
from scheduling.governor.statements import FROM_ELSEWHERE, PICKUP, SEEN
from tenants.prepared import prepared


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed jobs with their last attempts, by arrival, and the number of the last lever change.

    `seen` is what to read on from.
    """

    seen: str
    control: int
    pairs: Sequence[tuple[JobRow, AttemptRow | None]]


def seen_now(epoch: int) -> str:
    """Return the present snapshot, from which a leader that loads all rows goes on by changes."""
    with connection.cursor() as cursor:
        cursor.execute(FROM_ELSEWHERE, {"epoch": epoch})
        cursor.execute(SEEN)
        return str(cursor.fetchone()[0])


def changes_since(seen: str) -> Changes:
    """Return what transactions have changed that the snapshot `seen` does not show."""
    with prepared() as cursor:
        cursor.execute(PICKUP, {"seen": seen})
        rows = cursor.fetchall()
    seen, control = rows[0][:2]
    pairs = [split(row[2:]) for row in rows if row[2] is not None]
    return Changes(seen=seen, control=control, pairs=pairs)
