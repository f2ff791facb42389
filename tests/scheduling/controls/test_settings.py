"""Levers on settings: bounds, the audit, and that a number given back undoes the change."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduling.controls.executors import executor_capacity, executor_drain, executor_enable
from scheduling.controls.pools import pool_dial
from scheduling.controls.workflows import workflow_cost, workflow_limit
from scheduling.models import Executor, Pool, Workflow
from tenants.controls import ControlRefused, control_number
from tenants.limits import tenant_limit, workspace_limit, workspace_weight
from tenants.models import AuditEntry, Tenant, Workspace
from tests.scheduling.factories import WHO, make_executor, make_pool, make_price, make_tenant

pytestmark = pytest.mark.django_db

Case = tuple[Callable[..., int], str, Any, str, Any]
CASES: dict[str, Case] = {
    "enable": (executor_enable, "executor_id", Executor, "enabled", False),
    "drain": (executor_drain, "executor_id", Executor, "draining", True),
    "capacity": (executor_capacity, "executor_id", Executor, "slots", 7),
    "cost": (workflow_cost, "workflow_id", Workflow, "cost", 5),
    "workflow": (workflow_limit, "workflow_id", Workflow, "max_running", 2),
    "tenant": (tenant_limit, "tenant_id", Tenant, "max_running", 2),
    "workspace": (workspace_limit, "workspace_id", Workspace, "max_running", 2),
    "weight": (workspace_weight, "workspace_id", Workspace, "weight", 3),
}


@pytest.fixture
def acme(db: None) -> Workspace:
    make_price()
    pool = make_pool()
    make_executor(pool)
    return make_tenant("acme", pool)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_setting_changes_is_audited_and_is_undone(acme: Workspace, case: Case) -> None:
    lever, key, model, column, value = case
    row = model.objects.get()
    before = getattr(row, column)
    number = lever(**{key: row.id, column: value}, **WHO)
    entry = AuditEntry.objects.get(number=number)
    assert getattr(model.objects.get(), column) == value
    assert (entry.before, entry.after) == ({column: before}, {column: value})
    assert (entry.actor, entry.reason, entry.target_id) == ("root", "test", str(row.id))
    assert entry.tenant == (None if model is Executor else acme.tenant)
    lever(**{key: row.id, column: before}, **WHO)
    assert getattr(model.objects.get(), column) == before
    assert control_number() == number + 1


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("capacity", 0), ("capacity", 100_001), ("cost", 0), ("cost", 1_000_001), ("workflow", 0),
     ("workflow", 1_000_001), ("tenant", 0), ("workspace", -1), ("weight", 0), ("weight", 1001)],
)  # fmt: skip
def test_a_value_out_of_bounds_is_refused_with_the_bounds(
    acme: Workspace, name: str, wrong: int
) -> None:
    lever, key, model, column, _ = CASES[name]
    row, before = model.objects.get(), control_number()
    with pytest.raises(ControlRefused, match=rf"1 to \d+.*not {wrong}") as refused:
        lever(**{key: row.id, column: wrong}, **WHO)
    assert (refused.value.field, control_number()) == (column, before)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_thing_that_is_not_there_is_said_to_be_unknown(acme: Workspace, case: Case) -> None:
    lever, key, model, column, value = case
    with pytest.raises(model.DoesNotExist):
        lever(**{key: Pool.objects.get().id, column: value}, **WHO)


def test_the_dial_leaves_alone_what_is_not_named(acme: Workspace) -> None:
    pool = Pool.objects.get()
    pool_dial(pool_id=pool.id, reserve=3, **WHO)
    pool_dial(pool_id=pool.id, budget=5, **WHO)
    assert Pool.objects.values_list("budget", "reserve").get() == (5, 3)
    with pytest.raises(ControlRefused, match="0 to the budget") as refused:
        pool_dial(pool_id=pool.id, budget=2, **WHO)
    assert refused.value.field == "reserve"
