"""A process that has submitted before sees every lever that was committed since, and no other."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from scheduling.controls.pools import pool_dial
from scheduling.controls.workflows import mission_create
from scheduling.models import Executor, Mission
from scheduling.services.drafts import Refused
from tenants.controls import control_number, tenant_weight
from tenants.models import Workspace
from tests.scheduling.factories import (
    WHO,
    accepted,
    asked,
    make_budget,
    make_executor,
    make_policy,
    make_workflow,
    submit,
    submit_all,
)

pytestmark = pytest.mark.django_db(transaction=True)


def elsewhere(lever: Callable[[], object]) -> None:
    """Pull a lever on a connection of its own."""

    def run() -> None:
        try:
            lever()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(run).result()


def verdict(space: Workspace, **more: Any) -> tuple[str, str]:
    decision = accepted(space, **more).decision
    assert decision.control == control_number()
    return decision.verdict, decision.reason


def hold(space: Workspace) -> None:
    tenant_weight(tenant_id=space.tenant_id, weight=0, **WHO)


def shrink(space: Workspace) -> None:
    pool = Executor.objects.get().pool
    pool_dial(pool_id=pool.id, budget=2, reserve=0, **WHO)


def move_executor(space: Workspace) -> None:
    make_executor(Executor.objects.get().pool, region="eu")


LEVERS: dict[str, tuple[Callable[[Workspace], object], tuple[str, str]]] = {
    "weight": (hold, ("queued", "tenant_held")),
    "pool": (shrink, ("denied", "never_fits")),
    "executor": (move_executor, ("denied", "no_executor")),
    "policy": (lambda _: make_policy(backlog={"workspace": 1}), ("denied", "backlog_full")),
    "budget": (lambda space: make_budget(space, "1"), ("deferred", "budget")),
    "workflow": (
        lambda space: make_workflow(space.tenant, Executor.objects.get().pool, cost=50),
        ("denied", "never_fits"),
    ),
}


@pytest.mark.parametrize("name", LEVERS)
def test_a_lever_pulled_elsewhere_is_seen_by_the_next_submission(
    acme: Workspace, name: str
) -> None:
    make_budget(acme, "5")
    cost = None if name == "workflow" else 3
    region = "us" if name == "executor" else ""
    lever, expected = LEVERS[name]
    assert verdict(acme, cost=cost) == ("queued", "in_order")
    elsewhere(lambda: lever(acme))
    assert verdict(acme, cost=cost, region=region) == expected


def test_a_mission_made_elsewhere_is_known_to_the_next_submission(acme: Workspace) -> None:
    wanted = asked(mission="launch")
    assert isinstance(submit_all(acme, [wanted])[0], Refused)
    elsewhere(lambda: mission_create(tenant=acme.tenant, slug="launch", name="Launch", **WHO))
    assert accepted(acme, mission="launch").job.mission == Mission.objects.get()


def test_what_a_lever_showed_before_it_was_rolled_back_is_forgotten(acme: Workspace) -> None:
    submit(acme)
    with transaction.atomic():
        hold(acme)
        taken_back = control_number()
        assert verdict(acme) == ("queued", "tenant_held")
        transaction.set_rollback(True)
    make_budget(acme, "5")  # takes the number that was given back
    assert control_number() == taken_back
    assert verdict(acme) == ("queued", "in_order")


@pytest.mark.parametrize("count", [1, 500])
def test_a_set_costs_three_statements_whatever_its_size(
    acme: Workspace, django_assert_num_queries: Any, count: int
) -> None:
    make_budget(acme, "5000")
    submit(acme)
    # the clock with the backlog, the lock on the budgets, the rows; and BEGIN and COMMIT
    with django_assert_num_queries(5):
        submit(acme, count)
