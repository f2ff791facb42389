"""The hot path and the reads in a full database beside an empty one, and what reads whole tables.

    .venv/bin/python bench/size.py [--waiting 100000] [--ended 1000000] [--tenants 1000]

Fills a database with waiting jobs and with ended ones (each with attempt, events, decision,
reservation and ledger row), then runs the stages of a life for jobs that go alone in it and in an
empty one, and asks the API for what people ask it for. Each statement of the reads is explained; one
that reads a large table from end to end is named.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a script


from bench.places import places_open
from bench.systems import Telemachus
from telemachus.local.home import BASE_DIR

SETS = 60
TENANTS = """
UPDATE scheduling_pool SET budget = 1, reserve = 0;
INSERT INTO tenants_tenant (id, slug, name, weight, held, timezone, created_at)
SELECT gen_random_uuid(), 'many-' || n, 'Tenant ' || n, 1 + n % 3, false, 'UTC', now()
FROM generate_series(1, {tenants}) n;
INSERT INTO tenants_workspace (id, tenant_id, slug, name, weight)
SELECT gen_random_uuid(), id, 'main', 'Main', 1 FROM tenants_tenant WHERE slug LIKE 'many-%';
INSERT INTO scheduling_workflow (id, tenant_id, pool_id, slug, name, cost, expected_s, job_class,
    capability, risk, needs_review)
SELECT gen_random_uuid(), t.id, p.id, 'work', 'Work', 1, 1, '', '', 'low', false
FROM tenants_tenant t, scheduling_pool p WHERE t.slug LIKE 'many-%';
INSERT INTO billing_budget (id, tenant_id, scope, scope_id, dimension, "limit", "window", timezone, anchor)
SELECT gen_random_uuid(), id, 'tenant', id::text, 'attempts', 1000000000, 'none', 'UTC', 1
FROM tenants_tenant WHERE slug LIKE 'many-%';
"""
JOBS = """
INSERT INTO scheduling_job (id, tenant_id, workspace_id, workflow_id, pool_id, kind, job_class,
    risk, state, paused, cancel_requested, reason, outcome, fence, step, tries, max_attempts,
    idempotent, payload, model, region, labels, keys, tools, data_class, compute_class, estimate,
    needs_review, input_tokens, output_tokens, submitted_by, submitted_at, finished_at, phase,
    step_fence, parent_call, depth, preemptions, runs_model, places)
SELECT gen_random_uuid(), w.tenant_id, w.id, f.id, f.pool_id, 'simulated', 'normal', 'low',
    CASE WHEN {ended} THEN CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'done' END ELSE 'queued' END,
    false, false, 'in_order', 'unreviewed', {ended}::int, 0, 0, 3, true, '{{"seconds": 0}}', '', '',
    '{{}}', '{{}}', '{{}}', '', '', '{{}}', false, 0, 0, 'bench', now() - interval '1 hour',
    CASE WHEN {ended} THEN now() END, 'work', 0, '', 0, 0, '', '{{}}'
FROM generate_series(1, {count}) n
JOIN (SELECT w.*, row_number() OVER (ORDER BY w.id) AS place FROM tenants_workspace w
    JOIN tenants_tenant t ON t.id = w.tenant_id WHERE t.slug LIKE 'many-%') w
  ON w.place = 1 + floor({tenants} * power((n::int8 * 7919 % {count})::float8 / {count}, 1.5))
JOIN scheduling_workflow f ON f.tenant_id = w.tenant_id;
"""
HISTORY = """
INSERT INTO scheduling_attempt (id, job_id, fence, step, executor_id, state, cost, charge,
    job_class, turn, lifts, workspace_lifts, expected_s, lease_until, sent_at, sends, dispatched_at,
    started_at, ended_at, error_class, message, spend)
SELECT gen_random_uuid(), j.id, 1, 0, e.id, 'complete', 1, 1, 'normal', j.seq, 0, 0, 1, now(), now(),
    1, now() - interval '30 minutes', now() - interval '30 minutes', now(), '', '', 0
FROM scheduling_job j, scheduling_executor e WHERE j.state IN ('done', 'failed');
INSERT INTO scheduling_jobevent (job_id, tenant_id, attempt_id, event, reason, data)
SELECT a.job_id, j.tenant_id, a.id, told.event, 'in_order', '{}'
FROM scheduling_attempt a JOIN scheduling_job j ON j.id = a.job_id,
    (VALUES ('admitted'), ('placed'), ('finished')) told(event);
