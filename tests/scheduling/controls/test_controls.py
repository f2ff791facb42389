"""Levers: each one checks, changes and audits in one transaction."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from scheduling.controls.policies import policy_publish
from scheduling.controls.pools import pool_create, pool_dial
from scheduling.controls.workflows import WorkflowSettings, mission_create, workflow_put
from scheduling.core.policy.document import InvalidPolicy
from scheduling.models import Executor, Mission, PolicyVersion, Pool, Workflow
from scheduling.selectors.policy import active_policy
from tenants.controls import ControlRefused, control_number
from tenants.models import AuditEntry, Tenant
from tests.scheduling.factories import WHO, make_executor, make_policy, make_pool, make_price
from tests.scheduling.factories import make_workflow as put

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool(db: None) -> Pool:
    return make_pool()


@pytest.fixture
def tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme")


def refused(field: str, call: Callable[[], Any]) -> None:
    """Check that the lever refuses that field and leaves nothing behind."""
    before = AuditEntry.objects.count(), control_number()
    with pytest.raises(ControlRefused) as error:
        call()
    assert error.value.field == field
    assert (AuditEntry.objects.count(), control_number()) == before


def test_a_dial_is_audited_with_before_after_and_reason(pool: Pool) -> None:
    number = pool_dial(pool_id=pool.id, budget=4, reserve=1, **WHO)
    entry = AuditEntry.objects.get(number=number)
    assert (entry.actor, entry.action, entry.reason) == ("root", "pool_dial", "test")
    assert (entry.before, entry.after) == (
        {"budget": 10, "reserve": 0}, {"budget": 4, "reserve": 1},
    )  # fmt: skip
    assert control_number() == number


@pytest.mark.parametrize(
    ("field", "budget", "reserve"),
    [("budget", -1, 0), ("budget", 1_000_001, 0), ("reserve", 4, 5), ("reserve", 4, -1)],
)
def test_units_out_of_bounds_are_refused(pool: Pool, field: str, budget: int, reserve: int) -> None:
    refused(field, lambda: pool_dial(pool_id=pool.id, budget=budget, reserve=reserve, **WHO))
    refused(field, lambda: pool_create(slug="x", name="x", budget=budget, reserve=reserve, **WHO))


def test_a_change_needs_a_reason(pool: Pool) -> None:
    refused(
        "reason",
        lambda: pool_dial(pool_id=pool.id, budget=4, reserve=1, acting_user="root", reason=" "),
    )
    assert Pool.objects.get().budget == 10


def test_a_pools_slug_is_taken_once(pool: Pool) -> None:
    refused("slug", make_pool)


def test_an_unknown_pool_is_said_to_be_unknown(tenant: Tenant) -> None:
    with pytest.raises(Pool.DoesNotExist):
        pool_dial(pool_id=tenant.id, budget=4, reserve=1, **WHO)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("kind", {"kind": "nope"}),
        ("job_kinds", {"job_kinds": ["nope"]}),
        ("job_kinds", {"job_kinds": []}),
        ("slots", {"slots": 0}),
        ("slots", {"weight": 0}),
    ],
)
def test_a_wrong_executor_is_refused(pool: Pool, field: str, wrong: dict[str, Any]) -> None:
    refused(field, lambda: make_executor(pool, **wrong))
    assert not Executor.objects.exists()


def test_an_executor_whose_work_nothing_would_price_is_refused(pool: Pool) -> None:
    refused("provider", lambda: make_executor(pool, "x"))
    assert not Executor.objects.exists()


def test_an_executor_is_made_then_changed_then_left_alone(pool: Pool) -> None:
    make_price()
    make_executor(pool, "x", slots=2)
    number = control_number()
    make_executor(pool, "x", slots=3)
    assert control_number() == number + 1
    assert AuditEntry.objects.get(number=number + 1).before["slots"] == 2
    make_executor(pool, "x", slots=3)
    assert control_number() == number + 1
    assert Executor.objects.get().slots == 3


def test_an_executors_slug_belongs_to_one_pool(pool: Pool) -> None:
    make_price()
    make_executor(pool, "x")
    other = make_pool("other")
    refused("slug", lambda: make_executor(other, "x"))


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("cost", {"cost": 0}), ("cost", {"cost": 1_000_001}), ("expected_s", {"expected_s": 0.0}),
     ("expected_s", {"expected_s": -1.0}), ("expected_s", {"expected_s": float("nan")})],
)  # fmt: skip
def test_a_wrong_workflow_is_refused(
    pool: Pool, tenant: Tenant, field: str, wrong: dict[str, Any]
) -> None:
    settings = WorkflowSettings(pool=pool, **wrong)
    refused(field, lambda: workflow_put(tenant=tenant, slug="x", settings=settings, **WHO))
    assert not Workflow.objects.exists()


def test_a_workflow_is_made_then_changed_then_left_alone(pool: Pool, tenant: Tenant) -> None:
    put(tenant, pool, cost=2)
    number = control_number()
    put(tenant, pool, cost=3)
    put(tenant, pool, cost=3)
    assert control_number() == number + 1
    entry = AuditEntry.objects.get(number=number + 1)
    assert (entry.before["cost"], entry.after["cost"], entry.tenant) == (2, 3, tenant)


def test_a_missions_slug_is_taken_once_in_its_tenant(tenant: Tenant) -> None:
    other = Tenant.objects.create(slug="other", name="Other")
    mission_create(tenant=tenant, slug="m", name="M", **WHO)
    mission_create(tenant=other, slug="m", name="M", **WHO)
    refused("slug", lambda: mission_create(tenant=tenant, slug="m", name="M", **WHO))
    assert Mission.objects.count() == 2


def test_a_policy_is_numbered_and_one_is_active(db: None) -> None:
    first = make_policy(share_by="turns")
    second = make_policy(share_by="cost")
    assert second == first + 1
    assert active_policy().number == second
    states = dict(PolicyVersion.objects.values_list("number", "state"))
    assert [states[first], states[second]] == ["retired", "active"]
    assert AuditEntry.objects.latest("number").before == {"active": first}


def test_a_wrong_policy_names_every_field_and_changes_nothing(db: None) -> None:
    make_policy()
    before = list(PolicyVersion.objects.values())
    with pytest.raises(InvalidPolicy) as wrong:
        make_policy(share_by="luck", retry={"max_attempts": 0})
    assert {error.field for error in wrong.value.errors} == {"share_by", "retry.max_attempts"}
    assert list(PolicyVersion.objects.values()) == before


def test_a_policy_without_a_note_is_refused(db: None) -> None:
    refused("reason", lambda: policy_publish(body={}, note="", acting_user="root"))


@pytest.mark.django_db(transaction=True)
def test_policies_published_at_once_are_numbered_one_after_another() -> None:
    first = make_policy()
    barrier = threading.Barrier(4)

    def publish(_: int) -> int:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=10)
            return make_policy()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        numbers = sorted(threads.map(publish, range(4)))
    assert numbers == [first + n for n in range(1, 5)]
    assert PolicyVersion.objects.get(state="active").number == numbers[-1]
