"""Waiting for a job over HTTP, on a real server: long polls and streams of its events."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.e2e.system import System
from tests.e2e.test_flow import job, submit

STREAM = {"Accept": "text/event-stream"}


@contextmanager
def stream(client: httpx.Client, name: str, **headers: str) -> Iterator[httpx.Response]:
    path = f"/jobs/{name}/events"
    with client.stream("GET", path, headers=STREAM | headers, timeout=30) as response:
        yield response


def told(response: httpx.Response) -> list[dict]:
    """Read a stream to its end: each event with its id, name and data."""
    events, now = [], {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if name in ("id", "event", "data"):
            now[name] = value
        elif not line and now:
            events.append(now)
            now = {}
    return events


def test_jobs_are_waited_for_and_their_events_streamed(system: System) -> None:
    system.seed(budget=40, share_by="turns")
    with system.client("one") as client, system.client("two") as other:
        a_wait_answers_when_the_job_has_come_so_far(client)
        a_submission_may_wait_for_its_result(client)
        many_waits_stop_nobody(client)
        a_stream_tells_all_and_ends_with_the_job(client)
        a_stream_goes_on_behind_the_last_event(client)
        wrong_asking_is_refused(client, other)
        places_to_stream_are_bounded(client)
        a_removed_key_ends_its_stream(system, client)
        a_wait_whose_key_is_removed_tells_nothing(system)


def a_wait_answers_when_the_job_has_come_so_far(client: httpx.Client) -> None:
    name = client.post("/jobs", json=job(5)).json()["id"]
    began = time.monotonic()
    assert client.get(f"/jobs/{name}?wait=20&wait_for=running").json()["state"] == "running"
    assert time.monotonic() - began < 4
    assert client.get(f"/jobs/{name}?wait=20").json()["state"] == "done"
    assert 4.0 < time.monotonic() - began < 15
    slow = client.post("/jobs", json=job(30)).json()["id"]
    began = time.monotonic()
    assert client.get(f"/jobs/{slow}?wait=1").json()["state"] in ("queued", "running")
    assert 0.9 < time.monotonic() - began < 10
    client.post(f"/jobs/{slow}/cancel")


def a_submission_may_wait_for_its_result(client: httpx.Client) -> None:
    answer = client.post("/jobs?wait=20", json=job(0.3), headers={"Idempotency-Key": "w"})
    assert answer.status_code == 201
    found = answer.json()
    assert (found["state"], found["result"]["simulated"]) == ("done", True)
    assert found["decision"]["verdict"] in ("admitted", "queued")
    again = client.post("/jobs?wait=20", json=job(0.3), headers={"Idempotency-Key": "w"})
    assert (again.json()["id"], again.headers["Idempotent-Replayed"]) == (found["id"], "true")


def many_waits_stop_nobody(client: httpx.Client) -> None:
    name = client.post("/jobs", json=job(8)).json()["id"]
    states: list[str] = []

    def wait() -> None:
        states.append(client.get(f"/jobs/{name}?wait=30").json()["state"])

    threads = [threading.Thread(target=wait) for _ in range(25)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    began = time.monotonic()
    assert client.get("/jobs").status_code == 200
    assert time.monotonic() - began < 1
    full = client.get(f"/jobs/{name}?wait=30")
    assert (full.status_code, full.json()["code"]) == (429, "too_many_waiting")
    assert full.headers["Retry-After"] == "2"
    for thread in threads:
        thread.join(20)
    assert states == ["done"] * 25


def a_stream_tells_all_and_ends_with_the_job(client: httpx.Client) -> None:
    name = client.post("/jobs", json=job(1.0)).json()["id"]
    with stream(client, name) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        events = told(response)
    assert [one["event"] for one in events][-2:] == ["placed", "finished"]
    listed = client.get(f"/jobs/{name}/events").json()["results"]
    assert [json.loads(one["data"]) for one in events] == listed
    assert [int(one["id"]) for one in events] == [one["id"] for one in listed]


def a_stream_goes_on_behind_the_last_event(client: httpx.Client) -> None:
    name = client.post("/jobs?wait=20", json=job(0.1)).json()["id"]
    listed = client.get(f"/jobs/{name}/events").json()["results"]
    with stream(client, name, **{"Last-Event-ID": str(listed[0]["id"])}) as response:
        assert [int(one["id"]) for one in told(response)] == [one["id"] for one in listed[1:]]
    with stream(client, name, **{"Last-Event-ID": str(listed[-1]["id"])}) as response:
        assert response.status_code == 204


def wrong_asking_is_refused(client: httpx.Client, other: httpx.Client) -> None:
    name = client.post("/jobs?wait=20", json=job(0.1)).json()["id"]
    for query in ("wait=61", "wait=-1", "wait=x", "wait=1&wait_for=done", "wait_until=1"):
        assert client.get(f"/jobs/{name}?{query}").status_code == 400
        assert client.post(f"/jobs?{query}", json=job(0.1)).status_code == 400
    assert client.get("/jobs?wait=1").status_code == 400
    with stream(client, name, **{"Last-Event-ID": "x"}) as response:
        assert response.status_code == 400
    with stream(other, name) as response:
        assert response.status_code == 404
    assert other.get(f"/jobs/{name}?wait=5").status_code == 404


def places_to_stream_are_bounded(client: httpx.Client) -> None:
    name = client.post("/jobs", json=job(30)).json()["id"]
    streams = [client.stream("GET", f"/jobs/{name}/events", headers=STREAM) for _ in range(21)]
    answers = [one.__enter__() for one in streams]
    assert [one.status_code for one in answers] == [200] * 20 + [429]
    assert client.get("/jobs").status_code == 200
    for one in streams:
        one.__exit__(None, None, None)
    time.sleep(1)
    client.post(f"/jobs/{name}/cancel")
    with stream(client, name) as response:
        assert told(response)[-1]["event"] == "canceled"


def a_removed_key_ends_its_stream(system: System, client: httpx.Client) -> None:
    name = client.post("/jobs", json=job(8)).json()["id"]
    ended: list[float] = []

    def follow() -> None:
        with stream(client, name) as response:
            told(response)
        ended.append(time.monotonic())

    thread = threading.Thread(target=follow)
    thread.start()
    time.sleep(1)
    system.sql(
        "UPDATE tenants_apikey k SET revoked_at = now() FROM tenants_workspace w, tenants_tenant t "
        "WHERE k.workspace_id = w.id AND w.tenant_id = t.id AND t.slug = 'one'"
    )
    began = time.monotonic()
    thread.join(15)
    assert ended
    assert ended[0] - began < 5
    assert client.get(f"/jobs/{name}").status_code == 401


def a_wait_whose_key_is_removed_tells_nothing(system: System) -> None:
    name = submit(system, "two", job(2))
    with system.client("two") as client:
        answers: list[int] = []
        thread = threading.Thread(
            target=lambda: answers.append(client.get(f"/jobs/{name}?wait=20").status_code)
        )
        thread.start()
        time.sleep(0.5)
        system.sql("UPDATE tenants_apikey SET revoked_at = now()")
        thread.join(20)
    assert answers == [401]