INSERT INTO scheduling_decision (job_id, verdict, reason, sentence, policy, control, alternatives, at)
SELECT id, 'admitted', 'in_order', 'Let in.', 1, 1, '[]', now() FROM scheduling_job;
INSERT INTO billing_reservation (id, tenant_id, workspace_id, job_id, spend, tokens, state,
    expires_at, closed_at)
SELECT gen_random_uuid(), tenant_id, workspace_id, id, 0, 0,
    CASE WHEN state = 'queued' THEN 'open' ELSE 'settled' END, now() + interval '1 day',
    CASE WHEN state <> 'queued' THEN now() END FROM scheduling_job;
INSERT INTO billing_balance (id, budget_id, window_start, held, spent)
SELECT gen_random_uuid(), id, '1970-01-01Z', 0, 0 FROM billing_budget ON CONFLICT DO NOTHING;
INSERT INTO billing_reservationline (id, reservation_id, budget_id, window_start, amount)
SELECT gen_random_uuid(), r.id, b.id, '1970-01-01Z', 1
FROM billing_reservation r JOIN billing_budget b ON b.tenant_id = r.tenant_id;
INSERT INTO billing_ledgerentry (id, dispatched_at, tenant_id, workspace_id, member_id, workflow_id,
    job_id, attempt_id, executor_id, provider, model, kind, meter, quantity, amount, rule_id,
    source_event, failure_class, flags)
SELECT gen_random_uuid(), a.dispatched_at, j.tenant_id, j.workspace_id, 'bench', j.workflow_id, j.id,
    a.id, a.executor_id, 'simulated', 'simulated', 'incurred', 'worker_seconds', 1, 0, r.id,
    'attempt', '', '[]'
FROM scheduling_attempt a JOIN scheduling_job j ON j.id = a.job_id,
    (SELECT id FROM billing_costrule LIMIT 1) r;
"""


def fill(url: str, asked: argparse.Namespace) -> float:
    """Fill a database that has the scene in it; returns the seconds that this took."""
    began, tenants = time.monotonic(), {"tenants": asked.tenants}
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(TENANTS.format(**tenants))
        session.execute(JOBS.format(ended="true", count=asked.ended, **tenants))
        session.execute(JOBS.format(ended="false", count=asked.waiting, **tenants))
        session.execute(HISTORY)
        session.execute("VACUUM ANALYZE")
    return time.monotonic() - began


def stages(system: Telemachus) -> dict[str, float]:
    """Return the milliseconds of each stage of a job's life when jobs go alone."""
    argv = [sys.executable, "-m", "bench.stages", "--set", "1", "--sets", str(SETS)]
    told = run(system, argv).split("\n\n", 1)[0].splitlines()[2:]
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in told)
    return {row[0]: float(row[1]) for row in rows}


def run(system: Telemachus, argv: list[str]) -> str:
    """Run a program in the system's surroundings; returns what it printed."""
    done = subprocess.run(argv, env=system.env, cwd=BASE_DIR, check=True, stdout=subprocess.PIPE)  # noqa: S603
    return done.stdout.decode()


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--ended", type=int, default=1_000_000)
    parser.add_argument("--tenants", type=int, default=1_000)
    asked = parser.parse_args()
    with places_open() as places:
        report(Telemachus(places), asked)


def report(system: Telemachus, asked: argparse.Namespace) -> None:
    """Print both tables."""
    say = sys.stdout.write
    system.prepare()
    system.renew()
    empty = stages(system)
    system.renew()
    say(f"filled in {fill(system.env['DATABASE_URL'], asked):.0f} s\n\n")
    full = stages(system)
    say("| one job's | empty, ms | full, ms | full : empty |\n|---|---:|---:|---:|\n")
    for stage, spent in empty.items():
        say(f"| {stage} | {spent:.1f} | {full[stage]:.1f} | {full[stage] / spent:.2f} |\n")
    told = json.loads(run(system, [sys.executable, "-m", "bench.size_reads"]))
    say("\n| read | status | ms | statements | reads whole |\n|---|---:|---:|---:|---|\n")
    for path, status, spent, statements, whole in told:
        say(f"| `{path}` | {status} | {spent:.0f} | {statements} | {', '.join(whole)} |\n")


if __name__ == "__main__":
    main()
