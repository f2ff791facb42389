"""The governor's own statements. Each that writes begins with the check of the leader's epoch.

`scheduling.governor.lease.HOLDS` is the guard; without the lease a statement finds and writes
nothing. Rows are locked in the order of arrival, or not waited for, so a set never waits for
another in a circle.
"""

from scheduling.governor.lease import HOLDS

LEAD = f"WITH lead AS ({HOLDS})"

JOB_COLUMNS = (
    "j.id::text, j.seq, j.pool_id::text, j.tenant_id::text, j.workspace_id::text, "
    "j.workflow_id::text, j.kind, j.job_class, j.cost, j.state, j.paused, j.reason, "
    "coalesce(nullif(j.runs_model, ''), j.model), "
    "j.region, j.labels, j.tools, j.data_class, j.compute_class, j.keys, j.input_tokens, "
    "j.output_tokens, j.expected_s, j.submitted_by, "
    "extract(epoch FROM j.submitted_at)::float8, extract(epoch FROM j.deadline)::float8, j.fence, "
    "j.idempotent, j.preemptions, j.places::text[], j.changed::text, j.phase"
)
ATTEMPT_COLUMNS = (
    "a.id::text, a.fence, a.state, a.executor_id::text, a.cost, a.charge, a.charge_due, "
    "a.job_class, a.lifts, a.workspace_lifts, a.expected_s, "
    "extract(epoch FROM a.dispatched_at)::float8, "
    "extract(epoch FROM a.ended_at)::float8, extract(epoch FROM a.eta_at)::float8, "
    "extract(epoch FROM a.eta_finish)::float8, extract(epoch FROM a.eta_low)::float8, "
    "extract(epoch FROM a.eta_high)::float8, "
    "(a.usage->>'worker_seconds')::float8"
)

SEEN = "SELECT pg_current_snapshot()::text"
"""The snapshot of the statement: what it does not show is still to be read."""

PICKUP = f"""
SELECT pg_current_snapshot()::text,
    coalesce((SELECT number FROM tenants_controlclock), 0), {JOB_COLUMNS}, {ATTEMPT_COLUMNS}
FROM (VALUES (1)) always LEFT JOIN LATERAL (
    SELECT * FROM scheduling_job
    WHERE changed >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
      AND NOT pg_visible_in_snapshot(changed, %(seen)s::pg_snapshot) OFFSET 0
) j ON true LEFT JOIN LATERAL (
    SELECT * FROM scheduling_attempt WHERE job_id = j.id AND fence = j.fence OFFSET 0
) a ON true
ORDER BY j.seq
"""  # noqa: S608 (constants)

FROM_ELSEWHERE = f"""
{LEAD}
UPDATE scheduling_job SET changed = pg_current_xact_id()
FROM lead WHERE changed >= pg_snapshot_xmax(pg_current_snapshot())
"""  # noqa: S608 (constants)
"""Rows restored from another server carry its transactions: ours would take them for new for ever."""

LOAD = f"""
SELECT {JOB_COLUMNS}, {ATTEMPT_COLUMNS} FROM scheduling_job j
LEFT JOIN scheduling_attempt a ON a.job_id = j.id AND a.fence = j.fence
WHERE j.state IN ('deferred', 'queued', 'running', 'waiting') ORDER BY j.seq
"""  # noqa: S608 (constants)

