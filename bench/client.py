"""The submitting process of every system, Telemachus and peers alike: one command, one answer.

    python -m bench.client MODULE prepare
    python -m bench.client MODULE one JOBS | bulk JOBS | rate PER_SECOND SECONDS | sleep JOBS SECONDS

The module has a `connect` that returns a `Sender`, and a `prepare`.

It prints {"began", "ended", "cpu_s", "times"}: epoch seconds around the submitting itself and the
processor seconds in it (starting the process, importing and connecting are not counted), and when
each call of `rate` began. Standard library only: it runs in the peers'
environments too.
"""

import importlib
import json
import sys
import time
from collections.abc import Sequence
from typing import Protocol

SET_ROWS = 500
"""Jobs in one bulk call, for every system that has one."""

Row = tuple[int, float, float]  # (number, when its submission began, seconds to sleep)


class Sender(Protocol):
    """How one system takes jobs."""

    def send(self, row: Row) -> None:
        """Submit one job."""

    def send_many(self, rows: Sequence[Row]) -> None:
        """Submit a set by the system's own way for sets."""

    def close(self) -> None:
        """Give connections back."""


def submit(sender: Sender, command: str, numbers: Sequence[float]) -> list[float]:
    """Carry a command out; returns when each call of `rate` began. ValueError: unknown command."""
    if command == "rate":
        return _paced(sender, numbers[0], numbers[1])
    if command == "one":
        for number in range(int(numbers[0])):
            sender.send((number, time.time(), 0.0))
    elif command == "bulk":
        jobs = int(numbers[0])
        for first in range(0, jobs, SET_ROWS):
            at = time.time()
            last = min(jobs, first + SET_ROWS)
            sender.send_many([(number, at, 0.0) for number in range(first, last)])
    elif command == "sleep":
        at = time.time()
        sender.send_many([(number, at, numbers[1]) for number in range(int(numbers[0]))])
    else:
        message = f"unknown command {command!r}: use prepare, one, bulk, rate or sleep"
        raise ValueError(message)
    return []


def _paced(sender: Sender, per_second: float, seconds: float) -> list[float]:
    """Submit at an even pace; a late one does not put the next off."""
    began, times = time.monotonic(), []
    for number in range(int(per_second * seconds)):
        time.sleep(max(0.0, began + number / per_second - time.monotonic()))
        times.append(time.time())
        sender.send((number, times[-1], 0.0))
    return times


def main() -> None:
    """Run the command line."""
    name, command, *numbers = sys.argv[1:]
    module = importlib.import_module(name)
    if command == "prepare":
        module.prepare()
        return
    sender: Sender = module.connect()
    try:
        began, used = time.time(), time.process_time()
        times = submit(sender, command, [float(number) for number in numbers])
        ended, used = time.time(), time.process_time() - used
    finally:
        sender.close()
    answer = {"began": began, "ended": ended, "cpu_s": used, "times": times}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
