"""A scene for a running system, made in a process of its own; prints the keys as JSON.

python -m tests.e2e.seed POOL_BUDGET SHARE_BY [MORE OF THE POLICY AS JSON]
"""

import json
import os
import sys

import django
from django.utils.module_loading import import_string as found

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")

OPERATOR, PASSWORD = "olga", "only-in-tests"


def main(budget: int, share_by: str, policy: str = "{}") -> dict[str, str]:
    by = {"acting_user": "test", "reason": "a test's scene"}
    found("scheduling.controls.policies.policy_publish")(
        body={"share_by": share_by, **json.loads(policy)},
        note="a test's policy",
        acting_user="test",
    )
    pool = found("scheduling.controls.pools.pool_create")(
        slug="default", name="Default", budget=budget, reserve=0, **by
    )
    settings = found("scheduling.controls.pools.ExecutorSettings")(
        kind="simulated", provider="simulated", job_kinds=["simulated"], slots=64
    )
    put = found("scheduling.controls.pools.executor_put")
    put(slug="sim", pool=pool, settings=settings, **by)
    people = found("django.contrib.auth.get_user_model")().objects
    olga = people.create_user(OPERATOR, password=PASSWORD)
    found("tenants.models.Membership").objects.create(user=olga, role="operator")
    keys: dict[str, str] = {}
    for slug, weight in (("one", 2), ("two", 1), ("three", 1), ("four", 1)):
        tenant = found("tenants.services.tenant_create")(slug=slug, name=slug, **by)
        found("tenants.controls.tenant_weight")(tenant_id=tenant.id, weight=weight, **by)
        workspace = found("tenants.services.workspace_create")(
            tenant=tenant, slug="main", name="Main", **by
        )
        plain = found("scheduling.controls.workflows.WorkflowSettings")(
            pool=pool, cost=1, expected_s=0.2
        )
        found("scheduling.controls.workflows.workflow_put")(
            tenant=tenant, slug="work", settings=plain, **by
        )
        _, keys[slug] = found("tenants.keys.key_issue")(
            workspace=workspace, name="test", role="submitter", **by
        )
    return keys


if __name__ == "__main__":
    django.setup()
    sys.stdout.write(json.dumps(main(int(sys.argv[1]), *sys.argv[2:])))