MEMORY = """memory AS (
    INSERT INTO scheduling_servicememory (
        id, pool_id, job_class, tenant_id, workspace_id, turn, used, lifts, top,
        backlogged, last_placed_at
    )
    SELECT x.id, x.pool, x.class, x.tenant, x.workspace, x.turn, x.used, x.lifts, x.top,
        x.backlogged, x.placed
    FROM lead, unnest(
        %(ids)s::uuid[], %(pools)s::uuid[], %(memory_classes)s::text[], %(tenants)s::uuid[],
        %(workspaces)s::uuid[], %(memory_turns)s::bigint[], %(useds)s::bigint[], %(memory_lifts)s::int[],
        %(tops)s::bigint[], %(backlogged)s::bool[], %(placed)s::timestamptz[]
    ) AS x(id, pool, class, tenant, workspace, turn, used, lifts, top, backlogged, placed)
    ON CONFLICT (pool_id, job_class, tenant_id, workspace_id) DO UPDATE SET
        turn = excluded.turn, used = excluded.used, lifts = excluded.lifts, top = excluded.top,
        backlogged = excluded.backlogged, last_placed_at = excluded.last_placed_at
)"""

# The jobs are looked up one by one by their ids: the tables swing between empty and full faster than
# the server's statistics, so a plan that may choose walks all jobs of a state for each placement.
# OFFSET 0 keeps the state, by which an index of all that waits could be walked, out of the look-up;
# the update joins what was asked, whose number the server takes for more than one, by a hash: else it
# compares each placement with all.
DISPATCH = f"""
{LEAD}, asked AS MATERIALIZED (
    SELECT * FROM unnest(
        %(jobs)s::uuid[], %(attempts)s::uuid[], %(executors)s::uuid[], %(costs)s::int[],
        %(charges)s::bigint[], %(classes)s::text[], %(turns)s::bigint[], %(lifts)s::int[],
        %(workspace_lifts)s::int[], %(expected)s::float8[], %(reasons)s::text[], %(names)s::text[],
        %(eta_at)s::timestamptz[], %(eta_finish)s::timestamptz[], %(eta_low)s::timestamptz[],
        %(eta_high)s::timestamptz[], %(changed)s::xid8[], %(raised)s::jsonb[],
        %(leases)s::float8[]
    ) WITH ORDINALITY AS x(
        job, attempt, executor, cost, charge, class, turn, lifts, workspace_lifts, expected_s,
        reason, name, eta_at, eta_finish, eta_low, eta_high, changed, raised, lease, place
    )
), free AS MATERIALIZED (
    SELECT asked.job FROM lead, asked CROSS JOIN LATERAL (
        SELECT state, phase, paused, changed, started_at, expires_at, deadline FROM scheduling_job
        WHERE id = asked.job OFFSET 0 FOR UPDATE SKIP LOCKED
    ) j WHERE j.state = 'queued' AND NOT j.paused AND j.changed = asked.changed
      AND (j.expires_at IS NULL OR j.started_at IS NOT NULL OR j.expires_at > clock_timestamp())
      AND (j.deadline IS NULL OR j.phase = 'review' OR j.deadline > clock_timestamp())
), placed AS (
    UPDATE scheduling_job j
    SET state = 'running', fence = j.fence + 1, reason = asked.reason,
        started_at = coalesce(j.started_at, clock_timestamp())
    FROM asked WHERE j.id = asked.job AND j.id = ANY(ARRAY(SELECT job FROM free))
    RETURNING j.fence, j.step, j.tenant_id, coalesce(nullif(j.runs_model, ''), j.model) AS model,
        asked.*
), made AS (
    INSERT INTO scheduling_attempt (
        id, job_id, fence, step, executor_id, state, cost, charge, job_class, turn, lifts,
        workspace_lifts, expected_s, lease_until, sent_at, sends, dispatched_at, error_class,
        message, model, eta_at, eta_finish, eta_low, eta_high
    )
    SELECT attempt, job, fence, step, executor, 'dispatched', cost, charge, class, turn, lifts,
        workspace_lifts, expected_s, clock_timestamp() + make_interval(secs => lease),
        CASE WHEN lease = 0 THEN clock_timestamp() END, 1, clock_timestamp(), '', '', model,
        eta_at, eta_finish, eta_low, eta_high
    FROM placed ORDER BY place
    RETURNING id, job_id, fence
), told AS (
    INSERT INTO scheduling_jobevent (job_id, tenant_id, attempt_id, event, reason, data, at)
    SELECT job, tenant_id, attempt, 'placed', reason,
        jsonb_build_object('executor', name, 'turn', turn, 'class', class, 'cost', cost,
            'fence', fence, 'policy', %(policy)s::int, 'control', %(control)s::bigint) || raised,
        clock_timestamp()
    FROM placed ORDER BY place
), {MEMORY}
SELECT id::text, job_id::text, fence FROM made
"""  # noqa: S608 (constants)

