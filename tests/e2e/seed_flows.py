"""A model's executor and a cap on top of the scene of `tests.e2e.seed`, made in a process of its own.

python -m tests.e2e.seed_flows ADDRESS

The workspace of tenant `two` may run one job at a time.
"""

import os
import sys

import django
from django.utils.module_loading import import_string as found

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")
BY = {"acting_user": "test", "reason": "a test's scene"}


def main(address: str) -> None:
    settings = found("scheduling.controls.pools.ExecutorSettings")(
        kind="local-model", provider="local", job_kinds=["flow", "chat"], slots=4,
        endpoint=address, models_offered=["scripted"],
    )  # fmt: skip
    pool = found("scheduling.models.Pool").objects.get()
    found("scheduling.controls.pools.executor_put")(
        slug="scripted", pool=pool, settings=settings, **BY
    )
    space = found("tenants.models.Workspace").objects.get(tenant__slug="two")
    found("tenants.limits.workspace_limit")(workspace_id=space.id, max_running=1, **BY)


if __name__ == "__main__":
    django.setup()
    main(sys.argv[1])
