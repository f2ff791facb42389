"""Reviews over HTTP: the list, and taking, judging and giving back, by whom and with what answers."""

from typing import Any

import pytest
from django.core.cache import cache

from scheduling.models import Executor, Job
from tests.scheduling.api.conftest import Caller, World, caller, job, person
from tests.scheduling.factories import done, make_reviewers, make_worker, place, running, settle

pytestmark = pytest.mark.django_db


@pytest.fixture
def reviewers(world: World) -> Executor:
    cache.clear()
    return make_reviewers(world.pool)


@pytest.fixture
def rita(world: World, reviewers: Executor) -> Caller:
    """A reviewer's key of acme/web."""
    return caller(world.web, "reviewer")


def in_review(who: Caller, reviewers: Executor, *, placed: bool = True, **more: Any) -> str:
    """Submit a job and do its work; its review lies before the reviewers, or waits for a slot."""
    name = str(who.post("/jobs", job(review=True, **more)).json()["id"])
    row = Job.objects.get(id=name)
    sim = Executor.objects.get(slug="sim")
    settle([running(row, make_worker(), executor=sim)], done({"text": "the answer"}))
    if placed:
        place(row, fence=2, executor=reviewers, cost=0, job_class="review", step=1, sent_at=None)
    return name


def told(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_the_list_shows_what_waits_the_oldest_first_page_by_page(
    web: Caller, rita: Caller, reviewers: Executor
) -> None:
    names = [in_review(web, reviewers), in_review(web, reviewers, placed=False)]
    names.append(in_review(web, reviewers))
    rita.post(f"/reviews/{names[2]}/claim")
    first = rita.get("/reviews", page_size=2).json()
    assert [one["id"] for one in first["results"]] == names[:2]
    rest = rita.get("/reviews", page_size=2, cursor=first["next_cursor"]).json()
    assert [one["id"] for one in rest["results"]] == names[2:]
    assert rest["next_cursor"] is None
    rows = first["results"] + rest["results"]
    assert [one["standing"]["state"] for one in rows] == ["open", "waits", "taken"]
    assert rows[2]["standing"]["by"].startswith("key:")
    assert rows[2]["standing"]["until"] > rows[2]["standing"]["since"]
    assert rows[0]["result"] == {"text": "the answer"}
    assert rows[0]["payload"] == {"seconds": 1}
    assert {one["phase"] for one in rows} == {"review"}
    assert {one["reason"] for one in rows} == {"review"}
    assert {one["outcome"] for one in rows} == {"unreviewed"}


def test_a_review_is_taken_given_back_and_judged(
    web: Caller, rita: Caller, reviewers: Executor
) -> None:
    name = in_review(web, reviewers)
    assert rita.post(f"/reviews/{name}/claim").status_code == 200
    assert rita.post(f"/reviews/{name}/release").json()["state"] == "queued"
    assert told(rita.post(f"/reviews/{name}/accept")) == (409, "review_waits")
    place(Job.objects.get(id=name), fence=3, executor=reviewers, cost=0, job_class="review")
    answer = rita.post(f"/reviews/{name}/accept", {"note": "good"})
    assert (answer.status_code, answer.json()["outcome"]) == (200, "accepted")
    assert rita.get("/reviews").json()["results"] == []
    events = web.get(f"/jobs/{name}/events").json()["results"]
    verdict = next(one for one in events if one["event"] == "accepted")
    assert verdict["data"]["note"] == "good"
    assert told(rita.post(f"/reviews/{name}/reject", {"note": "no"})) == (409, "not_in_review")


def test_a_rejection_needs_a_note_and_other_fields_are_refused(
    web: Caller, rita: Caller, reviewers: Executor
) -> None:
    name = in_review(web, reviewers)
    for body in (None, {}, {"note": " "}, {"note": 5}, {"note": "x" * 501}, {"note": None}):
        answer = rita.post(f"/reviews/{name}/reject", body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "note"), body
    answer = rita.post(f"/reviews/{name}/accept", {"verdict": "good"})
    assert answer.json()["errors"][0]["field"] == "verdict"
    assert rita.post(f"/reviews/{name}/claim", {"note": "x"}).status_code == 400
    answer = rita.post(f"/reviews/{name}/reject", {"note": "it is wrong"})
    assert (answer.json()["state"], answer.json()["outcome"]) == ("done", "rejected")
    assert answer.json()["sentence"] == "A reviewer rejected its work."


def test_a_verdict_is_given_once_for_its_key(
    web: Caller, rita: Caller, reviewers: Executor
) -> None:
    name = in_review(web, reviewers)
    first = rita.post(f"/reviews/{name}/accept", Idempotency_Key="k")
    again = rita.post(f"/reviews/{name}/accept", Idempotency_Key="k")
    assert (first.status_code, again.status_code) == (200, 200)
    assert again["Idempotent-Replayed"] == "true"


def test_who_may_review_nobody_elses_and_never_his_own(
    world: World, web: Caller, rita: Caller, reviewers: Executor, django_user_model: Any
) -> None:
    name = in_review(web, reviewers)
    assert told(web.post(f"/reviews/{name}/claim")) == (403, "forbidden")
    assert web.get("/reviews").json()["results"] == []
    for other in (caller(world.ops, "reviewer"), caller(world.main, "reviewer")):
        assert other.get("/reviews").json()["results"] == []
        assert other.post(f"/reviews/{name}/accept").status_code == 404
    admin = person(django_user_model, "ada", "tenant_admin", world.acme)
    own = in_review(_in(admin, "acme/web"), reviewers)
    assert told(admin.post(f"/reviews/{own}/accept")) == (403, "own_work")
    assert rita.post(f"/reviews/{own}/claim").status_code == 200
    assert told(admin.post(f"/reviews/{own}/accept")) == (403, "own_work")
    assert admin.post(f"/reviews/{name}/claim").status_code == 200
    assert told(rita.post(f"/reviews/{name}/accept")) == (409, "taken")
    olga = person(django_user_model, "olga", "operator", None)
    assert {one["id"] for one in olga.get("/reviews").json()["results"]} == {name, own}
    assert len(olga.get("/reviews", tenant="acme").json()["results"]) == 2
    assert olga.get("/reviews", tenant="other").json()["results"] == []
    assert rita.get("/reviews", tenant="other").status_code == 404


def _in(who: Caller, workspace: str) -> Caller:
    """Return the caller that names a workspace with each job."""

    class Named(Caller):
        def post(self, path: str, body: object = None, **headers: str) -> Any:
            sent = {**body, "workspace": workspace} if isinstance(body, dict) else body
            return super().post(path, sent, **headers)

    return Named(client=who.client)
