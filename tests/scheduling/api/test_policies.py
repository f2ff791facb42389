"""Policies over the API: drafted, checked, published and rolled back by operators alone."""

from typing import Any

import pytest

from scheduling.models import PolicyVersion
from scheduling.selectors.policy import active_policy
from tenants.controls import control_number
from tenants.models import AuditEntry
from tests.scheduling.api.conftest import Caller, World, caller, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga(world: World, django_user_model: Any) -> Caller:
    """An operator."""
    return person(django_user_model, "olga", "operator", None)


def draft(olga: Caller, **body: Any) -> int:
    response = olga.post("/policies", {"body": body, "note": "an idea"})
    assert response.status_code == 201, response.json()
    return int(response.json()["number"])


def fields(response: Any) -> dict[str, str]:
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    return {one["field"]: one["sentence"] for one in response.json()["errors"]}


def test_a_draft_is_kept_whole_and_published_with_a_note(olga):
    number = draft(olga, share_by="turns")
    shown = olga.get(f"/policies/{number}").json()
    assert (shown["state"], shown["author"], shown["note"]) == ("draft", "olga", "an idea")
    assert (shown["body"]["share_by"], shown["body"]["age_limit"]) == ("turns", 10)
    response = olga.post(f"/policies/{number}/publish", {"note": "because"})
    assert (response.status_code, response.json()["state"]) == (200, "active")
    assert response.json()["note"] == "because"
    assert active_policy().number == number
    entry = AuditEntry.objects.get(number=control_number())
    assert (entry.actor, entry.action, entry.reason) == ("olga", "policy_publish", "because")


def test_a_shown_body_can_be_sent_back_as_a_draft(olga):
    body = olga.get("/policies/1").json()["body"]
    number = draft(olga, **body)
    assert olga.get(f"/policies/{number}").json()["body"] == body | {"number": number}


def test_a_roll_back_answers_with_the_new_version(olga):
    number = draft(olga, share_by="turns")
    olga.post(f"/policies/{number}/publish", {"note": "x"})
    response = olga.post("/policies/1/roll-back", {"note": "worse than before"})
    assert (response.status_code, response.json()["number"]) == (200, number + 1)
    assert active_policy().share_by == "cost"


def test_versions_are_listed_newest_first_in_pages(olga):
    numbers = [draft(olga) for _ in range(4)]
    first = olga.get("/policies", page_size=3).json()
    assert [one["number"] for one in first["results"]] == numbers[:0:-1]
    assert "body" not in first["results"][0]
    rest = olga.get("/policies", page_size=3, cursor=first["next_cursor"]).json()
    assert [one["number"] for one in rest["results"]] == [numbers[0], 1]
    assert rest["next_cursor"] is None


def test_a_check_names_every_wrong_field_and_stores_nothing(olga):
    before = PolicyVersion.objects.count(), control_number()
    wrong = {"share_by": "luck", "retry": {"max_attempts": 0}, "fallback": [{"model": "m"}]}
    told = fields(olga.post("/policies/validate", {"body": wrong}))
    assert told == {
        "body.share_by": "Must be one of turns, cost, cost_time, tokens.",
        "body.retry.max_attempts": "Must be a whole number from 1 to 100.",
        "body.fallback.0.candidates": "Is missing; every entry has it.",
    }
    right = olga.post("/policies/validate", {"body": {"age_limit": 2}}).json()["body"]
    assert (right["age_limit"], right["preemption"]["enabled"]) == (2, False)
    assert (PolicyVersion.objects.count(), control_number()) == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"note": "x"}, "body"),
        ({"body": [], "note": "x"}, "body"),
        ({"body": {}}, "note"),
        ({"body": {}, "note": " "}, "note"),
        ({"body": {}, "note": "x" * 501}, "note"),
        ({"body": {}, "note": "x", "why": "y"}, "why"),
        ({"body": {"speed": 1}, "note": "x"}, "body.speed"),
    ],
)
def test_a_wrong_draft_is_refused_by_its_field(olga, body, field):
    assert set(fields(olga.post("/policies", body))) == {field}
    assert PolicyVersion.objects.count() == 1


def test_conflicts_are_409_and_say_what_to_do(olga):
    old, new = draft(olga), draft(olga)
    olga.post(f"/policies/{new}/publish", {"note": "x"})
    for path, told in (
        (f"/policies/{old}/publish", "draft anew"),
        (f"/policies/{new}/publish", "never changes"),
        (f"/policies/{new}/roll-back", "in force already"),
        (f"/policies/{old}/roll-back", "publish it"),
    ):
        response = olga.post(path, {"note": "x"})
        assert (response.status_code, response.json()["code"]) == (409, "policy_conflict")
        assert told in response.json()["detail"]
    assert active_policy().number == new


@pytest.mark.parametrize("number", ["7", "99999999999999"])
def test_an_unknown_version_is_404(olga, number):
    for response in (
        olga.get(f"/policies/{number}"),
        olga.post(f"/policies/{number}/publish", {"note": "x"}),
        olga.post(f"/policies/{number}/roll-back", {"note": "x"}),
    ):
        assert (response.status_code, response.json()["code"]) == (404, "not_found")


def test_a_repeat_with_the_same_key_makes_one_draft(olga):
    sent = {"body": {}, "note": "x"}
    first = olga.post("/policies", sent, Idempotency_Key="k")
    again = olga.post("/policies", sent, Idempotency_Key="k")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again["Idempotent-Replayed"] == "true"
    assert first.json() == again.json()
    assert PolicyVersion.objects.count() == 2


def test_a_repeated_publication_is_answered_as_before(olga):
    number = draft(olga)
    answers = [
        olga.post(f"/policies/{number}/publish", {"note": "x"}, Idempotency_Key="k").json()
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert active_policy().number == number


@pytest.mark.parametrize("role", ["submitter", "tenant_admin", "viewer", "billing_viewer"])
def test_to_others_than_operators_there_is_no_policy(world, olga, role):
    number = draft(olga)
    other = caller(world.web, role)
    for response in (
        other.get("/policies"),
        other.get(f"/policies/{number}"),
        other.post("/policies", {"body": {}, "note": "x"}),
        other.post("/policies/validate", {"body": {}}),
        other.post(f"/policies/{number}/publish", {"note": "x"}),
        other.post("/policies/1/roll-back", {"note": "x"}),
    ):
        assert (response.status_code, response.json()["code"]) == (404, "not_found")
    assert active_policy().number == 1
    assert Caller().get("/policies").status_code == 401
