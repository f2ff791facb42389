"""A job's whole life beside peers on the same PostgreSQL and Valkey, in one interleaved run.

    python bench/life.py [--jobs 5000] [--repeat 3] [--only NAME,...] [--quick] [--json FILE]
    python bench/life.py --profile [--jobs 5000]

See README.md beside this file for what is measured and how to read it.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


from bench.costs import Sampling
from bench.phases import Bench
from bench.places import Places, places_open, versions
from bench.systems import CeleryAlone, Dbos, Procrastinate, Running, System, Telemachus
from bench.tables import Found, costs_table, lives_table, profile_table, run_table
from telemachus.local.ports import free_port

RATE = 20.0
STAGE_SETS = (8, 64)
MAKERS: dict[str, Callable[[Places], System]] = {
    "telemachus": Telemachus,
    "telemachus over HTTP": lambda places: Telemachus(places, web_port=free_port()),
    "celery": CeleryAlone,
    "procrastinate": Procrastinate,
    "dbos": Dbos,
}


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=5000, help="no-op jobs of a life")
    parser.add_argument("--repeat", type=int, default=3, help="interleaved repetitions")
    parser.add_argument("--only", default=",".join(MAKERS), help="systems, apart by commas")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of the latency phase")
    parser.add_argument(
        "--most", type=float, default=8.0, help="cut a one-by-one life to some seconds"
    )
    parser.add_argument("--quick", action="store_true", help="1,000 jobs, once, 5 s of latency")
    parser.add_argument("--profile", action="store_true", help="say where Telemachus' time goes")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    asked = parser.parse_args()
    if asked.quick:
        asked.jobs, asked.repeat, asked.seconds = 1000, 1, 5.0
    unknown = set(asked.only.split(",")) - MAKERS.keys()
    if unknown:
        parser.error(f"unknown {', '.join(sorted(unknown))}: name some of {', '.join(MAKERS)}")
    return asked


@contextmanager
def running(bench: Bench, *, kill: bool = False) -> Iterator[Running]:
    """Run a system from nothing."""
    bench.system.renew()
    log = bench.places.logs / f"{bench.system.name.replace(' ', '-')}.log"
    with Running(bench.system, log, kill=kill) as processes:
        yield processes


def turn(bench: Bench, found: Found, asked: argparse.Namespace, *, first: bool) -> None:
    """Put one system through all phases once; worker kills in the first repetition only."""
    over_http = bench.system.name.endswith("HTTP")
    with running(bench) as processes:
        fewer = min(asked.jobs, int(bench.warm(processes) * asked.most))
        lives = {"bulk": asked.jobs} if over_http else {"bulk": asked.jobs, "one": fewer}
        for command, jobs in lives.items():
            life = bench.life(processes, command, jobs)
            found.lives.setdefault(command, []).append(life)
            say(f"{bench.system.name}: {command} {life.rate:,.0f} jobs/s")
        if over_http:
            return
        for clock, waits in bench.waits(RATE, asked.seconds).items():
            found.waits.setdefault(clock, []).append(waits)
    if first:
        with running(bench, kill=True) as processes:
            bench.warm(processes)
            found.kills.append(bench.kill(processes))
            say(f"{bench.system.name}: kill -9, {found.kills[-1]}")


def compare(places: Places, asked: argparse.Namespace) -> dict[str, Found]:
    """Run all systems in turn, as often as asked."""
    benches = [Bench(system=MAKERS[name](places), places=places) for name in asked.only.split(",")]
    for bench in benches:
        bench.system.prepare()
    found = {bench.system.name: Found() for bench in benches}
    for repetition in range(asked.repeat):
        for bench in benches:
            turn(bench, found[bench.system.name], asked, first=repetition == 0)
    return found


def profile(places: Places, jobs: int) -> str:
    """Return where a bulk life's time goes: by process, by function, by stage and statement."""
    own = Telemachus(places)
    own.prepare()
    stages = [f"Sets of {size}:\n\n{own.stages(size, 20)}" for size in STAGE_SETS]
    bench = Bench(system=own, places=places)
    with running(bench) as processes:
        bench.warm(processes)
        plain = bench.life(processes, "bulk", jobs)
        wanted = ("governor", "worker-1")
        pids = {name: pid for name, pid in processes.pids().items() if name in wanted}
        with Sampling(pids, places.logs) as sampling:
            bench.life(processes, "bulk", jobs)
    blocks = [costs_table({own.name: plain}), profile_table(sampling.profiles()), *stages]
    return "\n".join(blocks)


def say(line: str) -> None:
    """Write a line of progress."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def main() -> None:
    """Run, print the tables, stop the servers."""
    asked = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is stopped
    with places_open() as places:
        if asked.profile:
            sys.stdout.write(profile(places, asked.jobs))
            return
        found = compare(places, asked)
        known = versions() | places.server_versions()
        sys.stdout.write(lives_table(found) + "\n" + run_table(known, asked.jobs, asked.repeat))
        if asked.json:
            every: dict[str, Any] = {name: asdict(one) for name, one in found.items()}
            asked.json.write_text(json.dumps({"versions": known, "systems": every}, indent=1))


if __name__ == "__main__":
    main()
