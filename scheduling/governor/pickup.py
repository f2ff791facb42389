"""Taking up changed rows, so that none is missed.

Every writer sets a job's flag `changed` in its own transaction; the governor clears it in the
statement that reads the row. A row that somebody holds locked is skipped and still flagged the
next time. ("id > last seen" loses rows that commit late.) The attempts are read by a second
statement: a joined read could show a newer job beside an older attempt.
"""

from django.db import connection

from scheduling.governor.rows import AttemptRow, JobRow, job_row
from scheduling.governor.statements import ATTEMPTS_OF, PICKUP


def changed_rows(epoch: int) -> list[tuple[JobRow, AttemptRow | None]]:
    """Return the changed jobs with their last attempts and clear the flags."""
    with connection.cursor() as cursor:
        cursor.execute(PICKUP, {"epoch": epoch})
        jobs = [job_row(row) for row in cursor.fetchall()]
        placed = [job for job in jobs if job.fence]
        attempts: dict[str, AttemptRow] = {}
        if placed:
            cursor.execute(ATTEMPTS_OF, [[job.id for job in placed], [j.fence for j in placed]])
            attempts = {row[0]: AttemptRow(*row[1:]) for row in cursor.fetchall()}
    return [(job, attempts.get(job.id)) for job in jobs]
