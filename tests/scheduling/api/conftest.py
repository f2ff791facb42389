"""A small world to call the API in: two tenants, a pool, an executor, a policy, a price."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.test import Client

from billing.models import CostRule, Rate
from billing.services.prices import prices_forget
from scheduling.core.policy.document import to_dict
from scheduling.core.policy.settings import Policy
from scheduling.events import valkey_client
from scheduling.models import Executor, PolicyVersion, Pool, Workflow
from tenants.keys import key_issue
from tenants.models import Membership, Tenant, Workspace

START = datetime(2026, 1, 1, tzinfo=UTC)
API = "/api/v1"


@dataclass
class World:
    """What the tests name."""

    pool: Pool
    acme: Tenant
    other: Tenant
    web: Workspace
    ops: Workspace
    main: Workspace


class Caller:
    """A test client with a key's header, that asks and sends JSON."""

    def __init__(self, secret: str = "", client: Client | None = None) -> None:
        self.client = client or Client(raise_request_exception=False)
        self.headers = {"Authorization": f"Bearer {secret}"} if secret else {}

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(API + path, query, headers=self.headers)

    def post(self, path: str, body: object = None, **headers: str) -> Any:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(
            API + path,
            body if isinstance(body, str | bytes) else body if body is not None else "",
            content_type="application/json",
            headers=self.headers | sent,
        )


@pytest.fixture(autouse=True, scope="session")
def static_root() -> None:
    """The middleware warns when nothing has been collected yet."""
    Path(django_settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


@pytest.fixture
def valkey() -> redis.Redis:
    client = valkey_client()
    client.flushdb()
    return client


@pytest.fixture
def world(db: None, valkey: redis.Redis) -> World:
    prices_forget()
    first = {"state": "active", "body": to_dict(Policy()), "author": "t", "published_at": START}
    PolicyVersion.objects.get_or_create(number=1, defaults=first)
    pool = Pool.objects.create(slug="main", name="Main", budget=10, reserve=2)
    Executor.objects.create(
        slug="sim", pool=pool, kind="simulated", provider="simulated", job_kinds=["simulated"],
        slots=10,
    )  # fmt: skip
    rule = CostRule.objects.create(provider="simulated", model="*", starts_at=START, source="t")
    Rate.objects.create(rule=rule, meter="input", amount=Decimal(1))
    acme = Tenant.objects.create(slug="acme", name="Acme")
    other = Tenant.objects.create(slug="other", name="Other")
    for tenant in (acme, other):
        Workflow.objects.create(tenant=tenant, pool=pool, slug="build", name="Build", cost=2)
    return World(
        pool=pool,
        acme=acme,
        other=other,
        web=Workspace.objects.create(tenant=acme, slug="web", name="Web"),
        ops=Workspace.objects.create(tenant=acme, slug="ops", name="Ops"),
        main=Workspace.objects.create(tenant=other, slug="main", name="Main"),
    )


def caller(workspace: Workspace, role: str = "submitter") -> Caller:
    _, secret = key_issue(
        workspace=workspace, name=role, role=role, acting_user="root", reason="test"
    )
    return Caller(secret)


def person(django_user_model: Any, name: str, role: str, tenant: Tenant | None) -> Caller:
    user = django_user_model.objects.create_user(name)
    Membership.objects.create(user=user, tenant=tenant, role=role)
    client = Client(raise_request_exception=False)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return Caller(client=client)


@pytest.fixture
def web(world: World) -> Caller:
    """A submitter's key of acme/web."""
    return caller(world.web)


@pytest.fixture
def foreign(world: World) -> Caller:
    """A submitter's key of other/main."""
    return caller(world.main)


def job(**more: Any) -> dict[str, Any]:
    return {"workflow": "build", "kind": "simulated", "payload": {"seconds": 1}} | more
