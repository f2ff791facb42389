"""Kill -9 of each part while jobs run: `up` brings it back, nothing is lost, nothing done twice."""

import time

from tests.e2e.invariants import violations
from tests.e2e.system import System

JOBS = 240


def submit(system: System) -> None:
    for number, tenant in enumerate(("one", "two", "three")):
        rows = [
            {
                "workflow": "work",
                "kind": "simulated",
                "payload": {"seconds": 0.1 + 0.1 * ((number + index) % 4)},
            }
            for index in range(JOBS // 3)
        ]
        with system.client(tenant) as client:
            answer = client.post("/jobs/bulk", json={"jobs": rows})
        assert answer.status_code == 200, answer.text
        assert answer.json()["counts"].get("invalid", 0) == 0


def done(system: System) -> int:
    return system.sql("SELECT count(*) FROM scheduling_job WHERE state = 'done'")[0][0]


def test_all_jobs_end_exactly_once_through_a_kill_of_each_part(system: System):
    system.seed(budget=6, share_by="cost")
    submit(system)
    system.wait("the first jobs' end", lambda: done(system) >= 10)
    kills = (
        lambda: system.kill("-n model-1@"),
        lambda: system.kill("manage.py governor"),
        system.kill_valkey,
        system.kill_postgres,
    )
    for kill in kills:
        before = done(system)
        kill()
        time.sleep(0.5)
        system.wait("progress after a kill", lambda before=before: done(system) >= before + 20, 40)
    system.wait("the end of all jobs", lambda: done(system) == JOBS, 90)
    system.wait("rest", lambda: violations(system) == {}, 10)
    assert violations(system) == {}
    assert sum("starting it again" in line for line in system.lines) == 2
    assert sum("ended with signal SIGKILL" in line for line in system.lines) >= 2