REMEMBER = f"""
{LEAD}, {MEMORY}, corrected AS (
    UPDATE scheduling_attempt a SET charge = a.charge_due, charge_due = NULL FROM lead
    WHERE a.id = ANY(%(corrected)s::uuid[]) AND a.charge_due IS NOT NULL
)
SELECT count(*) FROM lead
"""  # noqa: S608 (constants)

WAKE = f"""
{LEAD}, due AS MATERIALIZED (
    SELECT j.id FROM scheduling_job j, lead
    WHERE j.wake_at <= clock_timestamp() AND j.state = 'waiting'
    ORDER BY j.seq FOR UPDATE OF j SKIP LOCKED
)
UPDATE scheduling_job j SET state = 'queued', wake_at = NULL, changed = pg_current_xact_id(),
    reason = 'in_order'
FROM due WHERE j.id = due.id
"""  # noqa: S608 (constants)

UNCLAIMED = f"""
{LEAD}, late AS MATERIALIZED (
    SELECT a.id FROM scheduling_attempt a, lead
    WHERE a.state = 'dispatched'
      AND a.sent_at < clock_timestamp() - make_interval(secs => 2 * 2 ^ least(a.sends - 1, 4))
    ORDER BY a.id LIMIT 2000 FOR UPDATE OF a SKIP LOCKED
)
UPDATE scheduling_attempt a SET sent_at = clock_timestamp(), sends = a.sends + 1
FROM late WHERE a.id = late.id
RETURNING a.id::text, a.fence, a.executor_id::text, a.expected_s
"""  # noqa: S608 (constants)

# What runs is asked to stop and goes on waiting when its worker says so; what no worker has claimed
# is taken back at once. The order of the locks is that of settling: a job before its attempt.
MAKE_ROOM = f"""
{LEAD}, asked AS (
    SELECT * FROM unnest(
        %(jobs)s::uuid[], %(attempts)s::uuid[], %(stop_for)s::text[], %(told)s::jsonb[]
    ) WITH ORDINALITY AS x(job, attempt, stop_for, told, place)
), stopping AS MATERIALIZED (
    SELECT asked.*, j.tenant_id, a.state FROM lead, asked CROSS JOIN LATERAL (
        SELECT tenant_id FROM scheduling_job
        WHERE id = asked.job AND state = 'running' AND NOT cancel_requested FOR UPDATE SKIP LOCKED
    ) j CROSS JOIN LATERAL (
        SELECT state FROM scheduling_attempt
        WHERE id = asked.attempt AND state IN ('dispatched', 'running') FOR UPDATE SKIP LOCKED
    ) a
), marked AS (
    UPDATE scheduling_attempt a SET stop_for = s.stop_for,
        state = CASE s.state WHEN 'running' THEN 'stopping' ELSE 'preempted' END,
        ended_at = CASE s.state WHEN 'dispatched' THEN clock_timestamp() END,
        charge_due = CASE s.state WHEN 'dispatched' THEN 0 END,
        message = CASE s.state WHEN 'dispatched' THEN %(unbegun)s ELSE a.message END
    FROM stopping s WHERE a.id = s.attempt AND a.id = ANY(%(attempts)s::uuid[])
), waiting AS (
    UPDATE scheduling_job j SET state = 'queued', reason = 'preempted',
        preemptions = j.preemptions + 1, step_fence = j.step_fence + 1,
        changed = pg_current_xact_id()
    FROM stopping s WHERE j.id = s.job AND s.state = 'dispatched' AND j.id = ANY(%(jobs)s::uuid[])
), told AS (
    INSERT INTO scheduling_jobevent (job_id, tenant_id, attempt_id, event, reason, data, at)
    SELECT job, tenant_id, attempt,
        CASE state WHEN 'running' THEN 'preempting' ELSE 'preempted' END, 'preempted',
        told || jsonb_build_object('policy', %(policy)s::int, 'control', %(control)s::bigint),
        clock_timestamp()
    FROM stopping ORDER BY place
)
SELECT job::text, state = 'running' FROM stopping
"""  # noqa: S608 (constants)

