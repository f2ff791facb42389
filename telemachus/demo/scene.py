"""What the demo needs in a running system: a pool, the model's executor, three tenants, people.

Every run may find what an earlier one left: things are made once, set to the demo's values, jobs
of a run that was broken off are canceled, and each run's jobs have a mission of their own.
"""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Q

from billing.services.budgets import Ceiling, budget_set
from billing.services.price_import import prices_import
from scheduling.controls.pools import ExecutorSettings, executor_put, pool_create, pool_dial
from scheduling.controls.workflows import WorkflowSettings, mission_create, workflow_put
from scheduling.models import Job, Mission, Pool
from scheduling.services.cancel import job_cancel
from telemachus.local.model_api import MODEL_ID
from tenants.controls import tenant_weight
from tenants.keys import key_issue
from tenants.models import Tenant, Workspace
from tenants.services import member_add, tenant_create, workspace_create

DEMO = "demo"
WHY = "The demo's scene."
POOL = "demo"
EXECUTOR = "demo-translator"
REVIEWERS = "demo-reviewers"
WORKFLOW = "translation"
BUDGET_UNITS = 4
OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One tenant of the scene: its weight, how many jobs it submits, and what each costs."""

    slug: str
    name: str
    weight: int
    jobs: int
    cost: int


PARTS = (
    Part(slug="aurora", name="Aurora Health", weight=3, jobs=120, cost=1),
    Part(slug="borealis", name="Borealis Legal", weight=2, jobs=24, cost=2),
    Part(slug="cirrus", name="Cirrus Travel", weight=1, jobs=6, cost=3),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """A tenant's client: its key (a secret) and what it will submit."""

    part: Part
    tenant_id: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything that a run goes by. `password` is the operator's, new each run."""

    mission: str
    actors: tuple[Actor, ...]
    password: str


@transaction.atomic
def scene_set(*, endpoint: str, expected_s: float) -> Scene:
    """Make or mend the scene for a model server at `endpoint`."""
    prices_import(now=datetime.now(UTC))
    mission = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    _cancel_leftovers()
    pool = _pool()
    executor_put(
        slug=EXECUTOR, pool=pool, settings=_executor(endpoint), acting_user=DEMO, reason=WHY
    )
    executor_put(slug=REVIEWERS, pool=pool, settings=_REVIEWERS, acting_user=DEMO, reason=WHY)
    actors = tuple(_actor(part, pool, mission, expected_s) for part in PARTS)
    return Scene(mission=mission, actors=actors, password=_operator())


_REVIEWERS = ExecutorSettings(kind="human", provider="human", job_kinds=["review"], slots=3)


def _cancel_leftovers() -> None:
    mine = Q(mission__slug__startswith="demo-") | Q(needs_review=True, pool__slug=POOL)
    left = Job.objects.filter(mine, finished_at=None).order_by("seq")
    for job_id in left.values_list("id", flat=True):
        job_cancel(job_id=job_id, now=datetime.now(UTC), acting_user=DEMO, reason=WHY)


def _executor(endpoint: str) -> ExecutorSettings:
    return ExecutorSettings(
        kind="local-model",
        provider="local",
        job_kinds=["translate"],
        slots=BUDGET_UNITS,
        endpoint=endpoint,
        models_offered=[MODEL_ID],
    )


def _pool() -> Pool:
    pool = Pool.objects.filter(slug=POOL).first()
    if pool is None:
        return pool_create(
            slug=POOL, name="Demo", budget=BUDGET_UNITS, reserve=0, acting_user=DEMO, reason=WHY
        )
    if (pool.budget, pool.reserve) != (BUDGET_UNITS, 0):
        pool_dial(pool_id=pool.id, budget=BUDGET_UNITS, reserve=0, acting_user=DEMO, reason=WHY)
    return pool


def _actor(part: Part, pool: Pool, mission: str, expected_s: float) -> Actor:
    tenant = Tenant.objects.filter(slug=part.slug).first()
    if tenant is None:
        tenant = tenant_create(slug=part.slug, name=part.name, acting_user=DEMO, reason=WHY)
    if tenant.weight != part.weight or tenant.held:
        tenant_weight(tenant_id=tenant.id, weight=part.weight, acting_user=DEMO, reason=WHY)
    workspace = Workspace.objects.filter(tenant=tenant, slug="main").first()
    if workspace is None:
        workspace = workspace_create(
            tenant=tenant, slug="main", name="Main", acting_user=DEMO, reason=WHY
        )
        ceiling = Ceiling(
            tenant_id=tenant.id,
            scope="tenant",
            scope_id=str(tenant.id),
            dimension="spend",
            window="day",
        )
        budget_set(ceiling=ceiling, limit=Decimal(5), acting_user=DEMO, reason=WHY)
    settings = WorkflowSettings(pool=pool, cost=part.cost, expected_s=expected_s)
    workflow_put(tenant=tenant, slug=WORKFLOW, settings=settings, acting_user=DEMO, reason=WHY)
    if not Mission.objects.filter(tenant=tenant, slug=mission).exists():
        mission_create(tenant=tenant, slug=mission, name=mission, acting_user=DEMO, reason=WHY)
    _, secret = key_issue(
        workspace=workspace, name=mission, role="submitter", acting_user=DEMO, reason=WHY
    )
    return Actor(part=part, tenant_id=str(tenant.id), key=secret)


def _operator() -> str:
    password = secrets.token_urlsafe(9)
    user, _ = get_user_model().objects.get_or_create(username=OPERATOR)
    user.is_staff = user.is_superuser = True
    user.set_password(password)
    user.save()
    member_add(user=user, role="operator", acting_user=DEMO, reason=WHY)
    for part in PARTS:
        _viewer(part, password)
    return password


def _viewer(part: Part, password: str) -> None:
    user, _ = get_user_model().objects.get_or_create(username=f"{part.slug}-viewer")
    user.set_password(password)
    user.save()
    tenant = Tenant.objects.get(slug=part.slug)
    member_add(user=user, role="viewer", tenant=tenant, acting_user=DEMO, reason=WHY)
