"""What a trial of a policy on the live backlog takes, from being taken to its result in the row.

    .venv/bin/python bench/trial.py [--waiting 100000] [--tenants 1000]

Fills a database with waiting jobs, drafts a policy that shares by turns and ages nothing, and runs
`manage.py policy_trial` as the control worker does: a process of its own, its start counted in. The
target is below 10 s at 100,000 jobs of 1,000 tenants.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import django
import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a script


from bench.places import places_open
from bench.size import JOBS, TENANTS, run
from bench.systems import Telemachus
from telemachus.local.home import BASE_DIR

INSIDE = "--inside"
DRAFT = {"share_by": "turns", "age_after": 0}


def inside() -> None:
    """In the system's surroundings: ask for a trial, run it, print the seconds and the result."""
    django.setup()
    from scheduling.controls.policies import policy_draft
    from scheduling.controls.trials import policy_simulate
    from scheduling.models import PolicyTrial, Worker
    from scheduling.services.trials import trial_take

    Worker.objects.create(
        name="bench",
        queues=["simulated"],
        threads=64,
        seen_at=datetime.now(UTC) + timedelta(hours=1),
    )
    number = policy_draft(body=DRAFT, note="bench", acting_user="bench", reason="bench")
    trial = policy_simulate(number=number, acting_user="bench", reason="bench")
    began = time.monotonic()
    trial_take(datetime.now(UTC))
    argv = [sys.executable, str(BASE_DIR / "manage.py"), "policy_trial", str(trial.id)]
    subprocess.run(argv, check=True)  # noqa: S603 (own program)
    took, used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    done = PolicyTrial.objects.get(id=trial.id)
    everything = (done.result or {})["all"]
    told = {
        "jobs": everything["jobs"],
        "moved": everything["moved"],
        "took": took,
        "inside": (done.result or {})["took_s"],
        "cpu": used.ru_utime + used.ru_stime,
        "mb": used.ru_maxrss / 1024,
    }
    sys.stdout.write(json.dumps(told))


def main() -> None:
    """Fill, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--tenants", type=int, default=1_000)
    asked = parser.parse_args()
    with places_open() as places:
        report(Telemachus(places), asked)


def report(system: Telemachus, asked: argparse.Namespace) -> None:
    """Print what it took."""
    system.prepare()
    system.renew()
    with psycopg.connect(system.env["DATABASE_URL"], autocommit=True) as session:
        session.execute(TENANTS.format(tenants=asked.tenants))
        session.execute("UPDATE scheduling_pool SET budget = 64")
        session.execute(JOBS.format(ended="false", count=asked.waiting, tenants=asked.tenants))
        session.execute("VACUUM ANALYZE")
    told = json.loads(run(system, [sys.executable, "-m", "bench.trial", INSIDE]))
    moved = told["moved"]
    sys.stdout.write(
        f"{told['jobs']:,} waiting jobs of {asked.tenants:,} tenants: {told['took']:.1f} s in all, "
        f"{told['inside']:.1f} s without the start of the process; {told['cpu']:.1f} s of processor, "
        f"{told['mb']:.0f} MB; {moved['earlier']['jobs']:,} "
        f"earlier, {moved['later']['jobs']:,} later, {moved['unmoved']:,} as before\n"
    )


if __name__ == "__main__":
    if INSIDE in sys.argv:
        inside()
    else:
        main()
