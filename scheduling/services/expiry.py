"""Jobs that nobody wants any more: not started within their time to live, or past their deadline.

Only what waits expires. A job that runs past its deadline is let end, for its work is as good as
done; its next try or step does not begin. A time to live is over for good once a job has started.
A job whose work is done and that waits for a review has met its deadline.

Theory. Whether a job has expired its row alone says, so it does not matter who asks or how often:
the leading governor asks on its clock, and dispatch itself starts nothing past its time to live.
The rows are locked in the order of arrival, then what waits for them, and the budgets last; a row
that somebody works on is left to the next look.
"""

import uuid
from datetime import datetime
from functools import partial

from django.db import connection, transaction

from billing.services.reservations import release
from billing.services.sets import array
from scheduling.core.states import JobEvent, JobState, WorkOutcome, job_sources
from scheduling.core.types import Reason
from scheduling.events import nudge_on_commit
from scheduling.services.cancel import below_stop
from scheduling.services.dependencies import End, dependants_lock, dependants_settle
from scheduling.services.settlement_rows import deferred_wake
from scheduling.services.stories import Told, events_write
from tenants.prepared import prepared

SET_ROWS = 200
EXPIRED: End = (JobState.EXPIRED, WorkOutcome.UNREVIEWED)

_WAITS = ", ".join(f"'{state}'" for state in sorted(job_sources(JobEvent.EXPIRE) - {"running"}))
# Two looks, each along its own index; a job that both find is locked and ended once.
_DUE = f"""
SELECT id, tenant_id, deadline <= %(now)s FROM scheduling_job
WHERE id IN (
    (SELECT id FROM scheduling_job WHERE expires_at <= %(now)s AND state IN ({_WAITS})
        AND started_at IS NULL ORDER BY expires_at LIMIT %(limit)s)
    UNION
    (SELECT id FROM scheduling_job WHERE deadline <= %(now)s AND state IN ({_WAITS})
        AND phase = 'work' ORDER BY deadline LIMIT %(limit)s)
) AND state IN ({_WAITS}) ORDER BY seq FOR UPDATE SKIP LOCKED
"""  # noqa: S608 (constants)
_END = """
UPDATE scheduling_job j SET state = 'expired', reason = x.reason, finished_at = %s, wake_at = NULL,
    changed = pg_current_xact_id()
FROM unnest(%s::uuid[], %s::text[]) AS x(id, reason)
WHERE j.id = x.id AND j.id = ANY(%s::uuid[])
"""


@transaction.atomic
def jobs_expire(*, now: datetime, limit: int = SET_ROWS) -> int:
    """End waiting jobs that have expired, some `limit` at a time; returns how many.

    What they held of their budgets is given back, what waits for them to be done is canceled,
    and so, in a transaction after this one, is what they have submitted.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DUE, {"now": now, "limit": limit})
        due: list[tuple[uuid.UUID, uuid.UUID, bool | None]] = cursor.fetchall()
    if not due:
        return 0
    whys = {job: Reason.DEADLINE if late else Reason.EXPIRED for job, _, late in due}
    ids = array(whys)
    with prepared() as cursor:
        cursor.execute(_END, [now, ids, array(whys.values()), ids])
    events_write(
        Told(job_id=job, tenant_id=tenant, event="expired", reason=whys[job])
        for job, tenant, _ in due
    )
    fallout = dependants_lock(dict.fromkeys(whys, EXPIRED))
    release(job_ids=[*whys, *fallout.lost], now=now)
    deferred_wake({tenant for _, tenant, _ in due}, now)
    dependants_settle(fallout, now)
    nudge_on_commit()
    transaction.on_commit(partial(below_stop, job_ids=list(whys), now=now), robust=True)
    return len(due)
