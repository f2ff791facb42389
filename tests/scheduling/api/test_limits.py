"""/limits: what is set and in use, who may set and see it, and what is refused."""

import json
from typing import Any

import pytest

from scheduling.models import Executor, Limit
from tenants.models import AuditEntry
from tests.scheduling.api.conftest import API, Caller, World, caller, person

pytestmark = pytest.mark.django_db

WHY = {"reason": "test"}
GOOD = {"scope": "global", "measure": "running", "value": 5}


@pytest.fixture
def root(world: World, django_user_model: Any) -> Caller:
    """An operator."""
    return person(django_user_model, "root", "operator", None)


def put(who: Caller, **body: Any) -> Any:
    return who.client.put(
        f"{API}/limits",
        json.dumps(WHY | body),
        content_type="application/json",
        headers=who.headers,
    )


@pytest.mark.parametrize(
    ("scope", "of"),
    [
        ("pool", "main"),
        ("executor", "sim"),
        ("provider", "simulated"),
        ("user", "7"),
        ("key", "repo/x"),
    ],
)
def test_a_limit_is_set_by_name_listed_audited_and_lifted(
    root: Caller, scope: str, of: str
) -> None:
    answer = put(root, scope=scope, of=of, measure="running", value=5)
    assert answer.status_code == 200, answer.json()
    told = answer.json()
    assert (told["action"], told["after"]["running"], told["before"]["running"]) == (
        "limit_set", 5, None,
    )  # fmt: skip
    listed = {"scope": scope, "of": of, "measure": "running", "value": 5, "in_force": 5,
              "in_use": 0, "escalations": []}  # fmt: skip
    assert root.get("/limits").json() == [listed]
    assert put(root, scope=scope, of=of, measure="running", value=6).status_code == 200
    assert root.get("/limits").json() == [listed | {"value": 6, "in_force": 6}]
    assert put(root, scope=scope, of=of, measure="running", value=None).status_code == 200
    assert root.get("/limits").json() == []
    assert AuditEntry.objects.filter(action="limit_set", actor="root").count() == 3


def test_the_global_limit_needs_no_name(root: Caller) -> None:
    assert put(root, **GOOD).status_code == 200
    assert root.get("/limits").json()[0]["of"] == "all"


def test_the_list_is_filtered_by_scope_and_measure(root: Caller) -> None:
    put(root, **GOOD)
    put(root, scope="provider", of="simulated", measure="tokens_a_minute", value=9)
    assert len(root.get("/limits").json()) == 2
    assert [one["value"] for one in root.get("/limits", scope="provider").json()] == [9]
    assert [one["value"] for one in root.get("/limits", measure="running").json()] == [5]
    assert root.get("/limits", colour="red").status_code == 400


def test_a_tenants_rate_is_seen_by_who_sees_the_tenant_as_a_whole(
    world: World, root: Caller, django_user_model: Any
) -> None:
    for of in ("acme", "other"):
        put(root, scope="tenant", of=of, measure="requests_a_minute", value=5)
    put(root, **GOOD)
    boss = person(django_user_model, "boss", "tenant_admin", world.acme)
    told = [{"scope": "tenant", "of": "acme", "measure": "requests_a_minute",
             "value": 5, "in_force": 5, "in_use": 0, "escalations": []}]  # fmt: skip
    assert boss.get("/limits").json() == told
    assert caller(world.web).get("/limits").json() == []


def test_only_an_operator_sets_limits(world: World, django_user_model: Any) -> None:
    boss = person(django_user_model, "boss", "tenant_admin", world.acme)
    for who in (boss, caller(world.web)):
        answer = put(who, **GOOD)
        assert (answer.status_code, "Only an operator" in answer.json()["detail"]) == (403, True)
    assert put(Caller(), **GOOD).status_code == 401
    assert not Limit.objects.exists()


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"scope": None}, "scope", "as a text"),
        ({"scope": "moon"}, "scope", "not 'moon'"),
        ({"scope": "workspace", "of": "web"}, "scope", "its own address"),
        ({"measure": "smell"}, "measure", "not 'smell'"),
        ({"measure": "tokens_a_minute"}, "measure", "one of provider, tenant, not global"),
        ({"value": 0}, "value", "1 to 1000000"),
        ({"value": 1_000_001}, "value", "1 to 1000000"),
        ({"value": "5"}, "value", "whole number"),
        ({"of": "most"}, "of", "one id"),
        ({"scope": "pool", "of": "void"}, "of", "no pool 'void'"),
        ({"scope": "provider", "of": "void"}, "of", "provider 'void'"),
        ({"scope": "key", "of": "  "}, "of", "Name the key"),
        ({"scope": "user", "of": "a\nb"}, "of", "Name the user"),
        ({"scope": "key", "of": "k" * 201}, "of", "200 characters"),
        ({"colour": "red"}, "colour", "no field"),
        ({"reason": ""}, "reason", "Say why"),
    ],
)
def test_what_is_wrong_is_named(
    root: Caller, change: dict[str, Any], field: str, words: str
) -> None:
    answer = put(root, **(GOOD | change))
    assert answer.status_code == 400, answer.json()
    wrong = answer.json()["errors"][0]
    assert (wrong["field"], words in wrong["sentence"]) == (field, True), wrong
    assert not Limit.objects.exists()


def test_a_value_must_be_given_so_that_no_limit_goes_by_a_slip(root: Caller) -> None:
    put(root, **GOOD)
    body = {name: value for name, value in GOOD.items() if name != "value"}
    assert put(root, **body).status_code == 400
    assert Limit.objects.get().value == 5


def test_a_long_key_is_limited_and_the_audit_has_the_whole_of_it(root: Caller) -> None:
    key = "k" * 200
    assert put(root, scope="key", of=key, measure="running", value=2).status_code == 200
    entry = AuditEntry.objects.get(action="limit_set")
    assert (entry.target_id, entry.after["scope_id"]) == (key[:64], key)


@pytest.mark.parametrize(
    ("scope", "of", "measure"),
    [
        ("pool", "main", "running"),
        ("executor", "sim", "running"),
        ("tenant", "acme", "tokens_a_minute"),
    ],
)
def test_the_audit_says_whose_limit_it_was(root: Caller, scope: str, of: str, measure: str) -> None:
    told = put(root, scope=scope, of=of, measure=measure, value=2).json()
    assert (told["before"]["of"], told["after"]["of"]) == (of, of)
    assert told["after"] == {"scope_id": told["target_id"], "of": of, measure: 2}


def test_the_audit_of_what_is_kept_by_its_name_has_the_name_once(root: Caller) -> None:
    told = put(root, scope="provider", of="simulated", measure="running", value=2).json()
    assert told["after"] == {"scope_id": "simulated", "running": 2}


def test_a_limit_of_what_is_gone_is_listed_by_its_id_and_can_be_lifted(root: Caller) -> None:
    put(root, scope="executor", of="sim", measure="running", value=2)
    gone = str(Executor.objects.get(slug="sim").id)
    Executor.objects.all().delete()
    assert root.get("/limits").json()[0]["of"] == gone
