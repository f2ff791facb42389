"""Everything is killed at random while jobs run; afterwards nothing is lost and nothing was doubled.

    CHAOS_SECONDS=600 CHAOS_JOBS=600 CHAOS_SEED=7 python -m pytest tests/chaos -s

Jobs of all kinds run: simulated ones (some must not run twice), chats on a model server that
misbehaves, flows, reviewed and urgent work. Without these settings it is the short form of
`make test`. Worker, governor, Valkey and PostgreSQL are killed first, then draws decide. A worker that dies must be noticed within 5 s.
"""

import json
import os
import random
import sys
import time

import httpx

from tests.chaos.monkey import Monkey
from tests.chaos.work import Reviewers, jobs, trouble
from tests.e2e.invariants import VIOLATIONS, violations
from tests.e2e.scripted_model import ScriptedModel
from tests.e2e.seed_everything import POLICY
from tests.e2e.system import System, system_of
from tests.scripted_model import OK, ModelServer

SECONDS = float(os.environ.get("CHAOS_SECONDS", "18"))
JOBS = int(os.environ.get("CHAOS_JOBS", "120"))
SEED = int(os.environ.get("CHAOS_SEED", str(random.randrange(10**6))))
UNITS = 8
TENANTS = ("one", "two", "three", "four")
SET_ROWS = 25


def submit_all(system: System, dice: random.Random) -> None:
    """Submit through whatever the web suffers: each call is repeated under its own key."""
    rows = jobs(dice, JOBS, SECONDS * UNITS / JOBS)
    for start in range(0, JOBS, SET_ROWS):
        tenant = TENANTS[start // SET_ROWS % len(TENANTS)]
        post_until_taken(system, tenant, rows[start : start + SET_ROWS], f"set-{start}")


def post_until_taken(system: System, tenant: str, rows: list[dict], key: str) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            with system.client(tenant) as client:
                headers = {"Idempotency-Key": key}
                answer = client.post("/jobs/bulk", json={"jobs": rows}, headers=headers)
            if answer.status_code == 200:
                return
            assert answer.status_code in (409, 502, 503), answer.text
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    message = f"{key} was not taken within 60 s\n{system.tail()}"
    raise AssertionError(message)


def ended(system: System) -> int:
    states = "('done', 'failed', 'canceled', 'expired', 'denied')"
    return system.sql(f"SELECT count(*) FROM scheduling_job WHERE state IN {states}")[0][0]  # noqa: S608


def test_all_jobs_end_exactly_once_whatever_is_killed(tmp_path, ready_home):
    system = system_of(ready_home, tmp_path)
    dice = random.Random(SEED)
    misbehaving, playing = ModelServer("m", "m2"), ScriptedModel()
    system.start()
    monkey = Monkey(system, dice)
    reviewers = None
    try:
        system.seed(budget=UNITS, share_by="cost", **POLICY)
        addresses = f"{misbehaving.address}/v1", playing.address
        keys = json.loads(system.run("tests.e2e.seed_everything", *addresses))
        reviewers = Reviewers(system, keys, random.Random(SEED))
        monkey.start()
        submit_all(system, dice)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            monkey.done[f"model server: {trouble(misbehaving, dice, hangs=SECONDS > 60)}"] += 1
            time.sleep(dice.uniform(0.5, 3.0) if SECONDS < 60 else dice.uniform(3.0, 10.0))
            monkey.strike()
        misbehaving.behave(OK, model="m")
        system.wait("the end of all jobs", lambda: ended(system) >= JOBS, SECONDS + 180)
        system.wait("rest", lambda: violations(system) == {}, 15)
        report(system, monkey)
        assert not monkey.first
        # the worker; the governor that is killed may be the standby, which is not under `up`'s care
        assert any("ended with signal SIGKILL" in line for line in system.lines)
        assert violations(system) == {}
    finally:
        if reviewers is not None:
            reviewers.stop()
        monkey.stop()
        code = system.stop()
        playing.close()
        misbehaving.close()
    assert code == 0, system.tail()


def report(system: System, monkey: Monkey) -> None:
    """Print what was done and what held (shown with -s, and when the test fails)."""
    states = dict(system.sql("SELECT state, count(*) FROM scheduling_job GROUP BY state"))
    attempts = dict(system.sql("SELECT state, count(*) FROM scheduling_attempt GROUP BY state"))
    lines = [
        f"seed {SEED}, {SECONDS:.0f} s, jobs {states}, attempts {attempts}",
        *(f"  {count:3} x {name}" for name, count in sorted(monkey.done.items())),
        f"  {sum(monkey.done.values()):3} deeds in all, {monkey.kills} of them kill -9",
        *(f"  0 {what}" for what in VIOLATIONS),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
