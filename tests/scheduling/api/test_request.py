"""The whole admission request over HTTP: taken by both doors, shown again, refused by its field."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.core.policy.document import to_dict
from scheduling.core.policy.settings import BacklogCaps, Policy, RiskRule, RiskRules
from scheduling.models import Executor, Job, JobDependency, PolicyVersion
from tests.scheduling.api.conftest import Caller, World, caller, job
from tests.scheduling.factories import make_reviewers

pytestmark = pytest.mark.django_db

EXTRA: dict[str, Any] = {
    "estimate": {"input_tokens": 10, "tool_calls": 4, "review_minutes": 1.5},
    "tools": ["web"],
    "data_class": "secret",
    "compute_class": "gpu",
    "keys": ["repo:a"],
    "max_spend": "12.5",
    "max_tokens": 100,
    "review": True,
}


@pytest.fixture
def able(world: World) -> None:
    make_reviewers(world.pool)
    Executor.objects.update(tools=["web"], data_classes=["secret"], compute_class="gpu")


def publish(**settings: Any) -> None:
    PolicyVersion.objects.filter(state="active").update(state="retired")
    PolicyVersion.objects.create(
        number=2, state="active", body=to_dict(Policy(number=2, **settings)), note="", author="t",
        published_at=datetime.now(UTC),
    )  # fmt: skip


def fields(response: Any) -> list[str]:
    assert response.status_code == 400
    return [error["field"] for error in response.json()["errors"]]


@pytest.mark.usefixtures("able")
def test_what_is_asked_for_is_shown_again(web: Caller) -> None:
    told = web.post("/jobs", job(**EXTRA)).json()
    assert told["state"] == "queued"
    shown = {name: told[name] for name in EXTRA}
    assert shown == EXTRA | {"estimate": {"output_tokens": 0} | EXTRA["estimate"]}
    listed = web.get("/jobs").json()["results"][0]
    assert {name: listed[name] for name in EXTRA} == shown


@pytest.mark.usefixtures("able")
def test_a_bulk_call_takes_every_field_beside_its_rows_and_in_them(web: Caller) -> None:
    first = web.post("/jobs", job()).json()["id"]
    body = job(**EXTRA) | {"jobs": [{}, {"after": [first]}, {"after": ["x"]}]}
    told = web.post("/jobs/bulk", body).json()
    assert told["counts"] == {"admitted": 0, "queued": 2, "deferred": 0, "denied": 0, "invalid": 1}
    assert told["results"][2]["errors"][0]["field"] == "jobs[2].after[0]"
    assert Job.objects.filter(max_tokens=100, data_class="secret").count() == 2
    assert Job.objects.get(id=told["results"][1]["id"]).state == "waiting"


def test_an_unknown_and_a_foreign_job_are_no_job_to_wait_for(web: Caller, foreign: Caller) -> None:
    theirs = foreign.post("/jobs", job()).json()["id"]
    unknown = "01890a5d-ac96-774b-bcce-b302099a8057"
    response = web.post("/jobs", job(after=[theirs, unknown]))
    assert fields(response) == ["after[0]", "after[1]"]
    first, second = (error["sentence"] for error in response.json()["errors"])
    assert first.replace(theirs, unknown) == second
    bulk = web.post("/jobs/bulk", {"jobs": [job(after=[theirs])]}).json()
    assert bulk["results"][0]["errors"][0]["field"] == "jobs[0].after[0]"


def test_a_job_shows_what_it_waits_for(web: Caller) -> None:
    first = web.post("/jobs", job()).json()["id"]
    told = web.post("/jobs", job(after=[{"job": first, "condition": "ended"}])).json()
    assert (told["state"], told["reason"]) == ("waiting", "dependency")
    detail = web.get(f"/jobs/{told['id']}").json()
    assert detail["after"] == [{"job": first, "condition": "ended", "open": True}]


def test_a_dry_run_looks_at_what_a_job_comes_after_and_stores_nothing(web: Caller) -> None:
    first = web.post("/jobs", job()).json()["id"]
    told = web.post("/jobs/dry-run", job(after=[first])).json()
    assert (told["verdict"], told["reason"]) == ("queued", "dependency")
    assert fields(web.post("/jobs/dry-run", job(after=[first[:-1] + "0x"]))) == ["after[0]"]
    assert not JobDependency.objects.exists()


def test_an_estimate_above_its_ceiling_is_422_with_what_would_do(web: Caller) -> None:
    response = web.post("/jobs", job(estimate={"input_tokens": 9}, max_tokens=8))
    told = response.json()
    assert (response.status_code, told["code"]) == (422, "hard_ceiling")
    way = {"action": "raise_max_tokens", "sentence": "a max_tokens of at least 9"}
    assert told["alternatives"] == told["decision"]["alternatives"] == [way]


def test_a_class_that_is_shed_is_429_with_the_class_that_would_be_taken(web: Caller) -> None:
    publish(backlog=BacklogCaps(total=2, shed_share=0.5))
    assert web.post("/jobs", job()).status_code == 201
    response = web.post("/jobs", job(**{"class": "batch"}), Idempotency_Key="k")
    assert (response.status_code, response.json()["code"]) == (429, "shed")
    assert response["Retry-After"].isdigit()
    assert {"action": "change_class", "sentence": "class normal now"} in response.json()[
        "alternatives"
    ]
    assert web.post("/jobs", job()).status_code == 201
    assert web.post("/jobs", job()).json()["code"] == "backlog_full"


def test_the_policy_says_who_may_submit_work_of_a_risk(web: Caller, world: World) -> None:
    publish(risk=RiskRules(high=RiskRule(asked_by="tenant_admin", needs_review=True)))
    assert fields(web.post("/jobs", job(risk="high"))) == ["risk"]
    assert fields(web.post("/jobs/dry-run", job(risk="high"))) == ["risk"]
    assert web.post("/jobs", job(risk="medium")).json()["review"] is False
    admin = caller(world.web, "tenant_admin")
    nobody = admin.post("/jobs", job(risk="high"))
    assert (nobody.status_code, nobody.json()["code"]) == (422, "no_executor")
    make_reviewers(world.pool)
    assert admin.post("/jobs", job(risk="high")).json()["review"] is True


@pytest.mark.usefixtures("able")
def test_an_executor_shows_what_it_offers(web: Caller) -> None:
    (told,) = [one for one in web.get("/executors").json() if one["kind"] == "simulated"]
    assert (told["tools"], told["data_classes"]) == (["web"], ["secret"])
    assert told["compute_class"] == "gpu"


def test_a_time_to_live_is_kept_as_an_instant_and_checked_everywhere(web: Caller) -> None:
    before = timezone.now()
    told = web.post("/jobs", job(ttl_s=60)).json()
    left = datetime.fromisoformat(told["expires_at"]) - before
    assert timedelta(seconds=59) < left < timedelta(seconds=70)
    assert web.get(f"/jobs/{told['id']}").json()["expires_at"] == told["expires_at"]
    two = {"ttl_s": 60, "expires_at": "2099-01-01T00:00:00Z"}
    assert fields(web.post("/jobs", job(**two))) == ["ttl_s"]
    assert fields(web.post("/jobs/dry-run", job(**two))) == ["ttl_s"]
    bulk = web.post("/jobs/bulk", {**job(), "ttl_s": 60, "jobs": [{}, {"ttl_s": 0}]}).json()
    assert bulk["results"][1]["errors"][0]["field"] == "jobs[1].ttl_s"
    assert Job.objects.get(id=bulk["results"][0]["id"]).expires_at is not None
    gone = web.post("/jobs/dry-run", job(expires_at="2020-01-01T00:00:00Z")).json()
    assert (gone["verdict"], gone["reason"]) == ("denied", "expired")
