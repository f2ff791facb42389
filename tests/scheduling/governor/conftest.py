"""A pool with an executor and a worker, and a leader to drive."""

from collections.abc import Iterator
from typing import Any

import pytest

from scheduling.events import valkey_client
from scheduling.models import Pool
from tests.scheduling.factories import (
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_worker,
)
from tests.scheduling.governor.desk import Desk


@pytest.fixture
def pool(transactional_db: None) -> Pool:
    """Make the pool; what the leader takes up are other transactions' changes, so none is rolled back."""
    valkey_client().flushdb()
    make_policy()
    make_price(output="1")
    pool = make_pool()
    make_executor(pool)
    return pool


@pytest.fixture
def desk(pool: Pool, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Desk]:
    settings.GOVERNOR_LEASE_S = 60.0  # a slow machine must not end the leadership
    desk = Desk(monkeypatch, make_worker())
    yield desk
    desk.stop()
