"""The scene of the boards' benchmark, and its levers, in a process with Django of its own.

    python -m bench.board_scene make JOBS TENANTS     prints the keys of the boards' sessions
    python -m bench.board_scene levers                reads UNITS a line, prints when it committed

Tenants have unequal backlogs. Jobs are stored in sets as the service stores them; they arrived over
the last twenty minutes, so that none ages while the bench runs. The governor loads them when it
starts, as one does that takes over from another.
"""

import json
import os
import sys
import time
from collections import defaultdict
from datetime import datetime, timedelta
from uuid import UUID

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")
django.setup()

# ruff: noqa: E402 (models can be imported only after django.setup)
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection
from django.utils import timezone

from scheduling.controls.policies import policy_publish
from scheduling.controls.pools import ExecutorSettings, executor_put, pool_create, pool_dial
from scheduling.models import Job, Pool, Workflow
from scheduling.services.rows import row_new, table_of
from tenants.models import Membership, Tenant, Workspace

UNITS, SLOTS = 64, 64
JOB_S = 1.0
WORKFLOWS = (("triage", 1), ("summarise", 2), ("review", 4))
OPERATORS, VIEWERS, SEEN = 3, 2, 3
BY = {"acting_user": "bench", "reason": "the scene of a benchmark"}
ROWS, WAITED = 5_000, timedelta(minutes=20)


def make(jobs: int, tenants: int) -> dict[str, list[str]]:
    """Make everything in a migrated database; returns the keys of signed-in sessions."""
    policy_publish(body={}, note="the defaults", acting_user="bench")
    pool = pool_create(slug="default", name="Default", budget=UNITS, reserve=0, **BY)
    settings = ExecutorSettings(
        kind="simulated", provider="simulated", job_kinds=["simulated"], slots=SLOTS
    )
    executor_put(slug="sim", pool=pool, settings=settings, **BY)
    _tenants(tenants, pool)
    _jobs(jobs, timezone.now())
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


def _jobs(count: int, now: datetime) -> None:
    """Store waiting jobs of tenants of heavy-tailed sizes, as the service stores them."""
    workspaces = list(Workspace.objects.order_by("tenant__slug"))
    flows: dict[UUID, list[Workflow]] = defaultdict(list)
    for flow in Workflow.objects.order_by("slug"):
        flows[flow.tenant_id].append(flow)
    table = table_of(Job, "submitted_at")
    with connection.cursor() as cursor:
        for start in range(0, count, ROWS):
            rows = []
            for n in range(start, min(start + ROWS, count)):
                place = int(len(workspaces) * (n * 7919 % count / count) ** 1.5)
                at = now - WAITED * (1 - n / count)
                space = workspaces[place]
                rows.append(_job(space, flows[space.tenant_id][n % len(WORKFLOWS)], n, at))
            cursor.execute(table.insert, table.literals(rows))
        cursor.execute("ANALYZE scheduling_job")


def _job(space: Workspace, flow: Workflow, number: int, submitted_at: datetime) -> Job:
    return row_new(
        Job,
        tenant_id=space.tenant_id,
        workspace_id=space.id,
        workflow_id=flow.id,
        pool_id=flow.pool_id,
        kind="simulated",
        job_class="batch" if number % 5 == 0 else "normal",
        state="queued",
        reason="in_order",
        max_attempts=3,
        payload={"seconds": JOB_S},
        input_tokens=0,
        output_tokens=0,
        submitted_by="bench",
        submitted_at=submitted_at,
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
