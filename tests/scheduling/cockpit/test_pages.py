"""Sign-in, the board without JavaScript, costs, probes, and the headers of every page."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from scheduling.events import valkey_client
from tenants.models import Membership
from tests.scheduling.cockpit.boards import job_id, mixed
from tests.scheduling.cockpit.conftest import People, Publish
from tests.scheduling.cockpit.pages import PASSWORD

PLAIN_STATIC = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}


@pytest.fixture(autouse=True)
def _plain_static() -> Iterator[None]:
    with override_settings(STORAGES=PLAIN_STATIC):
        yield


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_the_board_sends_a_stranger_to_the_sign_in_page(db: None) -> None:
    answer = Client().get("/")
    assert answer.status_code == 302
    assert answer["Location"] == "/login/?next=/"


def test_signing_in_leads_to_the_page_asked_for_and_out_again(people: People) -> None:
    client = Client()
    answer = client.post(
        "/login/?next=/costs/", {"username": "olga", "password": PASSWORD, "next": "/costs/"}
    )
    assert (answer.status_code, answer["Location"]) == (302, "/costs/")
    assert client.get("/costs/").status_code == 200
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/costs/").status_code == 302


def test_a_wrong_password_is_told_without_saying_which_part_was_wrong(people: People) -> None:
    answer = Client().post("/login/", {"username": "olga", "password": "wrong"})
    assert answer.status_code == 200
    assert 'role="alert"' in answer.text
    assert "wrong" not in answer.text


def test_sign_in_never_leads_to_another_site(people: People) -> None:
    form = {"username": "olga", "password": PASSWORD, "next": "https://evil.example/"}
    assert Client().post("/login/", form)["Location"] == "/"


def test_the_board_is_readable_without_javascript(people: People, publish: Publish) -> None:
    publish(mixed(60, ids=people.ids), 1)
    text = signed_in(people.olga).get("/").text
    assert text.count('role="rowheader"') == 50
    assert "Enable JavaScript for live updates" in text
    assert job_id(0)[-8:] in text


def test_a_viewers_page_holds_nothing_of_another_tenant(people: People, publish: Publish) -> None:
    publish(mixed(6, ids=people.ids), 1)
    text = signed_in(people.vera).get("/").text.lower()
    assert job_id(0)[-8:] in text
    assert "beta" not in text
    assert job_id(1)[-8:] not in text


def test_one_who_sees_nothing_is_refused_and_one_who_sees_costs_goes_there(people: People) -> None:
    people.seat.delete()
    answer = signed_in(people.vera).get("/")
    assert answer.status_code == 403
    assert "Sign out" in answer.text
    acme = people.tenants["acme"]
    Membership.objects.create(user=people.vera, tenant=acme, role="billing_viewer")
    assert signed_in(people.vera).get("/")["Location"] == "/costs/"


def test_the_board_says_when_nothing_has_been_published(people: People) -> None:
    text = signed_in(people.olga).get("/").text
    assert "No order has been published yet" in text


def test_pages_need_no_inline_script_or_style(people: People, publish: Publish) -> None:
    publish(mixed(6, ids=people.ids), 1)
    client = signed_in(people.olga)
    for path in ("/", "/costs/", "/forecast/", "/nothing-here/"):
        answer = client.get(path)
        policy = answer["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert " style=" not in answer.text
        assert " onclick=" not in answer.text


def test_costs_are_for_those_who_may_see_costs(people: People) -> None:
    assert signed_in(people.vera).get("/costs/").status_code == 403
    assert signed_in(people.vera).get("/costs/export/").status_code == 403
    Membership.objects.create(
        user=people.vera, tenant=people.tenants["acme"], role="billing_viewer"
    )
    assert signed_in(people.vera).get("/costs/").status_code == 200


def test_costs_come_as_csv_with_the_same_question(people: People) -> None:
    answer = signed_in(people.olga).get("/costs/export/?by=model&since=2026-01-01&until=2026-01-31")
    assert answer["Content-Type"].startswith("text/csv")
    assert "costs-by-model-2026-01-01-to-2026-01-31.csv" in answer["Content-Disposition"]
    assert answer.getvalue().decode().startswith("key,label,jobs,")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("by=colour", "Group by one of"),
        ("since=yesterday", "YYYY-MM-DD"),
        ("since=2026-02-01&until=2026-01-01", "after the last one"),
        ("until=9999-12-31", "lie between"),
    ],
)
def test_a_bad_question_about_costs_says_what_to_write(
    people: People, query: str, words: str
) -> None:
    client = signed_in(people.olga)
    for path in ("/costs/", "/costs/export/"):
        answer = client.get(f"{path}?{query}")
        assert answer.status_code == 400
        assert words in answer.content.decode()


def test_healthz_answers_without_any_service(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Client().get("/healthz").content == b"ok\n"


def test_readyz_names_what_is_missing(people: People, publish: Publish) -> None:
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert json.loads(answer.content)["database"] == "ok"
    assert "no order snapshot" in json.loads(answer.content)["governor"]
    publish(mixed(1, at=time.time() - 60), 1)
    assert "is a governor running" in json.loads(Client().get("/readyz").content)["governor"]
    publish(mixed(1), 2)
    answer = Client().get("/readyz")
    assert (answer.status_code, json.loads(answer.content)["ready"]) == (200, True)


def test_readyz_tells_a_broker_that_is_away(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "scheduling.cockpit.health.valkey_client", lambda: valkey_client.__wrapped__()
    )
    with override_settings(REDIS_URL="redis://127.0.0.1:1/0"):
        answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert json.loads(answer.content)["broker"] == "no answer (ConnectionError)"


def test_every_page_has_an_address_by_name() -> None:
    names = (
        "board", "login", "logout", "costs", "costs-export", "forecast", "healthz", "readyz",
        "metrics",
    )  # fmt: skip
    assert [reverse(name) for name in names] == [
        "/", "/login/", "/logout/", "/costs/", "/costs/export/", "/forecast/", "/healthz", "/readyz",
        "/metrics",
    ]  # fmt: skip
