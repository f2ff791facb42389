"""GET /queue, /pools, /executors, /shares, and a job's place: read from a published order."""

import math
import time
import uuid
from typing import Any

import pytest
import redis

from scheduling import snapshot
from scheduling.core.reasons import REASON_SENTENCES
from scheduling.core.types import Reason
from scheduling.models import Executor, Job, Pool
from tenants.models import Membership, Tenant
from tests.scheduling.api.conftest import Caller, World, job, person

pytestmark = pytest.mark.django_db

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def tenant_row(tenant: Tenant, waiting: int) -> snapshot.TenantRow:
    return snapshot.TenantRow(
        id=str(tenant.id), slug=tenant.slug, name=tenant.name, weight=1, held=False,
        waiting=waiting, running=1, in_use=2, planned=0.5, actual=0.25, served=7,
        clear_at=NOW + 60,
    )  # fmt: skip


def header(world: World, rows: int, seq: int = 1, **more: Any) -> snapshot.Header:
    told: dict[str, Any] = {
        "pool": str(world.pool.id), "slug": "main", "epoch": 1, "seq": seq, "at": NOW,
        "policy": 1, "control": 0, "budget": 10, "reserve": 2, "in_use": 4,
        "startable": rows - 1, "total": rows, "clear_at": NOW + 90, "clear_low": NOW + 80,
        "clear_high": NOW + 100,
        "tenants": [tenant_row(world.acme, 3), tenant_row(world.other, rows - 3)],
        "workspaces": ["acme/web", "acme/ops", "other/main"],
        "workflows": [(str(uuid.uuid4()), "build"), (str(uuid.uuid4()), "secret-flow")],
        "classes": ["incident", "expedite", "critical", "normal", "batch"],
        "reasons": [reason.value for reason in Reason],
        "executors": [], "running": [], "eta_mean_error_s": None, "eta_hit_rate": None,
        "rows_seq": seq,
    }  # fmt: skip
    return snapshot.Header(**(told | more))


def row(
    job_id: uuid.UUID, tenant: int, workspace: int, *, at: int, startable: bool = True
) -> tuple[object, ...]:
    reason = Reason.IN_ORDER if startable else Reason.JOB_PAUSED
    times = [NOW + at + extra if startable else math.nan for extra in (0, 10, 8, 12)]
    return (
        job_id.bytes, tenant, workspace, tenant, 3, list(Reason).index(reason), startable, False,
        2, at if startable else -1, NOW - 5, *times,
    )  # fmt: skip


@pytest.fixture
def order(world: World, valkey: redis.Redis) -> list[uuid.UUID]:
    """Six jobs: other, web, other, ops, other, and web's paused one at the end."""
    places = [(1, 2), (0, 0), (1, 2), (0, 1), (1, 2), (0, 0)]
    ids = [uuid.uuid4() for _ in places]
    rows = [
        row(ids[at], tenant, workspace, at=at, startable=at < 5)
        for at, (tenant, workspace) in enumerate(places)
    ]
    snapshot.write(valkey, header(world, len(rows)), snapshot.pack(rows))
    return ids


def test_an_operator_sees_the_whole_order_with_places_turns_times_and_why(
    order, world, django_user_model
):
    told = person(django_user_model, "op", "operator", None).get("/queue").json()
    assert [one["job"] for one in told["rows"]] == [str(one) for one in order]
    assert [one["place"] for one in told["rows"]] == [1, 2, 3, 4, 5, None]
    assert (told["total"], told["matching"], told["others"]) == (6, 6, 0)
    second = told["rows"][1]
    assert second == {
        "place": 2, "turn": 1, "why": "in_order", "sentence": REASON_SENTENCES[Reason.IN_ORDER],
        "start": "2026-01-01T00:00:01Z", "finish": "2026-01-01T00:00:11Z",
        "low": "2026-01-01T00:00:09Z", "high": "2026-01-01T00:00:13Z", "approximate": False,
        "job": str(order[1]), "tenant": "acme", "workspace": "acme/web", "workflow": "build",
        "class": "normal", "cost": 2, "submitted_at": "2025-12-31T23:59:55Z",
    }  # fmt: skip
    paused = told["rows"][5]
    assert (paused["turn"], paused["start"], paused["why"]) == (None, None, "job_paused")


def test_an_operators_window_is_a_slice(order, world, django_user_model):
    operator = person(django_user_model, "op", "operator", None)
    told = operator.get("/queue", offset=1, limit=2).json()
    assert [one["place"] for one in told["rows"]] == [2, 3]
    assert operator.get("/queue", offset=100).json()["rows"] == []
    one_tenant = operator.get("/queue", tenant="acme", offset=1, limit=1).json()
    assert [one["place"] for one in one_tenant["rows"]] == [4]
    assert (one_tenant["matching"], one_tenant["others"]) == (3, 3)


def test_a_key_sees_its_own_rows_with_true_places_and_others_as_a_count(order, web):
    response = web.get("/queue")
    told = response.json()
    assert [one["job"] for one in told["rows"]] == [str(order[1]), str(order[5])]
    assert [one["place"] for one in told["rows"]] == [2, None]
    assert (told["total"], told["matching"], told["others"]) == (6, 2, 4)
    body = response.content.decode()
    assert "secret-flow" not in body
    assert not any(str(order[at]) in body for at in (0, 2, 3, 4))


def test_a_tenants_member_sees_all_its_workspaces(order, world, django_user_model):
    told = person(django_user_model, "ann", "viewer", world.acme).get("/queue").json()
    assert [one["place"] for one in told["rows"]] == [2, 4, None]


