"""Nobody sees another tenant's things: every GET address is walked with a foreign key."""

import re
import uuid

import pytest
from django.urls import URLPattern
from django.utils import timezone

from scheduling.api.urls import urlpatterns
from scheduling.models import Executor, Mission
from tests.scheduling.api.conftest import Caller, caller, job, person

pytestmark = pytest.mark.django_db

PUBLIC = {"schema/", "docs/", ""}
"""Addresses without anybody's data: the description of the API and the catch-all."""

TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


@pytest.fixture
def marked(world):
    """Acme's things, all with a mark in whatever text they have."""
    Mission.objects.create(tenant=world.acme, slug="mark-mission", name="MARK")
    Executor.objects.create(
        slug="mark-executor", tenant=world.acme, pool=world.pool, kind="simulated",
        provider="simulated", job_kinds=["simulated"], slots=1,
    )  # fmt: skip
    world.acme.name = "MARK"
    world.acme.save()
    response = caller(world.web).post("/jobs", job(mission="mark-mission", labels=[]))
    return response.json()["id"]


def addresses() -> list[str]:
    return [str(one.pattern) for one in urlpatterns if isinstance(one, URLPattern)]


def ask_all(who: Caller, job_id: str) -> dict[str, tuple[int, str]]:
    answers = {}
    for route in addresses():
        if route not in PUBLIC:
            path = "/" + route.replace("<uuid:job_id>", job_id)
            response = who.get(path)
            answers[route] = (response.status_code, TIMES.sub("<time>", response.content.decode()))
    return answers


@pytest.mark.parametrize("role", ["submitter", "tenant_admin", "viewer", "billing_viewer"])
def test_a_foreign_key_finds_nothing_at_any_address(marked, world, role, monkeypatch):
    now, unknown = timezone.now(), str(uuid.uuid4())
    monkeypatch.setattr(timezone, "now", lambda: now)  # both walks are answered at one moment
    foreign = caller(world.main, role)
    answers, reference = ask_all(foreign, marked), ask_all(foreign, unknown)
    assert len(answers) >= 10
    for route, (status, body) in answers.items():
        expected_status, expected = reference[route]
        assert (status, body.replace(marked, unknown)) == (expected_status, expected), route
        assert "MARK" not in body, route
        assert "mark-" not in body, route
        assert "acme" not in body, route
        if "<uuid:job_id>" in route:
            assert status in (404, 405), route


def test_the_owner_does_find_them(marked, web):
    """The walk above would pass on a broken API; this shows that the things are there."""
    answers = ask_all(web, marked)
    assert answers["jobs/<uuid:job_id>"][0] == 200
    assert "mark-mission" in answers["jobs"][1]
    assert "mark-executor" in answers["executors"][1]
    assert "MARK" in answers["tenants"][1]


@pytest.mark.parametrize(
    "query",
    [
        {"tenant": "acme"},
        {"workspace": "acme/web"},
        {"q": "build"},
        {"workflow": "build"},
        {"mission": "mark-mission"},
    ],
)
def test_no_filter_opens_a_way_to_foreign_jobs(marked, foreign, query):
    response = foreign.get("/jobs", **query)
    assert response.status_code == 404 or response.json()["results"] == []
    assert foreign.get("/jobs", q=marked).json()["results"] == []


def test_a_filter_by_a_foreign_name_reads_like_one_by_an_unknown_name(marked, foreign):
    for name in ("tenant", "workspace"):
        known = foreign.get("/jobs", **{name: "acme" if name == "tenant" else "acme/web"})
        unknown = foreign.get("/jobs", **{name: "zzz" if name == "tenant" else "zzz/web"})
        assert known.status_code == unknown.status_code == 404
        assert known.content == unknown.content


def test_a_foreign_job_cannot_be_canceled_and_reads_like_an_unknown_one(marked, web, foreign):
    known = foreign.post(f"/jobs/{marked}/cancel")
    unknown = foreign.post(f"/jobs/{uuid.uuid4()}/cancel")
    assert known.status_code == unknown.status_code == 404
    assert known.json()["detail"] == unknown.json()["detail"]
    assert web.get(f"/jobs/{marked}").json()["state"] == "queued"


def test_a_sister_workspace_of_the_same_tenant_is_closed_to_a_key(marked, world):
    assert caller(world.ops).get(f"/jobs/{marked}").status_code == 404
    assert caller(world.ops).get("/jobs").json()["results"] == []


def test_a_person_without_roles_finds_nothing(marked, world, django_user_model):
    stranger = person(django_user_model, "eve", "viewer", world.other)
    stranger.client.get("/")
    assert stranger.get("/jobs").json()["results"] == []
    assert stranger.get(f"/jobs/{marked}").status_code == 404