# A process that holds its lock lives: what must not run twice waits for its answer a while longer.
# A call is not run again whatever becomes of its caller, so nothing is waited for there.
# What has no `sent_at` is not sent to workers: its caller has until the end of its lease to take it.
LOST = """
WITH silent AS MATERIALIZED (
    SELECT a.id, a.fence, a.job_id, a.lease_until, EXISTS (
        SELECT 1 FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %(space)s
          AND l.objid = a.worker_id::int::oid AND l.objsubid = 2
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) AS lives
    FROM scheduling_attempt a
    WHERE a.state IN ('running', 'stopping')
        AND a.lease_until < clock_timestamp() + make_interval(secs => %(silent_s)s)
      OR a.state = 'dispatched' AND a.sent_at IS NULL AND a.lease_until < clock_timestamp()
)
SELECT id, fence FROM silent
WHERE NOT lives OR lease_until < clock_timestamp() AND (
    lease_until < clock_timestamp() - make_interval(secs => %(patience_s)s)
    OR (SELECT idempotent OR kind = ANY(%(by_caller)s::text[])
        FROM scheduling_job WHERE id = silent.job_id)
) ORDER BY id LIMIT 500
"""

PUT_OFF = f"""
{LEAD}
UPDATE scheduling_attempt a
SET lease_until = clock_timestamp() + make_interval(secs => %(seconds)s) FROM lead
WHERE a.id = %(attempt)s AND a.state IN ('dispatched', 'running', 'stopping')
"""  # noqa: S608 (constants)

DEFERRED_DUE = (
    "SELECT EXISTS (SELECT 1 FROM scheduling_job "
    "WHERE wake_at <= clock_timestamp() AND state = 'deferred')"
)
EXPIRY_DUE = """
SELECT EXISTS (
    SELECT 1 FROM scheduling_job WHERE expires_at <= clock_timestamp()
      AND state IN ('deferred', 'queued', 'waiting') AND started_at IS NULL
) OR EXISTS (
    SELECT 1 FROM scheduling_job WHERE deadline <= clock_timestamp()
      AND state IN ('deferred', 'queued', 'waiting') AND phase = 'work'
)
"""
FALL_BACK = f"""
{LEAD}, stranded AS MATERIALIZED (
    SELECT j.id, j.tenant_id FROM unnest(%(jobs)s::uuid[]) k(id)
    JOIN scheduling_job j ON j.id = k.id, lead
    WHERE j.state = 'queued' AND NOT j.paused AND j.model = ANY(%(models)s::text[])
    ORDER BY j.seq FOR UPDATE OF j SKIP LOCKED
), moved AS (
    UPDATE scheduling_job j SET state = 'deferred', reason = 'fallback',
        wake_at = clock_timestamp(), changed = pg_current_xact_id()
    FROM stranded WHERE j.id = stranded.id
)
INSERT INTO scheduling_jobevent (job_id, tenant_id, event, reason, data, at)
SELECT id, tenant_id, 'deferred', 'fallback', '{{}}', clock_timestamp() FROM stranded
"""  # noqa: S608 (constants)

OPEN_CIRCUITS = f"""
{LEAD}
UPDATE scheduling_circuit SET state = 'half_open' FROM lead
WHERE state = 'open' AND until <= clock_timestamp()
"""  # noqa: S608 (constants)