def test_a_workspace_is_found_by_whatever_name_the_order_has_for_it(
    order, world, valkey, django_user_model
):
    user = django_user_model.objects.create_user("bo")
    Membership.objects.create(user=user, tenant=world.acme, workspace=world.web, role="viewer")
    ann = Caller()
    ann.client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    for names in (["web", "ops", "web"], [str(world.web.id), "x", "y"]):
        version = header(world, 2, seq=len(names[0]), workspaces=names)
        rows = snapshot.pack([row(order[0], 1, 2, at=0), row(order[1], 0, 0, at=1)])
        snapshot.write(valkey, version, rows)
        assert [one["job"] for one in ann.get("/queue").json()["rows"]] == [str(order[1])]


def test_a_new_version_replaces_the_kept_one(order, web, world, valkey):
    assert web.get("/queue").json()["seq"] == 1
    rows = snapshot.pack([row(order[1], 0, 0, at=0), row(order[0], 1, 2, at=1)])
    snapshot.write(valkey, header(world, 2, seq=2), rows)
    told = web.get("/queue").json()
    assert (told["seq"], [one["place"] for one in told["rows"]]) == (2, [1])


@pytest.mark.parametrize("query", [{"tenant": "other"}, {"tenant": "none"}, {"pool": "none"}])
def test_a_foreign_tenant_reads_like_an_unknown_one(order, web, query):
    assert web.get("/queue", **query).status_code == 404


def test_without_an_order_the_queue_is_503_and_a_job_has_no_place(web, world):
    response = web.get("/queue")
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert int(response["Retry-After"]) > 0
    told = web.post("/jobs", job()).json()
    assert web.get(f"/jobs/{told['id']}").json()["order"] is None


def test_several_pools_must_be_told_apart(order, web, world):
    Pool.objects.create(slug="gpu", name="GPU", budget=4)
    response = web.get("/queue")
    assert response.status_code == 400
    assert "gpu, main" in response.json()["errors"][0]["sentence"]
    assert web.get("/queue", pool="main").status_code == 200


def test_a_waiting_job_shows_its_place(web, world, valkey):
    stored = Job.objects.get(id=web.post("/jobs", job()).json()["id"])
    rows = [
        row(uuid.uuid4(), 1, 2, at=0),
        row(stored.id, 0, 0, at=1),
        row(uuid.uuid4(), 1, 2, at=2),
    ]
    snapshot.write(valkey, header(world, 3, startable=3), snapshot.pack(rows))
    told = web.get(f"/jobs/{stored.id}").json()["order"]
    assert (told["place"], told["turn"], told["why"]) == (2, 1, "in_order")
    assert told["finish"] == "2026-01-01T00:00:11Z"


def test_a_bulk_answer_tells_place_and_eta_from_the_order(web, world, valkey):
    now = time.time()
    rows = snapshot.pack([row(uuid.uuid4(), 1, 2, at=0), row(uuid.uuid4(), 1, 2, at=1)])
    snapshot.write(valkey, header(world, 2, startable=2, at=now), rows)
    (told,) = web.post("/jobs/bulk", {"jobs": [job()]}).json()["results"]
    assert told["place"] >= 1
    assert told["eta"].endswith("Z")


def test_shares_tell_own_tenants_and_sum_up_the_others(order, web):
    (told,) = web.get("/shares").json()
    assert [one["tenant"] for one in told["tenants"]] == ["acme"]
    assert (told["tenants"][0]["planned"], told["tenants"][0]["actual"]) == (0.5, 0.25)
    assert told["tenants"][0]["clear_at"] == "2026-01-01T00:01:00Z"
    assert told["others"] == {"tenants": 1, "waiting": 3, "running": 1, "in_use": 2}


def test_pools_tell_use_and_backlog_and_null_before_the_first_order(order, web, valkey):
    (told,) = web.get("/pools").json()
    assert (told["slug"], told["budget"], told["in_use"], told["waiting"]) == ("main", 10, 4, 6)
    valkey.flushdb()
    (told,) = web.get("/pools").json()
    assert (told["budget"], told["in_use"]) == (10, None)


def test_executors_are_those_of_everybody_and_of_the_own_tenant(web, foreign, world):
    base = {
        "pool": world.pool, "kind": "simulated", "provider": "simulated", "slots": 1,
        "job_kinds": ["simulated"],
    }  # fmt: skip
    Executor.objects.create(slug="of-acme", tenant=world.acme, **(base | {"provider": "shop"}))
    Executor.objects.create(slug="of-web", tenant=world.acme, workspace=world.web, **base)
    Executor.objects.create(slug="of-ops", tenant=world.acme, workspace=world.ops, **base)
    assert [(one["slug"], one["provider"]) for one in web.get("/executors").json()] == [
        ("of-acme", "shop"), ("of-web", "simulated"), ("sim", "simulated"),
    ]  # fmt: skip
    assert [one["slug"] for one in foreign.get("/executors").json()] == ["sim"]


def test_a_broker_that_is_down_is_503_for_the_queue_and_no_fault_of_a_job(order, web, monkeypatch):
    def refuse(*_args, **_more):
        raise redis.ConnectionError

    job_id = web.post("/jobs", job()).json()["id"]
    monkeypatch.setattr(redis.Redis, "get", refuse)
    assert web.get("/queue").status_code == 503
    assert web.get(f"/jobs/{job_id}").status_code == 200
