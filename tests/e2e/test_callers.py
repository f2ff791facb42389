"""A library user's process that is killed while it holds a slot: noticed within seconds."""

import signal
import subprocess
import sys
import time

from telemachus.local.home import BASE_DIR
from tests.e2e.invariants import violations
from tests.e2e.system import System

MODEL = """
import django; django.setup()
from scheduling.controls.pools import ExecutorSettings, executor_put
from scheduling.models import Pool
from billing.core.pricing import Rate
from billing.services.prices import cost_rule_publish
from datetime import UTC, datetime
from decimal import Decimal
by = {"acting_user": "test", "reason": "a test's scene"}
cost_rule_publish(offer=("own", "*"), starts_at=datetime.now(UTC),
                  rates=[Rate(meter="output", amount=Decimal(1))], **by)
settings = ExecutorSettings(kind="local-model", provider="own", job_kinds=["call"], slots=1)
executor_put(slug="gpu", pool=Pool.objects.get(), settings=settings, **by)
"""


def caller(system: System) -> tuple[subprocess.Popen, str]:
    """Start a caller and wait until it holds its slot; return it with its job."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.caller", "one"],
        env=system.env,
        cwd=BASE_DIR,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def state(system: System, name: str) -> tuple[str, str, str]:
    return system.sql(
        "SELECT j.state, j.reason, a.state FROM scheduling_job j JOIN scheduling_attempt a "
        "ON a.job_id = j.id WHERE j.id = %s",
        name,
    )[0]


def end(process: subprocess.Popen) -> None:
    process.wait(30)
    assert process.stdout is not None
    process.stdout.close()


def test_a_caller_that_dies_or_freezes_gives_its_slot_to_the_next(system: System) -> None:
    system.seed(budget=4, share_by="turns")
    done = subprocess.run(
        [sys.executable, "-c", MODEL],
        env={**system.env, "DJANGO_SETTINGS_MODULE": "telemachus.settings"},
        cwd=BASE_DIR, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    holder = caller(system)
    for how in (signal.SIGKILL, signal.SIGSTOP, signal.SIGINT):
        process, name = holder
        assert state(system, name) == ("running", "placed", "running")
        time.sleep(1)
        began = time.monotonic()
        process.send_signal(how)
        system.wait("its job's end", lambda name=name: state(system, name)[0] == "failed", 10)
        took_s = time.monotonic() - began
        ended = "error" if how is signal.SIGINT else "lost"
        reason = "execution_error" if how is signal.SIGINT else "caller_lost"
        assert state(system, name)[:2] == ("failed", reason)
        assert state(system, name)[2] in (ended, "canceled")
        assert took_s < 5
        holder = caller(system)
        process.kill()
        end(process)
    process, name = holder
    assert state(system, name) == ("running", "placed", "running")
    process.kill()
    end(process)
    system.wait("rest", lambda: violations(system) == {}, 15)
