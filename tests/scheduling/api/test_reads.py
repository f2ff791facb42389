"""GET /jobs and below: filters, pages that lose nothing (case C68), details, stories."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from billing.models import CostRule, LedgerEntry
from scheduling.api.serializers import AlternativeSerializer
from scheduling.models import Attempt, Executor, Job
from scheduling.models.workflow import Workflow
from tests.scheduling.api.conftest import START, Caller, job

pytestmark = pytest.mark.django_db


def submit(web: Caller, **more: Any) -> str:
    response = web.post("/jobs", job(**more))
    assert response.status_code in (201, 422), response.content
    return str(response.json().get("id") or response.json()["job"])


def listed(web: Caller, **query: Any) -> list[str]:
    response = web.get("/jobs", **query)
    assert response.status_code == 200, response.content
    return [row["id"] for row in response.json()["results"]]


def walk(web: Caller, between: Callable[[], None] | None = None) -> list[str]:
    seen: list[str] = []
    query: dict[str, Any] = {"page_size": 7}
    while True:
        told = web.get("/jobs", **query).json()
        seen += [row["id"] for row in told["results"]]
        if told["next_cursor"] is None:
            return seen
        query["cursor"] = told["next_cursor"]
        if between is not None:
            between()
            between = None


def test_thirty_jobs_of_one_transaction_are_walked_once_each(web):
    web.post("/jobs/bulk", {"jobs": [job()] * 30}, Idempotency_Key="one-transaction")
    seen = walk(web)
    assert len(seen) == len(set(seen)) == 30


def test_a_walk_sees_every_untouched_job_once_while_others_come_and_change(web):
    web.post("/jobs/bulk", {"jobs": [job()] * 30})
    before = set(listed(web, page_size=500))

    def disturb() -> None:
        submit(web)
        oldest = Job.objects.earliest("seq")
        assert web.post(f"/jobs/{oldest.id}/cancel").status_code == 200

    seen = walk(web, disturb)
    assert len(seen) == len(set(seen))
    assert before <= set(seen)


def test_filters_narrow_the_list(web, world):
    Workflow.objects.create(tenant=world.acme, pool=world.pool, slug="ship", name="Ship")
    first = submit(web, **{"class": "batch"})
    second = submit(web, workflow="ship")
    denied = submit(web, cost=9)
    assert listed(web) == [denied, second, first]
    assert listed(web, state="denied") == [denied]
    assert listed(web, state=["denied", "queued"]) == [denied, second, first]
    assert listed(web, state="queued,deferred") == [second, first]
    assert listed(web, **{"class": "batch"}) == [first]
    assert listed(web, workflow="ship") == [second]
    assert listed(web, kind="chat") == []
    assert listed(web, q="SHI") == [second]
    assert listed(web, q=first) == [first]
    assert listed(web, tenant="acme", workspace="acme/web") == [denied, second, first]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"state": "sleeping"}, "state"),
        ({"page_size": "0"}, "page_size"),
        ({"page_size": "501"}, "page_size"),
        ({"page_size": "x"}, "page_size"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "seq.-1"}, "cursor"),
        ({"cursor": "seq." + "9" * 30}, "cursor"),
        ({"q": "a\x00b"}, "q"),
        ({"format": "xml"}, "format"),
    ],
)
def test_a_bad_filter_is_400_by_name(web, query, field):
    response = web.get("/jobs", **query)
    assert response.status_code == 400
    assert [error["field"] for error in response.json()["errors"]] == [field]


def test_a_job_is_shown_with_attempts_decision_and_exact_spend(web, world):
    job_id = submit(web)
    stored = Job.objects.get(id=job_id)
    executor = Executor.objects.get()
    attempt = Attempt.objects.create(
        job=stored, fence=1, executor=executor, state="complete", cost=2, charge=2,
        job_class="normal", expected_s=1, lease_until=START, started_at=START, ended_at=START,
        spend=Decimal("0.001615"),
    )  # fmt: skip
    LedgerEntry.objects.create(
        dispatched_at=START, tenant=world.acme, workspace=world.web, member_id="m",
        workflow_id=stored.workflow_id, job_id=stored.id, attempt_id=attempt.id,
        provider="simulated", model="m", kind="incurred", meter="input", quantity=323,
        amount=Decimal("0.001615"), rule=CostRule.objects.get(),
    )  # fmt: skip
    response = web.get(f"/jobs/{job_id}")
    told = response.json()
    assert told["spend"] == "0.001615"
    assert told["attempts"][0]["spend"] == "0.001615"
    assert (told["attempts"][0]["executor"], told["attempts"][0]["state"]) == ("sim", "complete")
    assert told["decision"]["reason"] == "in_order"
    assert told["payload"] == {"seconds": 1}
    assert told["order"] is None  # no order has been published
    assert not re.search(r'"spend": ?\d', response.content.decode())


def test_a_job_without_attempts_has_cost_nothing(web):
    assert web.get(f"/jobs/{submit(web)}").json()["spend"] == "0"


def test_the_story_of_a_job_is_told_in_order(web):
    job_id = submit(web)
    web.post(f"/jobs/{job_id}/cancel", {"reason": "no longer needed"})
    events = web.get(f"/jobs/{job_id}/events").json()
    assert [event["event"] for event in events["results"]] == ["queued", "canceled"]
    assert events["results"][1]["data"]["why"] == "no longer needed"
    assert events["next_cursor"] is None
    first = web.get(f"/jobs/{job_id}/events", page_size=1).json()
    second = web.get(f"/jobs/{job_id}/events", page_size=1, cursor=first["next_cursor"]).json()
    assert [second["results"][0]["event"], second["next_cursor"]] == ["canceled", None]
    decisions = web.get(f"/jobs/{job_id}/decisions").json()["results"]
    assert [decision["verdict"] for decision in decisions] == ["queued"]


def test_a_cursor_of_another_list_is_refused(web):
    job_id = submit(web)
    response = web.get(f"/jobs/{job_id}/events", cursor="seq.1")
    assert response.status_code == 400


def test_times_are_told_in_utc(web):
    told = web.get(f"/jobs/{submit(web)}").json()
    moment = datetime.fromisoformat(told["submitted_at"])
    assert told["submitted_at"].endswith("Z")
    assert abs((datetime.now(UTC) - moment).total_seconds()) < 60


def test_a_decision_of_an_earlier_release_still_shows_what_would_admit_the_job():
    shown = AlternativeSerializer(["Ask an operator."], many=True).data
    assert shown == [{"action": "", "sentence": "Ask an operator."}]
