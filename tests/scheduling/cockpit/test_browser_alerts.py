"""A budget that is nearly spent stands in the board's attention line, for whom it concerns."""

import uuid
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from playwright.sync_api import Browser, expect

from billing.core.pricing import Rate, Usage
from billing.services.budgets import Ceiling, budget_set
from billing.services.prices import cost_rule_publish
from billing.services.usage import Settlement
from tenants.models import Workspace
from tests.billing.conftest import settle
from tests.scheduling.cockpit.boards import mixed
from tests.scheduling.cockpit.conftest import People, Publish
from tests.scheduling.cockpit.pages import DESK, NEEDS_CHROMIUM, Server, Visitor

pytestmark = NEEDS_CHROMIUM
BY = {"acting_user": "t", "reason": "t"}


@pytest.fixture
def spent(people: People) -> None:
    """Nine tenths of acme's budget are spent."""
    workspace = Workspace.objects.get(tenant__slug="acme")
    tenant, job, workflow, now = workspace.tenant, uuid.uuid4(), uuid.uuid4(), datetime.now(UTC)
    rate = Rate(meter="input", amount=Decimal(1))
    cost_rule_publish(offer=("shop", "*"), starts_at=now, rates=[rate], **BY)
    ceiling = Ceiling(
        tenant_id=tenant.id, scope="tenant", scope_id=str(tenant.id), dimension="spend"
    )
    budget_set(ceiling=ceiling, limit=Decimal(10), **BY)
    used = Settlement(
        attempt_id=uuid.uuid4(), job_id=job, tenant_id=tenant.id, workspace_id=workspace.id,
        workflow_id=workflow, mission_id=None, executor_id=None, provider="shop", model="m",
        dispatched_at=now, usage=Usage(input_total=9_000_000), final=True,
        chain=(("tenant", str(tenant.id)), ("job", str(job))),
    )  # fmt: skip
    settle(settlements=[used])


def test_an_operator_sees_the_budget_and_a_viewer_does_not(
    people: People, spent: None, publish: Publish, server: Server, chromium: Browser
) -> None:
    publish(mixed(10, ids=people.ids), 1)
    words = "acme: 80 % of the tenant's spend budget is spent"
    olga = Visitor(chromium, server, "olga", viewport=DESK)
    expect(olga.page.locator("#attention-list")).to_contain_text(words)
    assert olga.axe() == []
    vera = Visitor(chromium, server, "vera", viewport=DESK)
    vera.first_row(0)
    expect(vera.page.locator("#attention-list")).not_to_contain_text("budget")
    assert olga.faults == vera.faults == []
