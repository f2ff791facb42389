"""What a large scenario takes, and whether it gives the same bytes each time.

    .venv/bin/python -m bench.million [--jobs 1000000] [--twice]

Two scenarios of ten tenants in three classes on a pool: `steady`, in which jobs come at 95 % of what the
pool can do, and `backlog`, in which all come at once. Each is played by `manage.py simulate --json` in a
process of its own. The target is below 120 s and 2 GB for a million jobs on one core. Beside it stands
what a bare loop of the same interpreter takes at that moment: shared machines differ by a half from
minute to minute.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from telemachus.local.home import BASE_DIR

TENANTS = 10
CLASSES = ("normal", "batch", "critical")
RUN_S = 60
LOAD = 0.95
STEPS = 10_000_000


def scenario(jobs: int, *, at_once: bool) -> str:
    """Return a scenario of so many jobs as YAML."""
    each = jobs // TENANTS
    every, budget = (0, 100) if at_once else (1, round(TENANTS * RUN_S / LOAD))
    rows = [
        f'  - {{repeat: {each}, id: "t{n}-{{n}}", tenant: t{n}, at: {n * 0.1:.1f}, every: {every}, '
        f"duration: {RUN_S}, class: {CLASSES[n % len(CLASSES)]}}}"
        for n in range(TENANTS)
    ]
    tenants = [f"  - {{name: t{n}, weight: {1 + n % 3}}}" for n in range(TENANTS)]
    pool = f"pools:\n  - {{name: default, budget: {budget}}}"
    return "\n".join(["name: large", "seed: 7", pool, "tenants:", *tenants, "jobs:", *rows, ""])


def bare_s() -> float:
    """Return the seconds of processor time that a bare loop takes now."""
    began, total = time.process_time(), 0
    for step in range(STEPS):
        total += step & 7
    return time.process_time() - began


def played(file: Path, out: Path) -> tuple[float, float, str]:
    """Play a scenario; return its processor seconds, its memory (MB), and the hash of its log."""
    argv = [sys.executable, str(BASE_DIR / "manage.py"), "simulate", str(file), "--json", str(out)]
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL)  # noqa: S603 (own program)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"The run ended with {os.waitstatus_to_exitcode(status)}.")
    with out.open("rb") as log:
        digest = hashlib.file_digest(log, "sha256").hexdigest()
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, digest


def main() -> None:
    """Print a line for each scenario."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--twice", action="store_true", help="play each again and compare the logs")
    asked = parser.parse_args()
    sys.stdout.write(
        f"{'scenario':10} {'CPU s':>8} {'us a job':>9} {'MB':>7} {'bare loop s':>12}  log\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in ("steady", "backlog"):
            file, out = Path(folder) / f"{name}.yaml", Path(folder) / f"{name}.jsonl"
            file.write_text(scenario(asked.jobs, at_once=name == "backlog"), encoding="utf-8")
            digests = set()
            for _ in range(2 if asked.twice else 1):
                bare = bare_s()
                seconds, memory, digest = played(file, out)
                digests.add(digest)
                each = seconds / asked.jobs * 1e6
                sys.stdout.write(
                    f"{name:10} {seconds:8.1f} {each:9.1f} {memory:7.0f} {bare:12.2f}  {digest[:16]}\n"
                )
            if len(digests) > 1:
                sys.exit(f"{name}: two runs gave different logs.")


if __name__ == "__main__":
    main()
