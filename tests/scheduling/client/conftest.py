"""A pool with a model executor that takes calls and no worker, and a governor in a thread."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections

from scheduling.client.scheduler import Scheduler
from scheduling.events import valkey_client
from scheduling.governor import lease
from scheduling.governor.loop import Leader, Nudges
from scheduling.models import Executor, Pool
from scheduling.tasks.process import leave
from tenants.models import Workspace
from tests.scheduling.factories import (
    make_executor,
    make_policy,
    make_pool,
    make_price,
    make_tenant,
)

ENDPOINT = "http://model.example.org/v1"


@pytest.fixture
def pool(transactional_db: None) -> Iterator[Pool]:
    valkey_client().flushdb()
    make_policy()
    make_price("acme-models", output="1", input="0.5")
    yield make_pool()
    leave()


@pytest.fixture
def executor(pool: Pool) -> Executor:
    """Two slots of an executor whose kind no worker serves."""
    return make_executor(
        pool, "gpu", slots=2, kind="local-model", provider="acme-models",
        job_kinds=["call", "chat"], models_offered=["small"], endpoint=ENDPOINT,
    )  # fmt: skip


@pytest.fixture
def acme(executor: Executor) -> Workspace:
    return make_tenant("acme", executor.pool)


@pytest.fixture
def scheduler(acme: Workspace) -> Scheduler:
    return Scheduler.of("acme", "main", name="lib")


@pytest.fixture
def governor(acme: Workspace, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[None]:
    """A leader that turns in a thread of its own until the test is over."""
    settings.GOVERNOR_LEASE_S = 60.0
    monkeypatch.setattr(Leader, "_control_task", lambda _self, _name: None)
    over, began = threading.Event(), threading.Event()
    faults: list[BaseException] = []
    thread = threading.Thread(target=watched(lambda: lead(over, began), faults))
    thread.start()
    assert began.wait(10), faults
    yield
    over.set()
    thread.join(10)
    assert not faults


def watched(act: Callable[[], None], faults: list[BaseException]) -> Callable[[], None]:
    def run() -> None:
        try:
            act()
        except BaseException as fault:  # noqa: BLE001 (told by the fixture)
            faults.append(fault)
        finally:
            connections.close_all()

    return run


def lead(over: threading.Event, began: threading.Event) -> None:
    epoch = lease.take("test")
    assert epoch is not None
    leader, nudges = Leader(epoch), Nudges()
    try:
        while not over.is_set():
            began.set()
            if not leader.turn():
                nudges.wait(min(0.1, leader.wait_s()))
        leader.close()
    finally:
        leader.publisher.close()
