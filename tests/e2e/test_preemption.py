"""An incident over a full pool, with real workers: it gets in, and what made room goes on."""

import time

from tests.e2e.invariants import violations
from tests.e2e.system import System
from tests.e2e.test_flow import all_done, job, submit

SECONDS = 10.0
CLASSES = [{"name": "incident", "uses_reserve": True}, {"name": "normal"}, {"name": "batch"}]
RUNNING = "SELECT count(*) FROM scheduling_attempt WHERE state = 'running'"


def test_an_incident_over_a_full_pool_starts_within_seconds_and_what_made_room_goes_on(
    system: System,
):
    rules = {"enabled": True, "min_run_s": 1.0, "most_times": 2}
    system.seed(budget=3, share_by="cost", classes=CLASSES, preemption=rules)
    for tenant in ("one", "two", "three"):
        submit(system, tenant, job(SECONDS))
    system.wait("a full pool", lambda: system.sql(RUNNING) == [(3,)])
    time.sleep(1.5)
    began = time.monotonic()
    fire = submit(system, "four", job(0.0, **{"class": "incident"}))
    done = "SELECT 1 FROM scheduling_job WHERE id = %s AND state = 'done'"
    system.wait("the incident's end", lambda: system.sql(done, fire) == [(1,)], 20)
    assert time.monotonic() - began < SECONDS - 3.0
    system.wait("the end of all", lambda: all_done(system, 4), 60)
    ((victim, seconds),) = system.sql(
        "SELECT j.id, sum((a.usage->>'worker_seconds')::float8) FROM scheduling_job j "
        "JOIN scheduling_attempt a ON a.job_id = j.id WHERE j.preemptions = 1 GROUP BY j.id"
    )
    assert SECONDS - 0.5 <= seconds <= SECONDS + 2.0  # it went on from where it had stopped
    states = "SELECT state FROM scheduling_attempt WHERE job_id = %s ORDER BY fence"
    assert system.sql(states, victim) == [("preempted",), ("complete",)]
    assert violations(system) == {}
