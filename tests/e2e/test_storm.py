"""A storm of refusals: the provider sees few retries, no slot is held, and all jobs end after it.

STORM_SECONDS and STORM_JOBS set its size; the whole of it is 60 seconds and 200 jobs of five tenants.
"""

import os
import time
from collections import Counter

from tests.e2e.system import System
from tests.scripted_model import ModelServer, storm

SECONDS = float(os.environ.get("STORM_SECONDS", "10"))
JOBS = int(os.environ.get("STORM_JOBS", "60"))
FLOOR = 10
SLOTS = 8
REFUSED = "SELECT count(*) FROM scheduling_attempt WHERE error_class = 'rate_limited'"
RETRIES = (
    "SELECT count(*) FROM scheduling_attempt a JOIN scheduling_attempt b ON b.job_id = a.job_id "
    "AND b.fence = a.fence - 1 AND b.state = 'error'"
)
LIVE = (
    "SELECT count(*) FROM scheduling_attempt WHERE state IN ('dispatched', 'running', 'stopping')"
)


def chat() -> dict:
    payload = {"messages": [{"role": "user", "content": "hi"}]}
    return {"workflow": "work", "kind": "chat", "model": "m", "payload": payload}


def test_a_storm_of_refusals_passes_without_a_storm_of_retries(system: System):
    server = ModelServer("m")
    try:
        system.seed_by(
            "tests.e2e.seed_storm", server.address, str(SLOTS), str(FLOOR), str(SECONDS / 6)
        )
        server.behave(storm(SECONDS))
        for tenant in system.keys:
            with system.client(tenant) as client:
                rows = [chat()] * (JOBS // len(system.keys))
                assert client.post("/jobs/bulk", json={"jobs": rows}).status_code == 200
        began, waiting = time.monotonic(), Counter()
        while time.monotonic() - began < SECONDS * 0.9:
            ((live,),) = system.sql(LIVE)
            waiting[live] += 1
            time.sleep(0.05)
        ((retries,),) = system.sql(RETRIES)
        assert retries <= FLOOR
        assert server.count(answer="429") >= 1
        # Most of the time nothing is out: who was refused waits without a slot.
        assert waiting[0] > 0.5 * sum(waiting.values())
        done = "SELECT count(*) FROM scheduling_job WHERE state = 'done'"
        system.wait("all jobs' end", lambda: system.sql(done) == [(JOBS,)], 60 + 4 * SECONDS)
        ((refused,),) = system.sql(REFUSED)
        assert (server.count(answer="429"), server.count(answer="ok")) == (refused, JOBS)
        ((retries,),) = system.sql(RETRIES)
        assert retries <= FLOOR + 0.2 * JOBS + 1
    finally:
        server.close()
