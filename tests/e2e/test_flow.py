"""The main job through the real API, governor, broker and workers."""

import time
from collections.abc import Iterator

from tests.e2e.seed import OPERATOR, PASSWORD
from tests.e2e.system import System

SEVEN = ["A1", "B1", "C2", "D1", "E2", "F3", "G1"]
FIRST_IN_LINE = {
    "share_by": "turns",
    "classes": [{"name": "normal", "fifo": True, "asked_by": "submitter"}],
}
TENANT = {"1": "one", "2": "two", "3": "three"}


def job(seconds: float = 0.0, **fields: object) -> dict:
    return {"workflow": "work", "kind": "simulated", "payload": {"seconds": seconds}, **fields}


def placed(system: System) -> Iterator[str]:
    rows = system.sql(
        "SELECT j.id::text FROM scheduling_attempt a JOIN scheduling_job j ON j.id = a.job_id "
        "ORDER BY a.id"
    )
    return (row[0] for row in rows)


def all_done(system: System, count: int) -> bool:
    return system.sql("SELECT count(*) FROM scheduling_job WHERE state = 'done'") == [(count,)]


# The ready home may hold the rows of its own first workers.
WORKERS = (
    "SELECT count(*) FROM scheduling_worker WHERE seen_at > clock_timestamp() - interval '2 s'"
)


def submit(system: System, tenant: str, body: dict) -> str:
    with system.client(tenant) as client:
        answer = client.post("/jobs", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def try_policy(system: System, body: dict) -> dict:
    """Try a draft, as an operator in a browser, on what waits now; the trial with its result."""
    with system.signed_in(OPERATOR, PASSWORD) as client:
        number = client.post("/policies", json={"body": body, "note": "an idea"}).json()["number"]
        asked = client.post(f"/policies/{number}/trial")
        assert asked.status_code == 202, asked.text
        return client.get(f"/trials/{asked.json()['id']}", params={"wait": 25}).json()


def assert_first_in_line_is_worse_for_the_newer(trial: dict) -> None:
    assert trial["state"] == "done", trial
    found = trial["result"]["all"]
    assert found["jobs"] == 1100
    waits = {one["tenant"]: one["mean_wait_s"] for one in found["tenants"]}
    assert waits["two"][1] < waits["two"][0]
    assert waits["three"][1] > waits["three"][0]


def test_seven_charts_then_a_thousand_against_a_hundred(system: System):
    system.seed(budget=1, share_by="turns")
    system.wait("the workers' arrival", lambda: system.sql(WORKERS) == [(3,)])
    first = submit(system, "four", job(4.0))
    system.wait("the first job's start", lambda: first in placed(system))
    names = {}
    for chart in SEVEN:
        names[submit(system, TENANT[chart[1]], job())] = chart[0]
        time.sleep(0.01)
    system.wait("all eight jobs' end", lambda: all_done(system, 8))
    order = [names[job_id] for job_id in placed(system) if job_id in names]
    assert "".join(order) == "ABCFDEG"

    blocker = submit(system, "four", job(300.0))  # until the trial is done
    system.wait("the blocker's start", lambda: blocker in placed(system))
    with system.client("two") as client:
        older = client.post("/jobs/bulk", json={"jobs": [job()] * 1000}).json()
    assert sum(older["counts"].values()) == 1000  # one may be told "at once" by the last picture
    with system.client("three") as client:
        newer = client.post("/jobs/bulk", json={"jobs": [job()] * 100}).json()
    assert_first_in_line_is_worse_for_the_newer(try_policy(system, FIRST_IN_LINE))
    with system.client("four") as client:
        assert client.post(f"/jobs/{blocker}/cancel").status_code < 300
    ids = {row["id"] for row in newer["results"]}
    known = 9
    system.wait("200 placements", lambda: len(list(placed(system))) >= known + 200, 90)
    first_200 = list(placed(system))[known : known + 200]
    assert abs(sum(job_id in ids for job_id in first_200) - 100) <= 1
