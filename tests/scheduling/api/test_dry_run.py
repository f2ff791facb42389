"""POST /jobs/dry-run: the decision that a submission would get, and nothing is written."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from billing.services.budgets import Ceiling, budget_set
from scheduling.models import Executor, Job, PolicyVersion
from tenants.controls import tenant_weight
from tests.scheduling.api.conftest import Caller, World, caller, job, person
from tests.scheduling.factories import WHO

pytestmark = pytest.mark.django_db

TOKENS = {"seconds": 1, "tokens": {"input": 1_000_000, "output": 0}}
HELD = ("reservation_id", "expires_at", "at")
"""What a decision says that holds something, or when."""


def rows() -> dict[str, int]:
    """Count the rows of every table."""
    return {model._meta.db_table: model._default_manager.count() for model in apps.get_models()}


def held(world: World) -> None:
    tenant_weight(tenant_id=world.acme.id, weight=0, **WHO)


def short_of_money(world: World) -> None:
    name = str(world.acme.id)
    ceiling = Ceiling(
        tenant_id=world.acme.id, scope="tenant", scope_id=name, dimension="spend", window="day"
    )
    budget_set(ceiling=ceiling, limit=Decimal("0.5"), **WHO)


def nothing(_world: World) -> None:
    """Leave the world as it is."""


def nowhere(_world: World) -> None:
    Executor.objects.all().delete()


@pytest.mark.parametrize(
    ("prepare", "body", "verdict", "reason"),
    [
        (nothing, {}, "queued", "in_order"),
        (nothing, {"cost": 9}, "denied", "never_fits"),
        (nothing, {"model": "unknown"}, "denied", "unpriced_model"),
        (nothing, {"deadline": "2020-01-01T00:00:00Z"}, "denied", "deadline"),
        (held, {}, "queued", "tenant_held"),
        (short_of_money, {"payload": TOKENS}, "denied", "budget"),
        (nowhere, {}, "denied", "no_executor"),
    ],
)
def test_it_answers_the_decision_of_a_submission_and_writes_nothing(
    web, world, prepare, body, verdict, reason
):
    prepare(world)
    before = rows()
    response = web.post("/jobs/dry-run", job(**body))
    assert rows() == before
    told = response.json()
    assert (response.status_code, told["verdict"], told["reason"]) == (200, verdict, reason)
    real = web.post("/jobs", job(**body)).json()["decision"]
    assert {k: v for k, v in told.items() if k not in HELD} == {
        k: v for k, v in real.items() if k not in HELD
    }
    assert (told["reservation_id"], told["expires_at"]) == (None, None)


def test_it_holds_no_money_however_often_it_is_asked(web, world):
    short_of_money(world)
    half = {"seconds": 1, "tokens": {"input": 400_000, "output": 0}}
    for _ in range(3):
        assert web.post("/jobs/dry-run", job(payload=half)).json()["verdict"] == "queued"
    assert web.post("/jobs", job(payload=half)).status_code == 201
    assert web.post("/jobs/dry-run", job(payload=half)).json()["verdict"] == "deferred"
    assert Job.objects.count() == 1


def test_a_time_to_come_is_told_as_deferred_with_when_to_try(web):
    later = timezone.now() + timedelta(hours=1)
    told = web.post("/jobs/dry-run", job(not_before=later.isoformat())).json()
    assert (told["verdict"], told["reason"]) == ("deferred", "not_before")
    assert told["retry_at"] is not None


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (job(workflow="none"), "workflow"),
        (job(cost="x"), "cost"),
        ({}, "workflow"),
        (job(workspace=7), "workspace"),
        (job(**{"class": "incident"}), "class"),
    ],
)
def test_bad_input_is_told_as_for_a_submission(web, body, named):
    response, real = web.post("/jobs/dry-run", body), web.post("/jobs", body)
    assert response.status_code == real.status_code == 400
    assert response.json()["errors"] == real.json()["errors"]
    assert named in {error["field"] for error in response.json()["errors"]}


def test_who_may_not_submit_may_not_ask_either(world, django_user_model):
    assert caller(world.web, "viewer").post("/jobs/dry-run", job()).status_code == 403
    eve = person(django_user_model, "eve", "tenant_admin", world.other)
    assert eve.post("/jobs/dry-run", job(workspace="acme/web")).status_code == 404
    assert Caller().post("/jobs/dry-run", job()).status_code == 401


def test_without_a_policy_it_is_unavailable(web: Caller, world: Any) -> None:
    PolicyVersion.objects.all().update(state="retired")
    assert web.post("/jobs/dry-run", job()).status_code == 503
