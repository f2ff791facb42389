"""A tenant with prices and budgets, and short ways to ask for and to settle work."""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from billing.core.pricing import Usage
from billing.models import Balance, Budget, CostRule, Rate
from billing.services import prices
from billing.services.budgets import Ceiling, budget_set
from billing.services.settlement import balances_follow, book
from billing.services.usage import Settled, Settlement
from billing.services.verdicts import ReserveRequest
from tenants.models import Tenant, Workspace

NOW = datetime(2026, 8, 20, 12, tzinfo=UTC)
PRICES = {"input": "2", "output": "10"}


def settle(*, settlements: Sequence[Settlement]) -> list[Settled]:
    """Book what attempts used and move the balances, in a transaction of its own."""
    with transaction.atomic():
        booked = book(settlements=settlements)
        balances_follow(booked)
    return booked.settled


@pytest.fixture(autouse=True)
def _no_cached_prices() -> None:
    """Prices of another test's database must not be found in the process."""
    prices.prices_forget()


class Shop:
    """One tenant with a workspace and a workflow; money in USD as strings."""

    def __init__(self, slug: str = "acme") -> None:
        self.tenant = Tenant.objects.create(slug=slug, name=slug)
        self.workspace = Workspace.objects.create(tenant=self.tenant, slug="main", name="Main")
        self.workflow_id = uuid.uuid4()

    def chain(self, job_id: uuid.UUID) -> tuple[tuple[str, str], ...]:
        return (
            ("tenant", str(self.tenant.id)),
            ("workspace", str(self.workspace.id)),
            ("member", "7"),
            ("workflow", str(self.workflow_id)),
            ("job", str(job_id)),
        )

    def budget(
        self, limit: str, dimension: str = "spend", scope: str = "tenant", **more: Any
    ) -> Budget:
        ids = dict(self.chain(uuid.uuid4()))
        ceiling = Ceiling(
            tenant_id=self.tenant.id,
            scope=scope,
            scope_id=more.pop("scope_id", ids.get(scope, "")),
            dimension=dimension,
            **more,
        )
        made = budget_set(acting_user="t", reason="t", ceiling=ceiling, limit=Decimal(limit))
        return Budget.objects.get(id=made)

    def ask(self, spend: str, job_id: uuid.UUID | None = None, **more: Any) -> ReserveRequest:
        job_id = job_id or uuid.uuid4()
        return ReserveRequest(
            job_id=job_id,
            tenant_id=self.tenant.id,
            workspace_id=self.workspace.id,
            chain=more.pop("chain", self.chain(job_id)),
            spend=Decimal(spend),
            tokens=more.pop("tokens", 0),
            expires_at=more.pop("expires_at", NOW + timedelta(hours=1)),
            **more,
        )

    def used(self, job_id: uuid.UUID, usage: Usage | None = None, **more: Any) -> Settlement:
        fields: dict[str, Any] = {
            "attempt_id": uuid.uuid4(),
            "job_id": job_id,
            "tenant_id": self.tenant.id,
            "workspace_id": self.workspace.id,
            "workflow_id": self.workflow_id,
            "mission_id": None,
            "executor_id": None,
            "provider": "shop",
            "model": "m",
            "dispatched_at": NOW,
            "usage": usage or Usage(),
            "chain": self.chain(job_id),
            "final": True,
        }
        return Settlement(**(fields | more))


def rule(model: str = "m", starts_at: datetime | None = None, **amounts: str) -> CostRule:
    """Make a rule of provider "shop"; amounts are USD per million of each meter."""
    row = CostRule.objects.create(
        provider="shop",
        model=model,
        starts_at=starts_at or datetime(2026, 1, 1, tzinfo=UTC),
        source="test",
    )
    for meter, amount in (amounts or PRICES).items():
        Rate.objects.create(rule=row, meter=meter, amount=Decimal(amount))
    return row


def sums(budget: Budget) -> tuple[str, str]:
    """Return (spent, held) of the budget's only balance as plain text."""
    balance = Balance.objects.get(budget=budget)
    return f"{balance.spent.normalize():f}", f"{balance.held.normalize():f}"


@pytest.fixture
def shop(db: None) -> Shop:
    rule()
    return Shop()


@pytest.fixture
def make_rule() -> Callable[..., CostRule]:
    return rule
