"""/limits/raises: a raise by name, what is in force, who sees it, what is refused."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduling.models import LimitRaise, Workflow
from tenants.models import AuditEntry
from tests.scheduling.api.conftest import API, Caller, World, caller, person

pytestmark = pytest.mark.django_db

SOON = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
LATER = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
GOOD = {"scope": "global", "measure": "running", "extra": 2, "ends_at": SOON, "reason": "launch"}


@pytest.fixture
def root(world: World, django_user_model: Any) -> Caller:
    """An operator; everything runs at most five jobs at once."""
    root = person(django_user_model, "root", "operator", None)
    put(root, scope="global", measure="running", value=5)
    return root


def put(who: Caller, **body: Any) -> None:
    sent = json.dumps(body | {"reason": "test"})
    path = f"{API}/limits"
    answer = who.client.put(path, sent, content_type="application/json", headers=who.headers)
    assert answer.status_code == 200, answer.content


def lift(who: Caller, **more: Any) -> dict[str, Any]:
    answer = who.post("/limits/raise", GOOD | more)
    assert answer.status_code == 200, answer.content
    told: dict[str, Any] = answer.json()
    return told


def test_a_raise_shows_at_its_limit_until_it_is_ended(root: Caller) -> None:
    told = lift(root, owner="eve")
    assert told["control"] == AuditEntry.objects.latest("number").number
    assert (told["action"], told["before"]["running"]) == ("limit_raise", 5)
    (row,) = root.get("/limits").json()
    assert (row["value"], row["in_force"]) == (5, 7)
    (named,) = row["escalations"]
    assert named.pop("starts_at") < named["ends_at"]
    assert datetime.fromisoformat(named.pop("ends_at")) == datetime.fromisoformat(SOON)
    assert named == {"id": told["escalation"], "extra": 2, "owner": "eve", "reason": "launch"}

    ended = root.post(f"/limits/raises/{told['escalation']}/end", {"reason": "over"})
    assert (ended.status_code, ended.json()["action"]) == (200, "limit_raise_end")
    (row,) = root.get("/limits").json()
    assert (row["value"], row["in_force"], row["escalations"]) == (5, 5, [])
    again = root.post(f"/limits/raises/{told['escalation']}/end", {"reason": "over"})
    assert again.status_code == 400
    assert "ended at" in again.json()["errors"][0]["sentence"]


def test_those_to_come_are_listed_and_not_in_force(root: Caller) -> None:
    now, coming = lift(root), lift(root, extra=4, starts_at=SOON, ends_at=LATER)
    found = root.get("/limits/raises").json()
    assert [one["id"] for one in found] == [now["escalation"], coming["escalation"]]
    assert [(one["extra"], one["value"], one["in_force"]) for one in found] == [
        (2, 5, 7), (4, 5, 7),
    ]  # fmt: skip
    assert [one["id"] for one in root.get("/limits").json()[0]["escalations"]] == [
        now["escalation"]
    ]
    put(root, scope="global", measure="running", value=None)
    assert {one["value"] for one in root.get("/limits/raises").json()} == {None}
    assert {one["in_force"] for one in root.get("/limits/raises").json()} == {None}


def columns(world: World, root: Caller) -> list[dict[str, Any]]:
    """Cap a tenant, its workspace and workflow, and raise each; return what is told."""
    told = []
    for scope, of in (("tenant", "acme"), ("workspace", "acme/web"), ("workflow", "acme/build")):
        body = {"max_running": 3, "reason": "test"}
        assert root.post(f"/{scope}s/{of}/limits", body).status_code == 200
        told.append(lift(root, scope=scope, of=of))
    return told


def test_caps_that_are_columns_are_raised_by_path(world: World, root: Caller) -> None:
    told = columns(world, root)
    flow = Workflow.objects.get(tenant=world.acme)
    assert [one["after"]["scope_id"] for one in told] == [
        str(world.acme.id), str(world.web.id), str(flow.id),
    ]  # fmt: skip
    assert {one["tenant"] for one in told} == {"acme"}
    found = root.get("/limits/raises").json()
    assert [(one["scope"], one["of"], one["value"], one["in_force"]) for one in found] == [
        ("tenant", "acme", 3, 5), ("workspace", "acme/web", 3, 5), ("workflow", "acme/build", 3, 5),
    ]  # fmt: skip


def test_the_list_is_filtered_by_scope_and_measure(world: World, root: Caller) -> None:
    columns(world, root)
    put(root, scope="provider", of="simulated", measure="tokens_a_minute", value=9)
    lift(root, scope="provider", of="simulated", measure="tokens_a_minute")
    assert len(root.get("/limits/raises").json()) == 4
    found = root.get("/limits/raises", measure="tokens_a_minute").json()
    assert [(one["scope"], one["of"], one["in_force"]) for one in found] == [
        ("provider", "simulated", 11)
    ]
    assert [one["of"] for one in root.get("/limits/raises", scope="workspace").json()] == [
        "acme/web"
    ]
    assert root.get("/limits/raises", colour="red").status_code == 400


def test_each_sees_the_raises_of_what_it_sees_as_a_whole(
    world: World, root: Caller, django_user_model: Any
) -> None:
    columns(world, root)
    lift(root)
    boss = person(django_user_model, "boss", "tenant_admin", world.acme)
    other = person(django_user_model, "far", "tenant_admin", world.other)

    def seen(who: Caller) -> list[str]:
        return [one["scope"] for one in who.get("/limits/raises").json()]

    assert seen(root) == ["tenant", "workspace", "workflow", "global"]
    assert seen(boss) == ["tenant", "workspace", "workflow"]
    assert seen(caller(world.web)) == ["workspace"]
    assert seen(caller(world.ops)) == seen(other) == []


def test_only_an_operator_raises_limits(world: World, root: Caller, django_user_model: Any) -> None:
    made = lift(root)["escalation"]
    boss = person(django_user_model, "boss", "tenant_admin", world.acme)
    for path, body in (("raise", GOOD), (f"raises/{made}/end", {"reason": "r"})):
        for who in (boss, caller(world.web)):
            answer = who.post(f"/limits/{path}", body)
            assert (answer.status_code, "Only an operator" in answer.json()["detail"]) == (
                403, True,
            )  # fmt: skip
        assert Caller().post(f"/limits/{path}", body).status_code == 401
    assert LimitRaise.objects.count() == 1
    nothing = root.post(f"/limits/raises/{world.acme.id}/end", {"reason": "r"})
    assert nothing.status_code == 404


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        ({"extra": "2"}, "extra", "whole number"),
        ({"extra": 0}, "extra", "raised by 1 to 1000000"),
        ({"ends_at": None}, "ends_at", "ends by itself"),
        ({"ends_at": "2026-08-20T12:00:00"}, "ends_at", "with its zone"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, "ends_at", "after now"),
        ({"starts_at": "soon"}, "starts_at", "with its zone"),
        ({"owner": 7}, "owner", "as a text"),
        ({"reason": ""}, "reason", "Say why"),
        ({"scope": "moon"}, "scope", "not 'moon'"),
        ({"measure": "smell"}, "measure", "not 'smell'"),
        ({"scope": "workspace", "of": "acme/void"}, "of", "no workspace 'acme/void'"),
        ({"scope": "workspace", "of": "web"}, "of", "no workspace 'web'"),
        ({"scope": "workflow", "of": "void/build"}, "of", "no workflow 'void/build'"),
        ({"scope": "tenant", "of": "acme"}, "of", "nothing to raise"),
        ({"scope": "user", "of": "ann"}, "of", "nothing to raise"),
        ({"colour": "red"}, "colour", "no field"),
    ],
)
def test_what_is_wrong_is_named(
    root: Caller, wrong: dict[str, Any], field: str, words: str
) -> None:
    answer = root.post("/limits/raise", GOOD | wrong)
    assert answer.status_code == 400, answer.content
    (told,) = answer.json()["errors"]
    assert (told["field"], words in told["sentence"]) == (field, True), told
    assert not LimitRaise.objects.exists()


def test_a_repeat_with_the_same_key_raises_once(root: Caller) -> None:
    answers = [root.post("/limits/raise", GOOD, Idempotency_Key="k") for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert LimitRaise.objects.count() == 1
