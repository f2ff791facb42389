"""A frozen leader: the second governor leads within 5 s, and the first dispatches nothing more.

    TAKEOVER_FROZEN_S=30 python -m pytest tests/e2e/test_takeover.py -s

Each session of a governor bears its name, and a trigger notes it with each attempt that is made, so
who dispatched what is a fact of the rows.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from telemachus.local.home import BASE_DIR
from tests.e2e.invariants import violations
from tests.e2e.system import MANAGE, System
from tests.e2e.test_flow import job

FROZEN_S = float(os.environ.get("TAKEOVER_FROZEN_S", "8"))
AFTER_S = 5.0
TAKEOVER_S = 5.0
NOTE = """
CREATE TABLE made_by (
    attempt uuid PRIMARY KEY, governor text NOT NULL, at timestamptz NOT NULL
);
CREATE FUNCTION note_maker() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO made_by VALUES (
        NEW.id, current_setting('application_name'), clock_timestamp()
    ); RETURN NULL;
END $$;
CREATE TRIGGER note_maker AFTER INSERT ON scheduling_attempt
    FOR EACH ROW EXECUTE FUNCTION note_maker();
"""


@contextmanager
def standby(system: System) -> Iterator[subprocess.Popen]:
    """A second governor that stands by; its sessions are named."""
    process = subprocess.Popen(
        [*MANAGE, "governor", "--skip-checks"],
        env={**system.env, "PGAPPNAME": "second"},
        cwd=BASE_DIR,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    here = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'second'"
    try:
        system.wait("the second's standing by", lambda: bool(system.sql(here)))
        yield process
    finally:
        process.terminate()
        process.wait(20)


def now(system: System) -> float:
    return system.sql("SELECT extract(epoch FROM clock_timestamp())::float8")[0][0]


def made(system: System, governor: str, since: float) -> list[float]:
    """Return when a governor made attempts from a moment on (database time)."""
    rows = system.sql(
        "SELECT extract(epoch FROM at)::float8 FROM made_by WHERE (governor = 'second') = %s "
        "AND at > to_timestamp(%s) ORDER BY at",
        governor == "second",
        since,
    )
    return [row[0] for row in rows]


def leader(system: System) -> int:
    """Return the process that leads."""
    holder = system.sql("SELECT holder FROM scheduling_governorlease")[0][0]
    (pid,) = [one for one in system.pids("manage.py governor") if holder.endswith(f":{one}")]
    return pid


def load(system: System) -> None:
    seconds = FROZEN_S + AFTER_S + 30
    rows = [job(0.5)] * int(seconds * 4)
    with system.client("one") as client:
        assert client.post("/jobs/bulk", json={"jobs": rows}).status_code == 200


def test_a_frozen_leader_is_replaced_and_dispatches_nothing_more(system: System) -> None:
    system.seed(budget=2, share_by="turns")
    system.sql(NOTE)
    with standby(system) as second:
        first = leader(system)
        assert first != second.pid
        load(system)
        system.wait("dispatches of the first", lambda: len(made(system, "first", 0)) >= 6)
        os.kill(first, signal.SIGSTOP)
        frozen = now(system)
        try:
            system.wait(
                "a dispatch of the second", lambda: bool(made(system, "second", frozen)), 20
            )
            time.sleep(max(0.0, frozen + FROZEN_S - now(system)))
        finally:
            thawed = now(system)
            os.kill(first, signal.SIGCONT)
        time.sleep(AFTER_S)
        took_s = made(system, "second", frozen)[0] - frozen
        late = made(system, "first", frozen)
        kept_on = made(system, "second", thawed)
        sys.stdout.write(
            f"frozen {thawed - frozen:.1f} s; the second's first dispatch after {took_s:.2f} s; "
            f"attempts of the first since: {len(late)}; of the second after SIGCONT: "
            f"{len(kept_on)}\n"
        )
        assert took_s < TAKEOVER_S
        assert late == []
        assert kept_on
        assert leader(system) == second.pid
        ids = system.sql(
            "SELECT id::text FROM scheduling_job WHERE state IN ('queued', 'deferred')"
        )
        with system.client("one") as client:
            for start in range(0, len(ids), 500):
                part = [row[0] for row in ids[start : start + 500]]
                client.post("/jobs/cancel", json={"ids": part})
        system.wait("rest", lambda: violations(system) == {}, 30)
    assert violations(system) == {}
