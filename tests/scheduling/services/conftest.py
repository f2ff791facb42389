"""A pool of ten units with an executor, a price of 1 USD a million output tokens, and a tenant."""

import pytest

from scheduling.events import valkey_client
from scheduling.models import Executor, Pool
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
def pool(db: None) -> Pool:
    valkey_client().flushdb()
    make_policy(retry={"max_attempts": 3, "base_s": 1, "cap_s": 1})
    make_price(input="0", output="1", worker_seconds="0")
    return make_pool()


@pytest.fixture
def executor(pool: Pool) -> Executor:
    return make_executor(pool)


@pytest.fixture
def acme(executor: Executor) -> Workspace:
    return make_tenant("acme", executor.pool)


@pytest.fixture
def worker(db: None) -> int:
    return make_worker()
