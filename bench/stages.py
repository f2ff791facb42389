"""What each stage of a life costs, statement by statement, in one process without a broker.

Submits, takes up, places, claims and settles sets of jobs one stage after another in an empty
scene's database, timing every statement from outside. What is left of a stage's time is Python's.
`bench/life.py --profile` runs it as `python -m bench.stages --set JOBS --sets TIMES`.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from django.db import connection

from bench.own_app import Sender  # first: it sets Django up
from scheduling.executors.contract import Outcome, Usage, status_of
from scheduling.governor import lease, loop
from scheduling.governor.messages import Sent
from scheduling.models import Worker
from scheduling.services.settlement import Report, attempts_settle
from scheduling.tasks.claim import attempts_claim
from tenants.prepared import prefer_indexes

SHOWN = 40
LONGEST = 90
THREADS = 1_000


class Stopwatch:
    """Seconds and calls of each stage, and of each statement in it."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.stages: dict[str, float] = defaultdict(float)
        self.statements: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._stage = ""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a block as a stage."""
        self._stage, began = name, time.perf_counter()
        with connection.execute_wrapper(self._timed):
            yield
        self.stages[name] += time.perf_counter() - began

    def _timed(
        self, execute: Callable[..., object], sql: str, params: object, *rest: object
    ) -> object:
        began = time.perf_counter()
        try:
            return execute(sql, params, *rest)
        finally:
            key = (self._stage, " ".join(str(sql).split())[:LONGEST])
            self.statements[key].append(time.perf_counter() - began)


class Scene(ExitStack):
    """A leader, a worker's row, and sets of jobs that go through all stages."""

    def __init__(self, watch: Stopwatch) -> None:
        """Take the lead."""
        super().__init__()
        self._watch = watch
        worker = Worker.objects.create(name="stages", queues=["simulated"], threads=THREADS)
        self._worker = worker.id
        epoch = lease.take(lease.holder_name())
        if epoch is None:
            message = "a governor leads this database: stop it first"
            raise RuntimeError(message)
        self._leader = loop.Leader(epoch)
        self._sender = Sender()
        self._sent: list[Sent] = []
        # no broker here: what would be sent is kept
        self._leader._tell = self._sent.extend  # type: ignore[method-assign,assignment]
        self.callback(self._leader.publisher.close)

    def run(self, size: int) -> None:
        """Take one set from its submission to its end."""
        leader, watch = self._leader, self._watch
        lease.renew(leader.epoch)
        with watch.stage("submit"):
            self._sender.send_many([(number, 0.0, 0.0) for number in range(size)])
        with watch.stage("take up"):
            leader._take_up()
        with watch.stage("place"):
            leader._place()
        pairs = [(one.attempt, one.fence) for one in self._sent]
        self._sent.clear()
        with watch.stage("claim"):
            claimed = attempts_claim(worker_id=self._worker, pairs=pairs)
        done = Outcome(status=status_of(None), usage=Usage(requests=1), result={"seconds": 0})
        reports = [
            Report(attempt_id=one.attempt_id, fence=one.fence, outcome=done) for one in claimed
        ]
        with watch.stage("settle"):
            attempts_settle(reports=reports, now=datetime.now(UTC))
        with watch.stage("take up ended"):
            leader._take_up()


def measured(size: int, sets: int) -> Stopwatch:
    """Return what the stages of some sets took, after a first one that is not counted."""
    watch = Stopwatch()
    with Scene(watch) as scene:
        scene.run(size)
        watch.stages.clear()
        watch.statements.clear()
        for _ in range(sets):
            scene.run(size)
    return watch


def report(watch: Stopwatch, jobs: int, sets: int) -> str:
    """Return the stages and their dearest statements in markdown."""
    lines = ["| stage | ms a set | ms a job | of it statements |", "|---|---|---|---|"]
    for stage, seconds in watch.stages.items():
        inside = sum(sum(s) for (name, _), s in watch.statements.items() if name == stage)
        lines.append(
            f"| {stage} | {seconds / sets * 1e3:.1f} | {seconds / jobs * 1e3:.3f} "
            f"| {inside / seconds:.0%} |"
        )
    lines += ["", "| stage | statement | calls a set | ms a set |", "|---|---|---|---|"]
    dearest = sorted(watch.statements.items(), key=lambda item: -sum(item[1]))
    for (stage, sql), times in dearest[:SHOWN]:
        calls, spent = len(times) / sets, sum(times) / sets * 1e3
        lines.append(f"| {stage} | `{sql.replace('|', ' ')}` | {calls:.1f} | {spent:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the sets and print the report."""
    prefer_indexes()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--set", type=int, default=64, help="jobs that go together")
    parser.add_argument("--sets", type=int, default=20, help="how often")
    asked = parser.parse_args()
    watch = measured(asked.set, asked.sets)
    sys.stdout.write(report(watch, asked.set * asked.sets, asked.sets))


if __name__ == "__main__":
    main()
