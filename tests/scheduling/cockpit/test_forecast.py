"""The forecast page: the API's figures, those of the caller's tenants alone, and its faults in words."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.test import Client, override_settings
from django.utils import timezone

from scheduling.cockpit import forecast
from scheduling.cockpit.forecast import GROUPINGS
from scheduling.models import PolicyVersion, Pool
from scheduling.selectors.foresight import outlook
from scheduling.selectors.foresight import told as foresight_told
from tenants.models import Membership
from tests.scheduling.cockpit.conftest import People
from tests.scheduling.cockpit.foretold import Past, Sent
from tests.scheduling.cockpit.test_pages import PLAIN_STATIC, signed_in
from tests.scheduling.factories import make_pool

TARGETS = {"target_wait_s": "20", "outage_s": "7200", "recover_s": "600"}


@pytest.fixture(autouse=True)
def _plain_static() -> Iterator[None]:
    with override_settings(STORAGES=PLAIN_STATIC):
        yield


@pytest.fixture
def past(people: People) -> Past:
    return Past(people)


@pytest.fixture
def _still(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock: the page and the API are asked at one moment."""
    at = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: at)


def asked(client: Client, **query: str) -> tuple[Sent, dict[str, Any]]:
    """Return the page and the API's answer to one question."""
    page = client.get("/forecast/", query)
    assert page.status_code == 200
    told: dict[str, Any] = client.get("/api/v1/forecast", query).json()
    return Sent(page.text), told


@pytest.mark.usefixtures("_still")
@pytest.mark.parametrize("name", ["olga", "vera"])
def test_every_figure_is_the_one_that_the_api_tells_the_same_person(
    people: People, name: str
) -> None:
    client = signed_in(getattr(people, name))
    for by in GROUPINGS:
        page, told = asked(client, by=by, **TARGETS)
        assert len(told["hours"]) == 24
        compare(page, told)


def compare(page: Sent, told: dict[str, Any]) -> None:
    """See each figure of the page's tables beside that of the API."""
    hours = [
        [one[name] for name in ("arrivals", "arrivals_low", "arrivals_high", "depth", "depth_low",
                                "depth_high", "wait_s")]
        for one in told["hours"]
    ]  # fmt: skip
    figures = [one for one in page.figures["hours"] if "T" not in one]
    starts = [one for one in page.figures["hours"] if "T" in one]
    assert starts == [one["starts_at"] for one in told["hours"]]
    assert [float(one) for one in figures] == [one for hour in hours for one in hour]
    groups = []
    for one in told["groups"]:
        groups += [one[name] for name in ("seen", "arrivals", "arrivals_low", "arrivals_high")]
        names = ("count", "mean_s", "p50_s", "p10_s", "p90_s", "cost")
        groups += [one["runs"][name] for name in names] if one["runs"] else []
    assert page.numbers("groups") == groups
    assert groups
    advice = told["advice"]
    units = ("target_wait_s", "units", "units_high", "units_now", "recover_s", "outage_s",
             "units_recover", "reserve")  # fmt: skip
    assert page.numbers("advice") == [advice[name] for name in units]
    assert page.words["said"][0] == told["said"]


@pytest.mark.usefixtures("_still")
def test_key_figures_budgets_and_scores_are_the_apis_too(people: People) -> None:
    client = signed_in(people.olga)
    page, told = asked(client)
    keys = ("backlog", "clear_s", "clear_s_low", "clear_s_high", "run_s")
    wanted = [told[key] for key in keys] + [told["advice"]["units_now"]]
    assert page.numbers("tiles") == wanted
    ending = [one for one in told["budgets"] if one["exhausted_at"]]
    lasting = [one for one in told["budgets"] if not one["exhausted_at"]]
    assert [one["tenant"] for one in ending] == ["acme"]
    names = ("left", "per_hour", "exhausted_at")
    assert page.figures["ending"] == [ending[0][name] for name in names]
    assert page.figures["lasting"] == [lasting[0]["left"], lasting[0]["per_hour"]]
    rows = client.get("/api/v1/forecast/honesty").json()["rows"]
    order = ("count", "mean_error_s", "naive_error_s", "bias_s", "hit_rate")
    assert page.numbers("scores") == [row[name] for row in rows for name in order]
    assert len(rows) == 2


@pytest.mark.usefixtures("past")
def test_a_person_of_one_tenant_is_told_nothing_of_another(people: People) -> None:
    client = signed_in(people.vera)
    text = client.get("/forecast/").text
    page = Sent(text)
    assert "beta" not in text.lower()
    assert people.ids["beta"] not in text
    assert "acme" in " ".join(page.words["groups"])
    assert "All together" in page.words["scores"]
    assert not page.figures["ending"] + page.figures["lasting"]
    assert "There is no budget that you see." in text
    people.seat.delete()
    Membership.objects.create(
        user=people.vera, tenant=people.tenants["beta"], role="billing_viewer"
    )
    text = signed_in(people.vera).get("/forecast/").text
    page = Sent(text)
    assert "acme" not in text.lower()
    assert page.figures["lasting"][0] == "77"
    assert "No job of a tenant that you see has come" in text
    assert "No ETA of a tenant that you see came due" in text


@pytest.mark.usefixtures("past")
def test_who_is_of_no_tenant_is_refused_and_a_stranger_signs_in(people: People) -> None:
    people.seat.delete()
    assert signed_in(people.vera).get("/forecast/").status_code == 403
    answer = Client().get("/forecast/")
    assert (answer.status_code, answer["Location"]) == (302, "/login/?next=/forecast/")


@pytest.mark.usefixtures("past")
def test_one_of_several_pools_is_chosen_and_an_unknown_one_is_none(people: People) -> None:
    make_pool("annex", budget=3)
    client = signed_in(people.olga)
    first = client.get("/forecast/")
    assert (first.context["pool"], first.context["pools"]) == ("annex", ["annex", "main"])
    text = client.get("/forecast/", {"pool": "main"}).text
    assert "<option selected>main</option>" in text
    assert client.get("/forecast/", {"pool": "nowhere"}).status_code == 404


BAD = [
    ({"by": "colour"}, "Group by one of: workflow, kind, model, label."),
    ({"span": "year"}, "ETAs are scored over the last one of: day, week."),
    ({"target_wait_s": "0"}, "Target wait, seconds: write a whole number from 1 to 2,592,000."),
    ({"outage_s": "soon"}, "Outage to recover from, seconds: write a whole number"),
    ({"recover_s": "2592001"}, "Recovered within, seconds: write a whole number"),
]


@pytest.mark.usefixtures("past")
def test_a_bad_question_says_what_to_write(people: People) -> None:
    client = signed_in(people.olga)
    for query, words in BAD:
        answer = client.get("/forecast/", query)
        assert answer.status_code == 400
        assert words in answer.text
        assert 'name="target_wait_s"' in answer.text


def test_what_is_missing_is_said(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in(people.olga)
    assert forecast.NO_POOL in client.get("/forecast/").text
    Pool.objects.create(slug="bare", name="Bare", budget=4)

    def unpublished() -> None:
        raise PolicyVersion.DoesNotExist

    monkeypatch.setattr(outlook, "active_policy", unpublished)  # versions cannot be deleted
    answer = client.get("/forecast/")
    assert (answer.status_code, forecast.NO_POLICY in answer.text) == (503, True)

    def away(*_args: object) -> None:
        raise redis.ConnectionError

    monkeypatch.setattr(foresight_told, "pool_header", away)
    answer = client.get("/forecast/")
    assert (answer.status_code, forecast.NO_ORDER in answer.text) == (503, True)
