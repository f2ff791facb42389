"""Trials over the API: asked for by operators alone, answered at once, looked at or waited for."""

import threading
import time
import uuid
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from scheduling.models import PolicyTrial
from scheduling.services.trials import OPEN_MOST, trial_fail, trial_finish, trial_take
from tests.scheduling.api.conftest import Caller, World, caller, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga(world: World, django_user_model: Any) -> Caller:
    """An operator."""
    return person(django_user_model, "olga", "operator", None)


def draft(olga: Caller, **body: Any) -> int:
    return int(olga.post("/policies", {"body": body, "note": "an idea"}).json()["number"])


def test_a_trial_is_asked_for_and_its_place_is_told(olga):
    number = draft(olga, share_by="turns")
    response = olga.post(f"/policies/{number}/trial")
    assert response.status_code == 202
    trial = response.json()
    assert (trial["number"], trial["state"], trial["result"]) == (number, "asked", None)
    assert response["Location"] == f"/api/v1/trials/{trial['id']}"
    assert olga.get(f"/trials/{trial['id']}").json() == trial


def test_an_open_trial_is_not_asked_for_twice_and_a_key_is_answered_again(olga):
    number = draft(olga)
    first = olga.post(f"/policies/{number}/trial", {"note": "see"}, Idempotency_Key="k")
    again = olga.post(f"/policies/{number}/trial", {"note": "see"}, Idempotency_Key="k")
    other = olga.post(f"/policies/{number}/trial")
    assert first.json()["id"] == again.json()["id"] == other.json()["id"]
    assert (again["Idempotent-Replayed"], again["Location"]) == ("true", first["Location"])


def test_a_result_is_shown_once_it_is_there(olga):
    number = draft(olga)
    trial = olga.post(f"/policies/{number}/trial").json()["id"]
    taken = trial_take(timezone.now())
    assert str(taken) == trial
    assert trial_finish(taken, result={"all": None}, against=1, now=timezone.now())
    shown = olga.get(f"/trials/{trial}", wait=5).json()
    assert (shown["state"], shown["against"], shown["result"]) == ("done", 1, {"all": None})
    assert not trial_fail(taken, sentence="late", now=timezone.now())


def test_no_more_trials_are_open_than_may_be(olga):
    for _ in range(OPEN_MOST):
        assert olga.post(f"/policies/{draft(olga)}/trial").status_code == 202
    refused = olga.post(f"/policies/{draft(olga)}/trial")
    assert (refused.status_code, refused.json()["code"]) == (409, "policy_conflict")
    assert "still running" in refused.json()["detail"]


def test_wrong_asks_say_what_is_wrong(olga):
    assert olga.post("/policies/999/trial").status_code == 404
    assert olga.get(f"/trials/{uuid.uuid4()}").status_code == 404
    number = draft(olga)
    told = olga.post(f"/policies/{number}/trial", {"pool": "main"})
    assert (told.status_code, told.json()["errors"][0]["field"]) == (400, "pool")
    assert olga.post(f"/policies/{number}/trial", {"note": " "}).status_code == 400
    trial = olga.post(f"/policies/{number}/trial").json()["id"]
    assert olga.get(f"/trials/{trial}", wait="long").status_code == 400


def test_to_others_there_is_no_trial(olga, world):
    trial = olga.post(f"/policies/{draft(olga)}/trial").json()["id"]
    admin = caller(world.web, "tenant_admin")
    assert admin.get(f"/trials/{trial}").status_code == 404
    assert admin.post("/policies/1/trial").status_code == 404
    assert Caller().get(f"/trials/{trial}").status_code == 401


@pytest.mark.django_db(transaction=True)
def test_a_wait_ends_with_the_trial(olga):
    trial = olga.post(f"/policies/{draft(olga)}/trial").json()["id"]

    def fail() -> None:
        PolicyTrial.objects.filter(id=trial).update(state="failed", sentence="no")
        connection.close()

    ending = threading.Timer(0.3, fail)
    ending.start()
    began = time.monotonic()
    shown = olga.get(f"/trials/{trial}", wait=20).json()
    ending.join()
    assert (shown["state"], shown["sentence"]) == ("failed", "no")
    assert time.monotonic() - began < 10
