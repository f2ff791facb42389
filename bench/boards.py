"""Boards at size: a long backlog of many tenants, live boards, and what a change costs to be seen.

    python bench/boards.py [--jobs 100000] [--tenants 1000] [--boards 20] [--seconds 40] [--json FILE]

See README.md beside this file for what is measured and how to read it.
"""

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import httpx

from bench.board_pages import Pages, Painted, pages
from bench.board_sockets import Boards, Seats
from bench.board_system import Installed, Lever
from bench.board_tables import Delays, Result, table
from bench.costs import cpu_between, cpu_seconds
from bench.memory import memory_mb
from bench.systems import Running, Session, System

UNITS = (64, 60)
DIAL_EVERY_S = 3.0
REST_S = 0.5
SETTLE_S = 6.0
READY_S = 120.0
PARTS = (0.1, 0.35, 0.5, 0.65, 0.9)
PLACED = (
    "SELECT job_id::text, extract(epoch FROM dispatched_at)::float8 FROM scheduling_attempt "
    "WHERE fence = 1"
)
EVENTS = "SELECT id, extract(epoch FROM at)::float8 FROM scheduling_jobevent"
BENCH = "bench and browser"
WAITING = "SELECT count(*) FROM scheduling_job WHERE state = 'queued'"


@dataclass(slots=True, kw_only=True)
class Noted:
    """What was noted while measuring: dials as (units, committed), window times in seconds."""

    dials: list[tuple[int, float]] = field(default_factory=list)
    reloads: list[float] = field(default_factory=list)
    scrolls: list[float] = field(default_factory=list)
    painted: Painted = field(default_factory=Painted)


def ready(address: str) -> None:
    """Wait until the web answers that all it needs is there."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        try:
            if httpx.get(f"{address}readyz", timeout=5).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass  # it is not there yet
        time.sleep(0.2)
    message = f"the system was not ready within {READY_S:.0f} s: see var/bench/boards/logs"
    raise RuntimeError(message)


def changes(open_pages: Pages, lever: Lever, seconds: float) -> Noted:
    """For some seconds: dial, scroll and load pages, while jobs start and end by themselves."""
    noted = Noted()
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        units = UNITS[number % 2]
        noted.dials.append((units, lever.dial(units)))
        open_pages.rest(DIAL_EVERY_S)
        seen = open_pages.scroll(PARTS[number % len(PARTS)])
        if seen is not None:
            noted.scrolls.append(seen)
        collect(noted, open_pages)
        noted.reloads.append(open_pages.reopen())
        open_pages.rest(REST_S)
        number += 1
    collect(noted, open_pages)
    return noted


def collect(noted: Noted, open_pages: Pages) -> None:
    """Take over what the pages noted."""
    for one in open_pages.painted():
        noted.painted.add(one)


def delays(noted: Noted, session: Session) -> Delays:
    """Match what was painted with when it had committed."""
    placed, told = dict(session.rows(PLACED)), dict(session.rows(EVENTS))
    ends = [at for _, at in noted.dials[1:]] + [time.time()]
    dial = [
        seen - at
        for (units, at), end in zip(noted.dials, ends, strict=True)
        for words, seen in noted.painted.budget
        if f"of {units} " in words and at <= seen < end
    ]
    return Delays(
        dial=dial,
        placed=[
            seen - placed[job]
            for job, seen in noted.painted.left
            if seen - placed.get(job, seen + 1) >= 0  # not one that was scrolled away
        ],
        event=[
            seen - told[number]
            for number, seen, since in noted.painted.events
            if told.get(number, 0.0) > since
        ],
    )


def measure(system: Installed, seats: Seats, asked: argparse.Namespace) -> Result:
    """Open the boards on a running system and note everything for some seconds."""
    log = system.places.logs / "boards.log"
    session = Session(system.env["DATABASE_URL"])
    with Running(cast("System", system), log) as processes:
        ready(system.options.address)
        say("the system is ready, boards open")
        people = [*seats.operators, *seats.viewers] * asked.boards
        with (
            Boards(system.options.port, people[asked.pages : asked.boards]) as sockets,
            pages(system.options.port) as open_pages,
        ):
            first = [open_pages.open(seats.operators[n % 2]) for n in range(asked.pages)]
            lever = Lever(system.env)
            open_pages.rest(SETTLE_S)
            sockets.heard.clear()
            open_pages.painted()
            before, began = all_cpu(processes), time.monotonic()
            noted = changes(open_pages, lever, asked.seconds)
            seconds = time.monotonic() - began
            cpu = cpu_between(before, all_cpu(processes))
            memory = memory_mb(processes.pids())
            lever.close()
        result = Result(
            waiting=int(session.rows(WAITING)[0][0]),
            boards=asked.boards,
            seconds=seconds,
            delays=delays(noted, session),
            first_pages=first,
            pages=noted.reloads,
            scrolls=noted.scrolls,
            windows=sockets.heard.windows,
            sizes=dict(sockets.heard.sizes),
            faults=sockets.heard.faults,
            cpu_share={name: used / seconds for name, used in cpu.items()},
            memory_mb=memory,
            load=os.getloadavg()[0],
        )
        session.close()
    return result


def all_cpu(processes: Running) -> dict[str, float]:
    """Return the processor seconds of the system's processes, and of the bench with its browser."""
    parts = cpu_seconds(processes.pids())
    own = cpu_seconds({BENCH: os.getpid()})[BENCH] - sum(parts.values())
    return parts | {BENCH: own}


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=100_000, help="jobs that wait")
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--boards", type=int, default=20, help="live boards in all")
    parser.add_argument("--pages", type=int, default=3, help="of them real pages in Chromium")
    parser.add_argument("--seconds", type=float, default=40.0, help="length of the measuring")
    parser.add_argument("--threads", type=int, default=16, help="jobs of one second at a time")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    return parser.parse_args()


def say(line: str) -> None:
    """Write a line of progress."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def main() -> None:
    """Set the scene, measure, print the table, stop all."""
    asked = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is stopped
    with Installed(asked.threads) as system:
        say(f"the scene: {asked.jobs:,} jobs of {asked.tenants:,} tenants")
        seats = system.seats(asked.jobs, asked.tenants)
        result = measure(system, seats, asked)
    sys.stdout.write(table(result))
    if asked.json:
        asked.json.write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")
    if result.faults:
        sys.exit(f"boards saw {len(result.faults)} faults, the first: {result.faults[0]}")


if __name__ == "__main__":
    main()
