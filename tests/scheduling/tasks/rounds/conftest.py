"""A tenant with a model's executor, and a worker by hand."""

from typing import Any

import pytest

from tenants.models import Workspace
from tests.scheduling.factories import (
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_tenant,
    make_worker,
)


@pytest.fixture
def acme(django_user_model: Any) -> Workspace:
    make_policy(retry={"base_s": 1, "cap_s": 1})
    make_price(input="0", output="1")
    make_price("house", "small", input="1", output="2")
    pool = make_pool()
    make_executor(pool)
    make_executor(
        pool, "model", kind="local-model", provider="house", job_kinds=["flow", "chat"],
        models_offered=["small"], endpoint="http://127.0.0.1:1/v1",
    )  # fmt: skip
    django_user_model.objects.create_superuser("ann", password=None)
    return make_tenant("acme", pool)


@pytest.fixture
def worker(acme: Workspace) -> int:
    return make_worker()
