"""The scene of the boards' benchmark, and its levers, in a process with Django of its own.

    python -m bench.board_scene make JOBS TENANTS     prints the keys of the boards' sessions
    python -m bench.board_scene levers                reads UNITS a line, prints when it committed

Tenants have unequal backlogs. Jobs are inserted by one statement with the columns that the service
writes; they arrived over the last twenty minutes, so that none ages while the bench runs. The governor
loads them when it starts, as one does that takes over from another.
"""

import json
import os
import sys
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")
django.setup()

# ruff: noqa: E402 (models can be imported only after django.setup)
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection

from scheduling.controls.policies import policy_publish
from scheduling.controls.pools import ExecutorSettings, executor_put, pool_create, pool_dial
from scheduling.models import Pool, Workflow
from tenants.models import Membership, Tenant, Workspace

UNITS, SLOTS = 64, 64
JOB_S = 1.0
WORKFLOWS = (("triage", 1), ("summarise", 2), ("review", 4))
OPERATORS, VIEWERS, SEEN = 3, 2, 3
BY = {"acting_user": "bench", "reason": "the scene of a benchmark"}
JOBS = """
INSERT INTO scheduling_job (
  id, seq, tenant_id, workspace_id, workflow_id, pool_id, kind, job_class, risk, state, paused,
  cancel_requested, reason, outcome, fence, step, tries, max_attempts, idempotent, payload,
  model, region, labels, keys, tools, data_class, compute_class, estimate, needs_review,
  input_tokens, output_tokens, submitted_by, submitted_at
)
SELECT gen_random_uuid(), nextval('scheduling_job_arrival'), t.id, w.id, f.id, f.pool_id,
  'simulated', CASE WHEN n %% 5 = 0 THEN 'batch' ELSE 'normal' END, 'low', 'queued', false,
  false, 'in_order', 'unreviewed', 0, 0, 0, 3, true, jsonb_build_object('seconds', %(seconds)s),
  '', '', '{}', '{}', '{}', '', '', '{}', false, 0, 0, 'bench', now() - interval '20 minutes' * (1 - n::float8 / %(jobs)s)
FROM generate_series(1, %(jobs)s) n
JOIN (SELECT id, row_number() OVER (ORDER BY slug) AS place FROM tenants_tenant) t
  ON t.place = 1 + floor(%(tenants)s * power((n::int8 * 7919 %% %(jobs)s)::float8 / %(jobs)s, 1.5))
JOIN tenants_workspace w ON w.tenant_id = t.id
JOIN (SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY slug) AS kind
      FROM scheduling_workflow) f ON f.tenant_id = t.id AND f.kind = 1 + n %% %(workflows)s
ORDER BY n
"""


def make(jobs: int, tenants: int) -> dict[str, list[str]]:
    """Make everything in a migrated database; returns the keys of signed-in sessions."""
    policy_publish(body={}, note="the defaults", acting_user="bench")
    pool = pool_create(slug="default", name="Default", budget=UNITS, reserve=0, **BY)
    settings = ExecutorSettings(
        kind="simulated", provider="simulated", job_kinds=["simulated"], slots=SLOTS
    )
    executor_put(slug="sim", pool=pool, settings=settings, **BY)
    _tenants(tenants, pool)
    values = {"jobs": jobs, "tenants": tenants, "seconds": JOB_S, "workflows": len(WORKFLOWS)}
    with connection.cursor() as cursor:
        cursor.execute(JOBS, values)
        cursor.execute("ANALYZE scheduling_job")
    return _people()


def _tenants(count: int, pool: Pool) -> None:
    rows = [
        Tenant(slug=f"tenant-{n:04d}", name=f"Tenant {n:04d}", weight=1 + n % 3)
        for n in range(count)
    ]
    Tenant.objects.bulk_create(rows)
    Workspace.objects.bulk_create(Workspace(tenant=row, slug="main", name="Main") for row in rows)
    Workflow.objects.bulk_create(
        Workflow(tenant=row, pool=pool, slug=slug, name=slug, cost=cost, expected_s=JOB_S)
        for row in rows
        for slug, cost in WORKFLOWS
    )


def _people() -> dict[str, list[str]]:
    """Operators see all; each viewer sees the first few tenants."""
    make_user = get_user_model().objects.create_user
    operators, viewers = [], []
    for number in range(OPERATORS):
        user = make_user(f"operator-{number}")
        Membership.objects.create(user=user, role="operator")
        operators.append(_session(user.pk, user.get_session_auth_hash()))
    for number in range(VIEWERS):
        user = make_user(f"viewer-{number}")
        for tenant in Tenant.objects.order_by("slug")[number * SEEN : (number + 1) * SEEN]:
            Membership.objects.create(user=user, tenant=tenant, role="viewer")
        viewers.append(_session(user.pk, user.get_session_auth_hash()))
    return {"operators": operators, "viewers": viewers}


def _session(user_id: int, password_hash: str) -> str:
    store = SessionStore()
    store[SESSION_KEY] = str(user_id)
    store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = password_hash
    store.save()
    return str(store.session_key)


def levers() -> None:
    """Dial the pool to the units of each line; answer with the time at which that had committed."""
    pool = Pool.objects.get(slug="default")
    for line in sys.stdin:
        pool_dial(pool_id=pool.id, budget=int(line), reserve=0, **BY)
        sys.stdout.write(f"{time.time()}\n")
        sys.stdout.flush()


def main() -> None:
    """Do what the command line says."""
    if sys.argv[1] == "levers":
        levers()
        return
    sys.stdout.write(json.dumps(make(int(sys.argv[2]), int(sys.argv[3]))))


if __name__ == "__main__":
    main()
