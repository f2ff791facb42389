"""Jobs, and a worker process of this very process, with threads of its own."""

from collections.abc import Iterator

import pytest

from scheduling.models import Executor, Worker
from scheduling.tasks.process import Process, leave, present
from tenants.models import Workspace
from tests.scheduling.factories import (
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_tenant,
)


@pytest.fixture
def executor(transactional_db: None) -> Executor:
    make_policy(retry={"base_s": 1, "cap_s": 1})
    make_price(input="0", output="1")
    return make_executor(make_pool())


@pytest.fixture
def acme(executor: Executor) -> Workspace:
    return make_tenant("acme", executor.pool)


@pytest.fixture
def process(executor: Executor) -> Iterator[Process]:
    """This process, registered and beating; it has left when the test is over."""
    leave()
    process = present(threads=4, queues=["simulated"])
    assert Worker.objects.filter(id=process.worker_id).exists()
    yield process
    leave()
