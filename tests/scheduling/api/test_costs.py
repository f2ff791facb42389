"""GET /costs: who may see what was spent, as JSON and CSV, in exact decimals (case C13)."""

import uuid
from decimal import Decimal

import pytest

from billing.models import CostRule, LedgerEntry
from scheduling.models import Workflow
from tenants.models import Workspace
from tests.scheduling.api.conftest import START, caller, person

pytestmark = pytest.mark.django_db

PERIOD = {"since": "2025-12-31T00:00:00Z", "until": "2026-02-01T00:00:00Z"}


def book(workspace: Workspace, amount: str) -> None:
    LedgerEntry.objects.create(
        dispatched_at=START, tenant=workspace.tenant, workspace=workspace, member_id="m",
        workflow_id=Workflow.objects.get(tenant=workspace.tenant).id, job_id=uuid.uuid4(),
        attempt_id=uuid.uuid4(), provider="simulated", model="m", kind="incurred", meter="input",
        quantity=1, amount=Decimal(amount), rule=CostRule.objects.get(),
    )  # fmt: skip


@pytest.fixture
def booked(world):
    for _ in range(10):
        book(world.web, "0.10")
    book(world.ops, "0.000001")
    book(world.main, "5")


def test_a_tenant_admin_sees_its_own_costs_exactly(booked, world, django_user_model):
    admin = person(django_user_model, "ann", "tenant_admin", world.acme)
    told = admin.get("/costs", **PERIOD).json()
    assert [(row["label"], row["total"]) for row in told["rows"]] == [("acme", "1.000001")]
    assert told["total"]["incurred"] == "1.000001"
    by_workflow = admin.get("/costs", by="workflow", **PERIOD).json()
    assert [(row["label"], row["jobs"]) for row in by_workflow["rows"]] == [("build", 11)]
    assert by_workflow["total"]["total"] == told["total"]["total"]


def test_an_operator_sees_all_tenants_or_one(booked, world, django_user_model):
    operator = person(django_user_model, "op", "operator", None)
    totals = {row["label"]: row["total"] for row in operator.get("/costs", **PERIOD).json()["rows"]}
    assert totals == {"acme": "1.000001", "other": "5"}
    one = operator.get("/costs", tenant="other", **PERIOD).json()
    assert [row["label"] for row in one["rows"]] == ["other"]


def test_a_billing_key_sees_its_workspace_alone(booked, world):
    key = caller(world.web, "billing_viewer")
    told = key.get("/costs", **PERIOD).json()
    assert (told["by"], [(row["label"], row["total"]) for row in told["rows"]]) == (
        "workspace",
        [("acme/web", "1")],
    )
    assert key.get("/costs", by="tenant", **PERIOD).status_code == 400
    assert key.get("/jobs").json()["results"] == []


@pytest.mark.parametrize("role", ["submitter", "viewer", "reviewer"])
def test_other_roles_may_not_see_costs(booked, world, role):
    assert caller(world.web, role).get("/costs", **PERIOD).status_code == 403


def test_a_foreign_tenant_is_404(booked, world, django_user_model):
    ann = person(django_user_model, "ann", "billing_viewer", world.acme)
    assert ann.get("/costs", tenant="other", **PERIOD).status_code == 404
    assert ann.get("/costs", tenant="nowhere", **PERIOD).status_code == 404


def test_the_csv_has_the_same_rows(booked, world, django_user_model):
    ann = person(django_user_model, "ann", "billing_viewer", world.acme)
    response = ann.get("/costs", format="csv", **PERIOD)
    lines = response.content.decode().splitlines()
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert "attachment" in response["Content-Disposition"]
    assert lines[0].startswith("key,label,jobs")
    assert len(lines) == 2
    assert ",acme,11," in lines[1]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"by": "colour"}, "by"),
        ({"format": "xml"}, "format"),
        ({"since": "yesterday"}, "since"),
        ({"until": "2026-01-01"}, "until"),
        ({"since": "2026-02-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "since"),
    ],
)
def test_a_bad_filter_is_400_by_name(world, django_user_model, query, field):
    ann = person(django_user_model, "ann", "billing_viewer", world.acme)
    response = ann.get("/costs", **query)
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == field
