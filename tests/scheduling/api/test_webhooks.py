"""Webhooks and alerts over the API: who sees them, secrets told once, nothing of other tenants."""

import uuid
from decimal import Decimal
from typing import Any

import pytest

from billing.core.pricing import Usage
from billing.models import WebhookDelivery, WebhookEndpoint
from billing.services.budgets import Ceiling, budget_set
from billing.services.usage import Settlement
from billing.services.webhooks import secret_of
from scheduling.models import IdempotencyRecord
from tenants.models import Workspace
from tests.billing.conftest import settle
from tests.scheduling.api.conftest import START, Caller, World, caller, person

pytestmark = pytest.mark.django_db
URL = "https://example.org/hooks"


@pytest.fixture
def admin(world: World, django_user_model: Any) -> Caller:
    return person(django_user_model, "ann", "tenant_admin", world.acme)


@pytest.fixture
def far(world: World, django_user_model: Any) -> Caller:
    return person(django_user_model, "far", "tenant_admin", world.other)


def add(who: Caller, **body: Any) -> Any:
    return who.post("/webhooks", {"tenant": "acme", "url": URL, "reason": "r"} | body)


def spend_half(workspace: Workspace, window: str = "none") -> None:
    """Spend 5 of a tenant's 10 dollars."""
    tenant, job_id, workflow = workspace.tenant, uuid.uuid4(), uuid.uuid4()
    ceiling = Ceiling(
        tenant_id=tenant.id, scope="tenant", scope_id=str(tenant.id), dimension="spend",
        window=window,
    )  # fmt: skip
    budget_set(ceiling=ceiling, limit=Decimal(10), acting_user="t", reason="t")
    used = Settlement(
        attempt_id=uuid.uuid4(), job_id=job_id, tenant_id=tenant.id, workspace_id=workspace.id,
        workflow_id=workflow, mission_id=None, executor_id=None, provider="simulated", model="m",
        dispatched_at=START, usage=Usage(input_total=5_000_000), final=True,
        chain=(("tenant", str(tenant.id)), ("workflow", str(workflow)), ("job", str(job_id))),
    )  # fmt: skip
    settle(settlements=[used])


def test_an_endpoint_is_added_and_its_secret_told_once(admin):
    answer = add(admin, reason="alerts")
    assert answer.status_code == 201, answer.content
    told = answer.json()
    assert told["secret"] == secret_of(WebhookEndpoint.objects.get())
    listed = admin.get("/webhooks")
    assert [one["url"] for one in listed.json()] == [URL]
    assert told["secret"] not in listed.content.decode()
    assert not IdempotencyRecord.objects.exists()


def test_a_rotated_secret_is_another_one(admin):
    made = add(admin).json()
    turned = admin.post(f"/webhooks/{made['webhook']['id']}/rotate", {"reason": "leaked"})
    assert turned.status_code == 200, turned.content
    assert turned.json()["secret"] != made["secret"]


@pytest.mark.parametrize(
    "body", [{"url": "http://example.org/"}, {"url": "https://127.0.0.1/"}, {"url": 7}]
)
def test_a_bad_address_is_refused_by_field(admin, body):
    answer = add(admin, **body)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == ["url"]


def test_only_who_manages_the_tenant_has_webhooks(world, admin, far, web):
    made = add(admin).json()["webhook"]["id"]
    assert web.get("/webhooks").json() == far.get("/webhooks").json() == []
    assert add(far).status_code == 404
    assert add(web).status_code == 403
    for who in (far, web):
        for end in ("rotate", "remove"):
            assert who.post(f"/webhooks/{made}/{end}", {"reason": "r"}).status_code == 404
        assert who.get(f"/webhooks/{made}/deliveries").status_code == 404
    assert WebhookEndpoint.objects.get().generation == 1


def test_deliveries_are_shown_until_the_endpoint_is_removed(world, admin):
    made = add(admin).json()["webhook"]["id"]
    spend_half(world.web)
    WebhookDelivery.objects.update(answer="HTTP 500", tries=3)
    (shown,) = admin.get(f"/webhooks/{made}/deliveries").json()
    assert (shown["state"], shown["tries"], shown["answer"]) == ("pending", 3, "HTTP 500")
    gone = admin.post(f"/webhooks/{made}/remove", {"reason": "moved"})
    assert (gone.status_code, gone.json()["before"]) == (200, {"url": URL})
    assert admin.get("/webhooks").json() == []
    assert not WebhookDelivery.objects.exists()


def test_alerts_are_for_those_who_see_the_costs_of_the_tenant(world, admin, far, web):
    spend_half(world.web)
    (alert,) = admin.get("/alerts").json()["results"]
    assert (alert["tenant"], alert["percent"], alert["limit"], alert["spent"]) == (
        "acme", 50, "10", "5",
    )  # fmt: skip
    assert far.get("/alerts").json()["results"] == web.get("/alerts").json()["results"] == []
    assert far.get("/alerts", tenant="acme").status_code == 404
    key = caller(world.web, "billing_viewer")
    assert key.get("/alerts").json()["results"] == []


def test_standing_alerts_are_those_of_the_present_window(world, admin, far):
    spend_half(world.web)
    spend_half(world.ops, window="day")
    told = admin.get("/alerts/standing").json()
    assert told["total"] == 1
    assert [(one["window"], one["percent"]) for one in told["alerts"]] == [("none", 100)]
    assert far.get("/alerts/standing").json() == {"total": 0, "alerts": []}
    assert admin.get("/alerts", page_size=2).json()["next_cursor"] is not None
