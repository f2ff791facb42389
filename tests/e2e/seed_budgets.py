"""Budgets and prices on top of the scene of `tests.e2e.seed`, made in a process of its own.

python -m tests.e2e.seed_budgets RACES

Output tokens cost a dollar a million. Each tenant gets budgets of several dimensions and windows
that never run out; tenant `one` gets RACES workflows, each with a budget of 10 of which 7 are spent.
"""

import os
import sys
import uuid
from datetime import UTC, datetime
from decimal import Decimal

import django
from django.utils.module_loading import import_string as found

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")
BY = {"acting_user": "test", "reason": "a test's scene"}


def main(races: int) -> None:
    rate = found("billing.core.pricing.Rate")(meter="output", amount=Decimal(1))
    now = datetime.now(UTC)
    found("billing.services.prices.cost_rule_publish")(
        offer=("simulated", "*"), starts_at=now, rates=[rate], **BY
    )
    for tenant in found("tenants.models.Tenant").objects.all():
        for dimension, window in (("spend", "none"), ("attempts", "day"), ("wall_seconds", "hour")):
            put(tenant.id, ("tenant", str(tenant.id)), (dimension, window), "1000000")
    for number in range(races):
        race(f"race-{number}", now)


def put(tenant: uuid.UUID, scope: tuple[str, str], what: tuple[str, str], limit: str) -> None:
    ceiling = found("billing.services.budgets.Ceiling")(
        tenant_id=tenant, scope=scope[0], scope_id=scope[1], dimension=what[0], window=what[1]
    )
    found("billing.services.budgets.budget_set")(ceiling=ceiling, limit=Decimal(limit), **BY)


def race(slug: str, now: datetime) -> None:
    workspace = found("tenants.models.Workspace").objects.get(tenant__slug="one")
    pool = found("scheduling.models.Pool").objects.get()
    settings = found("scheduling.controls.workflows.WorkflowSettings")(pool=pool, expected_s=0.1)
    workflow = found("scheduling.controls.workflows.workflow_put")(
        tenant=workspace.tenant, slug=slug, settings=settings, **BY
    )
    put(workspace.tenant_id, ("workflow", str(workflow.id)), ("spend", "none"), "10")
    used = found("billing.services.usage.Settlement")(
        attempt_id=uuid.uuid4(), job_id=uuid.uuid4(), tenant_id=workspace.tenant_id,
        workspace_id=workspace.id, workflow_id=workflow.id, mission_id=None, executor_id=None,
        provider="simulated", model="m", dispatched_at=now, final=True,
        usage=found("billing.core.pricing.Usage")(output_total=7_000_000),
        chain=(("tenant", str(workspace.tenant_id)), ("workflow", str(workflow.id))),
    )  # fmt: skip
    with found("django.db.transaction.atomic")():
        booked = found("billing.services.settlement.book")(settlements=[used])
        found("billing.services.settlement.balances_follow")(booked)


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]))
