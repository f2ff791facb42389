"""What is held is what live jobs have reserved, whatever dies at whatever moment.

    HELD_RUNS=200 HELD_SEED=7 python -m pytest tests/chaos/test_held.py -s

Each run submits jobs and, at a random moment of their lives, kills web, worker or governor with
signal 9. At once and until the next run the held sums must be those of the open reservations of
live jobs; within one sweep no ended job may have one. Without HELD_RUNS it is the short form of
`make test`.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from telemachus.local.home import BASE_DIR
from tests.chaos.test_chaos import post_until_taken
from tests.e2e.invariants import violations
from tests.e2e.system import System, system_of

RUNS = int(os.environ.get("HELD_RUNS", "2"))
SEED = int(os.environ.get("HELD_SEED", str(random.randrange(10**6))))
SWEEP_S = 30.0
JOBS = 12
TENANTS = ("one", "two", "three", "four")
PARTS = {
    "web": "daphne",
    "worker": "-n model-1@",
    "other worker": "-n model-2@",
    "governor": "manage.py governor",
}
# One statement sees one moment, so these hold at every moment and not only at rest.
WRONG = {
    "balances whose held sum is not that of the open lines of live jobs": (
        "SELECT count(*) FROM billing_balance b WHERE b.held <> (SELECT coalesce(sum(l.amount), 0) "
        "FROM billing_reservationline l JOIN billing_reservation r ON r.id = l.reservation_id "
        "JOIN scheduling_job j ON j.id = r.job_id WHERE l.budget_id = b.budget_id "
        "AND l.window_start = b.window_start AND r.state = 'open' "
        "AND j.state IN ('queued', 'running', 'waiting'))"
    ),
    "open reservations of jobs that are not live": (
        "SELECT count(*) FROM billing_reservation r LEFT JOIN scheduling_job j ON j.id = r.job_id "
        "WHERE r.state = 'open' "
        "AND (j.id IS NULL OR j.state NOT IN ('queued', 'running', 'waiting'))"
    ),
    "live jobs without a reservation": (
        "SELECT count(*) FROM scheduling_job j WHERE j.state IN ('queued', 'running', 'waiting') "
        "AND NOT EXISTS (SELECT FROM billing_reservation r "
        "WHERE r.job_id = j.id AND r.state = 'open')"
    ),
}


def wrong(system: System) -> dict[str, int]:
    found = {what: system.sql(statement)[0][0] for what, statement in WRONG.items()}
    return {what: count for what, count in found.items() if count}


def submit(system: System, dice: random.Random, run: int) -> None:
    rows = [
        {
            "workflow": "work",
            "kind": "simulated",
            "payload": {
                "seconds": round(dice.uniform(0.02, 0.5), 2),
                "tokens": {"input": 0, "output": dice.randrange(1_000_000)},
            },
            "max_attempts": 20,
        }
        for _ in range(JOBS)
    ]
    post_until_taken(system, dice.choice(TENANTS), rows, f"held-{SEED}-{run}")


class Checker:
    """`budgets_check` in a process that stays, so that two hundred runs need not load it anew."""

    def __init__(self, system: System) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.checker"],
            env=system.env,
            cwd=BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self) -> str:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("check\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    def stop(self) -> None:
        self._process.communicate(timeout=20)


def is_killed(system: System, name: str) -> bool:
    """Kill a part, unless it is down already and on its way back."""
    try:
        system.kill(PARTS[name])
    except (ProcessLookupError, AssertionError):
        return False
    return True


def one_run(
    system: System, checker: Checker, dice: random.Random, run: int, killed: Counter[str]
) -> None:
    submit(system, dice, run)
    time.sleep(dice.uniform(0.0, 1.0))
    name = next(name for name in dice.sample(sorted(PARTS), len(PARTS)) if is_killed(system, name))
    killed[name] += 1
    assert wrong(system) == {}, f"run {run}, {name} killed"
    assert checker.ask() == "0 differ;", f"run {run}, {name} killed"


@pytest.mark.slow
def test_what_is_held_is_what_live_jobs_reserved_after_every_kill(tmp_path: Path, ready_home: Path):
    system = system_of(ready_home, tmp_path)
    dice, killed = random.Random(SEED), Counter[str]()
    system.start()
    checker = Checker(system)
    try:
        system.seed(budget=8, share_by="cost")
        system.run("tests.e2e.seed_budgets", "0")
        for run in range(RUNS):
            one_run(system, checker, dice, run, killed)
        system.wait("rest", lambda: violations(system) == {}, SWEEP_S + RUNS)
        assert wrong(system) == {}
        assert "all balances agree" in system.manage("budgets_check")
        ended = system.sql("SELECT count(*) FROM scheduling_job")[0][0]
        assert ended == RUNS * JOBS
        report(killed, ended)
    except psycopg.Error as error:  # the database is never killed here
        raise AssertionError(system.tail()) from error
    finally:
        checker.stop()
        code = system.stop()
    assert code == 0, system.tail()


def report(killed: Counter[str], ended: int) -> None:
    """Print what was done and what held (shown with -s, and when the test fails)."""
    lines = [
        f"seed {SEED}: {RUNS} runs, {ended} jobs ended, budgets_check without a difference each",
        *(f"  {count:3} x kill -9 {name}" for name, count in sorted(killed.items())),
        *(f"    0 {what}" for what in WRONG),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
