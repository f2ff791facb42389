"""A scene for a storm: five tenants that share one model server; prints the keys as JSON.

python -m tests.e2e.seed_storm ENDPOINT SLOTS RETRY_FLOOR COOLDOWN_SECONDS
"""

import json
import os
import sys
from datetime import UTC, datetime
from decimal import Decimal

import django
from django.utils.module_loading import import_string as found

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")
BY = {"acting_user": "test", "reason": "a test's scene"}


def main(endpoint: str, slots: int, floor: int, cooldown_s: float) -> dict[str, str]:
    body = {
        "retry": {
            "max_attempts": 100, "base_s": 0.5, "cap_s": 2, "budget_floor": floor,
            "budget_ratio": 0.2,
        },
        "breaker": {"threshold": 5, "cooldown_s": cooldown_s},
    }  # fmt: skip
    found("scheduling.controls.policies.policy_publish")(
        body=body, note="storm", acting_user="test"
    )
    rate = found("billing.core.pricing.Rate")(meter="output", amount=Decimal(0))
    found("billing.services.prices.cost_rule_publish")(
        offer=("stormy", "m"), starts_at=datetime(2020, 1, 1, tzinfo=UTC), rates=[rate], **BY
    )
    pool = found("scheduling.controls.pools.pool_create")(
        slug="default", name="Default", budget=100, reserve=0, **BY
    )
    settings = found("scheduling.controls.pools.ExecutorSettings")(
        kind="local-model", provider="stormy", job_kinds=["chat"], slots=slots,
        models_offered=["m"], endpoint=endpoint,
    )  # fmt: skip
    found("scheduling.controls.pools.executor_put")(slug="m", pool=pool, settings=settings, **BY)
    return {slug: tenant(slug, pool) for slug in ("one", "two", "three", "four", "five")}


def tenant(slug: str, pool: object) -> str:
    row = found("tenants.services.tenant_create")(slug=slug, name=slug, **BY)
    workspace = found("tenants.services.workspace_create")(
        tenant=row, slug="main", name="Main", **BY
    )
    settings = found("scheduling.controls.workflows.WorkflowSettings")(pool=pool, expected_s=0.2)
    found("scheduling.controls.workflows.workflow_put")(
        tenant=row, slug="work", settings=settings, **BY
    )
    _, key = found("tenants.keys.key_issue")(
        workspace=workspace, name="test", role="submitter", **BY
    )
    return str(key)


if __name__ == "__main__":
    django.setup()
    endpoint, slots, floor, cooldown_s = sys.argv[1:]
    sys.stdout.write(json.dumps(main(endpoint, int(slots), int(floor), float(cooldown_s))))
