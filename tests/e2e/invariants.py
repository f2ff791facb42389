"""What must hold of any system that has come to rest, whatever was killed: each a count of rows."""

from tests.e2e.system import System

VIOLATIONS = {
    "jobs that have not ended": (
        "SELECT count(*) FROM scheduling_job "
        "WHERE state IN ('queued', 'running', 'waiting', 'deferred')"
    ),
    "jobs told of their end more or less often than once": (
        "SELECT count(*) FROM scheduling_job j WHERE j.state = 'done' AND 1 <> ("
        "SELECT count(*) FROM scheduling_jobevent e WHERE e.job_id = j.id "
        "AND e.event IN ('finished', 'accepted', 'rejected'))"
    ),
    "steps complete more or less often than once": (
        "SELECT count(*) FROM scheduling_job j WHERE j.state = 'done' AND (SELECT count(*) "
        "FROM scheduling_attempt a WHERE a.job_id = j.id AND a.state = 'complete') <> j.step + 1"
    ),
    "steps that two attempts have completed": (
        "SELECT count(*) FROM (SELECT 1 FROM scheduling_attempt WHERE state = 'complete' "
        "GROUP BY job_id, step HAVING count(*) > 1) twice"
    ),
    "runs of work that must not run twice, above one": (
        "SELECT count(*) FROM (SELECT 1 FROM scheduling_attempt a "
        "JOIN scheduling_job j ON j.id = a.job_id WHERE NOT j.idempotent "
        "AND a.started_at IS NOT NULL AND a.job_class <> 'review' AND a.state <> 'preempted' "
        "GROUP BY a.job_id HAVING count(*) > 1) twice"
    ),
    "attempts still live": (
        "SELECT count(*) FROM scheduling_attempt "
        "WHERE state IN ('dispatched', 'running', 'stopping')"
    ),
    "ended attempts settled more or less often than once": (
        "SELECT count(*) FROM scheduling_attempt a "
        "WHERE a.started_at IS NOT NULL AND a.job_class <> 'review' AND 1 <> (SELECT count(*) FROM billing_ledgerentry l "
        "WHERE l.attempt_id = a.id AND l.meter = 'worker_seconds' AND l.source_event = 'attempt')"
    ),
    "ended work whose story ends with another event": (
        "SELECT count(*) FROM scheduling_job j WHERE j.state = 'done' AND ("
        "SELECT e.event FROM scheduling_jobevent e WHERE e.job_id = j.id AND e.event NOT IN "
        "('late_result') ORDER BY e.id DESC LIMIT 1) NOT IN ('finished', 'accepted', 'rejected')"
    ),
    "reservations still open": ("SELECT count(*) FROM billing_reservation WHERE state = 'open'"),
    "balances that still hold something": ("SELECT count(*) FROM billing_balance WHERE held <> 0"),
    "events, decisions and reservations of no job": (
        "SELECT count(*) FROM (SELECT job_id, tenant_id FROM scheduling_jobevent "
        "UNION ALL SELECT job_id, NULL FROM scheduling_decision "
        "UNION ALL SELECT job_id, tenant_id FROM billing_reservation) book "
        "LEFT JOIN scheduling_job j ON j.id = book.job_id "
        "WHERE j.id IS NULL OR book.tenant_id <> j.tenant_id"
    ),
    "moments with more in use than the pool has": (
        "SELECT count(*) FROM scheduling_attempt a JOIN scheduling_job j ON j.id = a.job_id "
        "JOIN scheduling_pool p ON p.id = j.pool_id WHERE p.budget < ("
        "SELECT sum(b.cost) FROM scheduling_attempt b WHERE b.dispatched_at <= a.dispatched_at "
        "AND (b.ended_at IS NULL OR b.ended_at > a.dispatched_at))"
    ),
}


def violations(system: System) -> dict[str, int]:
    """Return the broken invariants with how often each is broken."""
    found = {what: system.sql(statement)[0][0] for what, statement in VIOLATIONS.items()}
    return {what: count for what, count in found.items() if count}
