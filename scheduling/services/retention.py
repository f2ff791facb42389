"""Retention: forgetting the work of jobs that ended long ago. Bills are kept for ever.

The plan for size. Events, attempts and decisions hang on their job and go with it, in batches of
one short transaction each, oldest jobs first: the arrival number's index finds them without an
index of their own, which every settlement would have to maintain. What is left of a batch is free
space that later rows reuse, so the tables stop growing once the oldest days go as fast as new ones
come. Partitions by day would drop faster, but every query by job would then look into all of them.

Ledger entries name jobs by id alone and stay; so do missions, workflows and the audit.
"""

from datetime import datetime

from django.db import connection, transaction

from scheduling.core.states import ENDED_JOBS

SET_ROWS = 1_000

_OLD = """
SELECT id FROM scheduling_job WHERE finished_at < %s AND state = ANY(%s)
ORDER BY seq LIMIT %s FOR UPDATE SKIP LOCKED
"""
_DEPENDENCIES = """
DELETE FROM scheduling_jobdependency WHERE job_id = ANY(%s) OR on_id = ANY(%s)
"""
_ORPHAN = "UPDATE scheduling_job SET parent_id = NULL WHERE parent_id = ANY(%s)"
_TABLES = ("scheduling_jobevent", "scheduling_decision", "scheduling_attempt")


def jobs_forget(*, before: datetime, limit: int = SET_ROWS) -> int:
    """Delete up to `limit` jobs that ended before an instant, with all that hangs on them.

    Returns how many; 0 means that none is left.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_OLD, [before, [state.value for state in ENDED_JOBS], limit])
        ids = [row[0] for row in cursor.fetchall()]
        if not ids:
            return 0
        for table in _TABLES:
            cursor.execute(f"DELETE FROM {table} WHERE job_id = ANY(%s)", [ids])  # noqa: S608 (constants)
        cursor.execute(_DEPENDENCIES, [ids, ids])
        cursor.execute(_ORPHAN, [ids])
        cursor.execute("DELETE FROM scheduling_job WHERE id = ANY(%s)", [ids])
    return len(ids)
