"""`/metrics`: read by Prometheus' own parser, beside what the board and the API tell; and who may read it."""

import time
from typing import Any

import pytest
import redis
from django.db import DatabaseError
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from scheduling.cockpit import metrics as module
from tests.scheduling.cockpit.boards import Story, Waiting, mixed
from tests.scheduling.cockpit.conftest import People, Publish
from tests.scheduling.cockpit.foretold import Past
from tests.scheduling.cockpit.test_pages import signed_in

WORDS = "a token of the test"


def scraped(client: Client, **more: Any) -> dict[tuple[str, ...], float]:
    """Return the values by name and label values."""
    answer = client.get("/metrics", **more)
    assert answer.status_code == 200, answer.content
    return {
        (one.name.removeprefix("telemachus_"), *one.labels.values()): one.value
        for family in text_string_to_metric_families(answer.content.decode())
        for one in family.samples
    }


def test_the_figures_of_a_pool_are_those_of_its_snapshot(people: People, publish: Publish) -> None:
    kept_out = Waiting(number=9, start=None)
    running = [Waiting(number=7, cost=3), Waiting(number=8, cost=2, tenant="beta")]
    waiting = [*mixed(4).waiting, kept_out]
    publish(Story(waiting=waiting, running=running, at=time.time() - 5, ids=people.ids), 1)
    told = scraped(signed_in(people.olga))
    names = ("pool_budget_units", "pool_reserve_units", "pool_in_use_units", "jobs_startable",
             "jobs_kept_out", "jobs_running", "jobs_overdue", "tenants_waiting", "clear_seconds",
             "policy_version")  # fmt: skip
    assert [told[name, "0-cockpit"] for name in names] == [8, 1, 5, 4, 1, 2, 0, 2, 900, 3]
    assert told["snapshot_age_seconds", "0-cockpit"] == pytest.approx(5, abs=2)
    names = ("executor_slots", "executor_slots_configured", "executor_in_use", "executor_available")
    assert [told[name, "gpu-a", "0-cockpit"] for name in names] == [4, 4, 1, 1]


def test_the_scores_of_the_etas_are_those_of_the_api(people: People) -> None:
    Past(people)
    client = signed_in(people.olga)
    whole = client.get("/api/v1/forecast/honesty").json()["rows"][0]
    told = scraped(client)
    pool = next(key[1] for key in told if key[0] == "eta_scored")
    found = [told[f"eta_{name}", pool] for name in ("scored", "error_seconds", "naive_error_seconds",
                                                   "bias_seconds", "hit_ratio")]  # fmt: skip
    names = ("count", "mean_error_s", "naive_error_s", "bias_s", "hit_rate")
    assert found == pytest.approx([whole[name] for name in names], abs=1e-3)


def test_without_a_snapshot_and_without_scores_there_is_no_value(people: People) -> None:
    assert scraped(signed_in(people.olga)) == {}


@pytest.mark.parametrize(
    ("sent", "status"),
    [(f"Bearer {WORDS}", 200), (f"Bearer {WORDS}.", 401), (f"Basic {WORDS}", 401), ("", 401),
     ("Bearer \N{LATIN SMALL LETTER E WITH ACUTE}", 401)],
)  # fmt: skip
def test_the_token_and_nothing_like_it_opens_the_figures(
    db: None, settings: Any, sent: str, status: int
) -> None:
    settings.METRICS_TOKEN = WORDS
    answer = Client().get("/metrics", headers={"Authorization": sent})
    assert answer.status_code == status
    if status != 200:
        assert answer["WWW-Authenticate"].startswith("Bearer")
        assert b"TELEMACHUS_METRICS_TOKEN" in answer.content
        assert WORDS.encode() not in answer.content


def test_without_a_token_set_no_token_opens_them(db: None) -> None:
    for sent in ("Bearer ", "Bearer", ""):
        assert Client().get("/metrics", headers={"Authorization": sent}).status_code == 401


def test_who_is_no_operator_is_refused(people: People) -> None:
    answer = signed_in(people.vera).get("/metrics")
    assert (answer.status_code, b"ask an operator" in answer.content) == (403, True)


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("valkey_client", redis.ConnectionError),
        ("eta_honesty", DatabaseError),
        ("viewer_of_user", DatabaseError),
    ],
)
def test_a_service_that_is_away_is_told(
    people: People, monkeypatch: pytest.MonkeyPatch, place: str, error: type[Exception]
) -> None:
    Past(people)

    def away(*_: object) -> None:
        raise error("secret of the server")

    monkeypatch.setattr(module, place, away)
    answer = signed_in(people.olga).get("/metrics")
    assert answer.status_code == 503
    assert error.__name__ in answer.content.decode()
    assert b"secret" not in answer.content
