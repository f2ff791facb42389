"""Telemachus as its submitters use it: the service in this process, or the API over HTTP.

Jobs go to three tenants in turn, each with a ceiling on its attempts, so that every job reserves
and settles a budget. `BENCH_WEB` set to a running web's address takes HTTP for the sets.
"""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any

import django
import httpx

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")
django.setup()

# ruff: noqa: E402 (models can be imported only after django.setup)
from bench.client import Row
from billing.services.budgets import Ceiling, budget_set
from scheduling.controls.policies import policy_publish
from scheduling.controls.pools import ExecutorSettings, executor_put, pool_create
from scheduling.controls.workflows import WorkflowSettings, workflow_put
from scheduling.models import Pool
from scheduling.services.drafts import Rights, Submission
from scheduling.services.submission import Accepted, jobs_submit
from tenants.controls import tenant_weight
from tenants.keys import key_issue
from tenants.models import Workspace
from tenants.services import tenant_create, workspace_create

TENANTS = (("north", 2), ("south", 1), ("west", 1))
UNITS = SLOTS = 2048
"""More than the workers ever have before them: the peers have no such limit."""
EXPECTED_S = {"work": 0.01, "sleep": 0.1}
"""What the workflows say of their jobs; the governor learns the true seconds as they run."""
CEILING = Decimal(1_000_000_000)
KEYS = Path(os.environ["TELEMACHUS_HOME"]) / "life-keys.json"
BY = {"acting_user": "bench", "reason": "the scene of a benchmark"}


class Sender:
    """Submits through the service, as the API does."""

    def __init__(self) -> None:
        """Read the workspaces, which also opens the connection."""
        workspaces = Workspace.objects.select_related("tenant").order_by("id")
        self._turn = cycle(list(workspaces))

    def send(self, row: Row) -> None:
        """Submit one job."""
        self.send_many([row])

    def send_many(self, rows: Sequence[Row]) -> None:
        """Submit a set; a job that is not accepted ends the bench."""
        answers = jobs_submit(
            workspace=next(self._turn),
            submitted_by="bench",
            submissions=[_submission(row) for row in rows],
            rights=Rights(classes={"normal"}),
            now=datetime.now(UTC),
        )
        if not all(isinstance(one, Accepted) and one.job.state == "queued" for one in answers):
            message = f"not accepted: {next(one for one in answers)}"
            raise RuntimeError(message)

    def close(self) -> None:
        """Nothing to give back: the process ends."""


class WebSender:
    """Submits over HTTP, with one connection kept open."""

    def __init__(self) -> None:
        """Connect."""
        self._client = httpx.Client(base_url=os.environ["BENCH_WEB"], timeout=60)
        self._turn = cycle(json.loads(KEYS.read_text(encoding="utf-8")))
        self._client.get("/healthz")

    def send(self, row: Row) -> None:
        """Post one job."""
        self._post("/api/v1/jobs", _body(row), 201)

    def send_many(self, rows: Sequence[Row]) -> None:
        """Post a set."""
        self._post("/api/v1/jobs/bulk", {"jobs": [_body(row) for row in rows]}, 200)

    def _post(self, path: str, body: dict[str, Any], expected: int) -> None:
        headers = {"Authorization": f"Bearer {next(self._turn)}"}
        answer = self._client.post(path, json=body, headers=headers)
        if answer.status_code != expected:
            message = f"{path} answered {answer.status_code}: {answer.text[:300]}"
            raise RuntimeError(message)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _workflow(row: Row) -> str:
    return "sleep" if row[2] else "work"


def _submission(row: Row) -> Submission:
    return Submission(workflow=_workflow(row), kind="simulated", payload={"seconds": row[2]})


def _body(row: Row) -> dict[str, Any]:
    return {"workflow": _workflow(row), "kind": "simulated", "payload": {"seconds": row[2]}}


def connect() -> Sender | WebSender:
    """Return the client: over HTTP where a web's address is given."""
    return WebSender() if os.environ.get("BENCH_WEB") else Sender()


def prepare() -> None:
    """Make policy, pool, executor, tenants, ceilings and keys in a migrated database."""
    policy_publish(body={}, note="the defaults", acting_user="bench")
    pool = pool_create(slug="default", name="Default", budget=UNITS, reserve=0, **BY)
    settings = ExecutorSettings(
        kind="simulated", provider="simulated", job_kinds=["simulated"], slots=SLOTS
    )
    executor_put(slug="sim", pool=pool, settings=settings, **BY)
    keys = [_tenant(slug, weight, pool) for slug, weight in TENANTS]
    KEYS.touch(mode=0o600)
    KEYS.write_text(json.dumps(keys), encoding="utf-8")


def _tenant(slug: str, weight: int, pool: Pool) -> str:
    tenant = tenant_create(slug=slug, name=slug.title(), **BY)
    tenant_weight(tenant_id=tenant.id, weight=weight, **BY)
    for workflow, seconds in EXPECTED_S.items():
        settings = WorkflowSettings(pool=pool, expected_s=seconds)
        workflow_put(tenant=tenant, slug=workflow, settings=settings, **BY)
    ceiling = Ceiling(
        tenant_id=tenant.id, scope="tenant", scope_id=str(tenant.id), dimension="attempts"
    )
    budget_set(ceiling=ceiling, limit=CEILING, **BY)
    workspace = workspace_create(tenant=tenant, slug="main", name="Main", **BY)
    _, secret = key_issue(
        workspace=workspace,
        name="bench",
        role="submitter",
        acting_user="bench",
        reason="a benchmark",
    )
    return secret
