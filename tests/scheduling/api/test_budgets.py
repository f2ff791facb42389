"""Budgets over the API: who sees and sets which, exact numbers, defaults, raises and their end."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from billing.core.terms import DIMENSIONS
from billing.models import Budget, Escalation
from scheduling.models import Decision, Job, Mission
from tenants.models import AuditEntry
from tests.scheduling.api.conftest import Caller, World, caller, job, person

pytestmark = pytest.mark.django_db
SOON = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
TOKENS = {"tokens": {"input": 1_000_000, "output": 0}, "seconds": 1}


def put(who: Caller, path: str = "/budgets", **body: Any) -> Any:
    sent = {"tenant": "acme", "dimension": "spend", "limit": "10", "reason": "plan"} | body
    return who.client.put(
        "/api/v1" + path, sent, content_type="application/json", headers=who.headers
    )


@pytest.fixture
def operator(world: World, django_user_model: Any) -> Caller:
    return person(django_user_model, "op", "operator", None)


@pytest.fixture
def admin(world: World, django_user_model: Any) -> Caller:
    return person(django_user_model, "ann", "tenant_admin", world.acme)


def listed(who: Caller, **query: Any) -> list[dict[str, Any]]:
    answer = who.get("/budgets", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def test_an_operator_sets_the_tenants_budget_and_sees_it_stand(world, operator, web):
    answer = put(
        operator, scope="tenant", limit="10.50", window="month", anchor=5, timezone="Europe/Lisbon"
    )
    assert answer.status_code == 200, answer.content
    assert answer.json()["after"]["limit"] == "10.5"
    web.post("/jobs", job(payload=TOKENS))
    (row,) = listed(operator)
    assert row["id"] == answer.json()["target_id"]
    assert (row["tenant"], row["scope"], row["of"], row["anchor"]) == ("acme", "tenant", "", 5)
    sums = {name: row[name] for name in ("limit", "effective", "spent", "held", "left")}
    assert sums == {"limit": "10.5", "effective": "10.5", "spent": "0", "held": "1", "left": "9.5"}
    assert row["window_start"] < row["window_end"]


@pytest.mark.parametrize(
    ("scope", "of"),
    [
        ("workspace", "web"),
        ("workflow", "build"),
        ("mission", "moon"),
        ("member", "bob@example.org"),
        ("attempt", ""),
        ("attempt", "workflow:build"),
        ("attempt", "member:bob"),
    ],
)
def test_an_admin_sets_each_inner_scope_by_name(world, admin, scope, of):
    Mission.objects.create(tenant=world.acme, slug="moon", name="Moon")
    answer = put(admin, scope=scope, of=of)
    assert answer.status_code == 200, answer.content
    (row,) = listed(admin)
    assert (row["scope"], row["of"], row["limit"]) == (scope, of, "10")


def test_a_job_may_have_a_budget_of_its_own(world, admin, web):
    made = web.post("/jobs", job()).json()["id"]
    assert put(admin, scope="job", of=made).status_code == 200
    assert listed(admin, scope="job")[0]["of"] == made


def test_an_admin_may_not_set_or_raise_the_tenants_own(world, admin, operator):
    assert put(admin, scope="tenant").status_code == 403
    made = put(operator, scope="tenant").json()["target_id"]
    raised = admin.post(f"/budgets/{made}/escalate", {"extra": "1", "ends_at": SOON, "reason": "r"})
    assert raised.status_code == 403
    assert not Escalation.objects.exists()


def test_a_submitter_sees_its_own_budget_and_sets_none(world, admin, django_user_model):
    bob = person(django_user_model, "bob", "submitter", world.acme)
    put(admin, scope="member", of="bob")
    put(admin, scope="member", of="eve")
    assert [row["of"] for row in listed(bob)] == ["bob"]
    assert put(bob, scope="member", of="bob", limit="99").status_code == 403
    assert set(Budget.objects.values_list("limit", flat=True)) == {10}


def test_a_billing_key_sees_its_workspaces_budget_alone(world, operator):
    put(operator, scope="tenant")
    put(operator, scope="workspace", of="web")
    put(operator, scope="workspace", of="ops")
    key = caller(world.web, "billing_viewer")
    assert [(row["scope"], row["of"]) for row in listed(key)] == [("workspace", "web")]


def test_another_tenants_budgets_do_not_exist(world, operator, django_user_model):
    made = put(operator, scope="workflow", of="build").json()["target_id"]
    far = person(django_user_model, "far", "tenant_admin", world.other)
    assert listed(far) == []
    assert far.get("/budgets", tenant="acme").status_code == 404
    assert put(far, scope="workflow", of="build").status_code == 404
    body = {"extra": "1", "ends_at": SOON, "reason": "r"}
    here, nowhere = (
        far.post(f"/budgets/{one}/escalate", body) for one in (made, str(uuid.uuid4()))
    )
    assert (here.status_code, nowhere.status_code) == (404, 404)
    assert here.json()["detail"] == nowhere.json()["detail"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"scope": "planet"}, "scope"),
        ({"scope": ""}, "scope"),
        ({"dimension": "hugs"}, "dimension"),
        ({"window": "year"}, "window"),
        ({"window": "week", "anchor": 9}, "anchor"),
        ({"anchor": "1"}, "anchor"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"limit": 1.5}, "limit"),
        ({"limit": "NaN"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": None}, "limit"),
        ({"limit": "much"}, "limit"),
        ({"scope": "workflow", "of": "nowhere"}, "of"),
        ({"scope": "workflow"}, "of"),
        ({"scope": "job", "of": "no-id"}, "of"),
        ({"scope": "attempt", "of": "job:x"}, "of"),
        ({"scope": "tenant", "of": "acme"}, "of"),
        ({"scope": "member"}, "of"),
        ({"colour": "red"}, "colour"),
        ({"reason": ""}, "reason"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_set(world, operator, wrong, field):
    answer = put(operator, **({"scope": "tenant"} | wrong))
    assert answer.status_code == 400, answer.content
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert not Budget.objects.exists()


def test_pages_show_every_budget_once(world, operator):
    for dimension in DIMENSIONS:
        put(operator, scope="tenant", dimension=dimension)
    seen: list[str] = []
    query: dict[str, Any] = {"page_size": 4}
    while True:
        page = operator.get("/budgets", **query).json()
        seen += [row["dimension"] for row in page["results"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert sorted(seen) == sorted(DIMENSIONS)
    assert operator.get("/budgets", cursor="id.7").status_code == 400


def test_a_default_gives_a_new_submitter_its_budget(world, admin, web):
    answer = put(admin, "/budgets/defaults", scope="member", limit="1.5", window="day")
    assert answer.status_code == 200, answer.content
    assert admin.get("/budgets/defaults").json()[0]["limit"] == "1.5"
    first, second = (web.post("/jobs", job(payload=TOKENS)) for _ in range(2))
    assert (first.status_code, second.json()["decision"]["reason"]) == (201, "budget")
    (row,) = listed(admin)
    assert (row["scope"], row["of"][:4], row["window"]) == ("member", "key:", "day")
    assert (
        put(admin, "/budgets/defaults", scope="member", limit=None, window="day").status_code == 200
    )
    assert admin.get("/budgets/defaults").json() == []


def test_a_raise_lets_a_waiting_job_in_and_its_decision_names_it(world, operator, web):
    made = put(operator, scope="tenant", limit="1.5", window="day").json()["target_id"]
    for _ in range(2):
        web.post("/jobs", job(payload=TOKENS))
    assert Job.objects.get(state="deferred").wake_at is not None
    body = {"extra": "0.5", "ends_at": SOON, "owner": "eve", "reason": "launch"}
    raised = operator.post(f"/budgets/{made}/escalate", body)
    assert raised.status_code == 200, raised.content
    escalation = raised.json()["after"]["escalation"]
    waiting = Job.objects.get(state="deferred")
    assert waiting.wake_at <= datetime.now(UTC)
    third = web.post("/jobs", job(payload=TOKENS)).json()["decision"]
    (named,) = third["escalations"]
    assert (named["id"], named["owner"], named["extra"]) == (escalation, "eve", "0.5")
    assert "raised by 0.5" in third["sentence"]
    (row,) = listed(operator)
    assert (row["limit"], row["effective"]) == ("1.5", "2")
    assert [one["id"] for one in row["escalations"]] == [escalation]
    assert Decision.objects.filter(escalations__isnull=True).count() == 2

    ended = operator.post(f"/escalations/{escalation}/end", {"reason": "over"})
    assert ended.status_code == 200, ended.content
    assert listed(operator)[0]["escalations"] == []
    fourth = web.post("/jobs", job(payload=TOKENS)).json()["decision"]
    assert (fourth["reason"], fourth["escalations"]) == ("budget", None)
    actions = AuditEntry.objects.filter(target_id=made).values_list("action", flat=True)
    assert list(actions) == ["escalation_end", "budget_escalate", "budget_set"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"extra": 0.5}, "extra"),
        ({"extra": "0"}, "extra"),
        ({"ends_at": None}, "ends_at"),
        ({"ends_at": "2026-08-20T12:00:00"}, "ends_at"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, "ends_at"),
        ({"starts_at": "soon"}, "starts_at"),
        ({"owner": 7}, "owner"),
    ],
)
def test_a_senseless_raise_is_refused_by_field(world, operator, wrong, field):
    made = put(operator, scope="tenant").json()["target_id"]
    body = {"extra": "1", "ends_at": SOON, "reason": "r"} | wrong
    answer = operator.post(f"/budgets/{made}/escalate", body)
    assert answer.status_code == 400, answer.content
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_a_repeat_with_the_same_key_raises_once(world, operator):
    made = put(operator, scope="tenant").json()["target_id"]
    body = {"extra": "1", "ends_at": SOON, "reason": "r"}
    answers = [
        operator.post(f"/budgets/{made}/escalate", body, Idempotency_Key="k") for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    assert Escalation.objects.count() == 1
