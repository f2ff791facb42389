"""What the decision core costs at size: order, ETA, next job, the governor's picture. No database.

    python bench/core.py [--sizes 10000,100000,1000000] [--tenants 1000] [--repeat 3]

For each backlog: columns and full order, units-only ETA of all jobs, the three together (the target
is 0.25 s at 100,000 and 2.5 s at a million), a whole cycle for one freed slot (the median, and the
slowest of 200; below 5 ms), and jobs placed a second by the incremental structure. Up to 100,000
also the governor's full pass (order, exact and units-only ETA, reasons, rows) in a forked child, as
it runs there, with the memory of the leader and what the child needs beside it.

Times are those of the processor, on one core. The growth exponent is the slope of log(time) over
log(size): 1 is linear.
"""

import argparse
import gc
import math
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from uuid import UUID

import django
import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")
django.setup()

# ruff: noqa: E402 (the governor's modules can be imported only after django.setup)
from scheduling.core.eta.forecast import forecast
from scheduling.core.order.full import columns_of, full_order
from scheduling.core.order.order import Order
from scheduling.core.policy.cycle import cycle
from scheduling.core.policy.limits import Limits
from scheduling.core.policy.settings import Policy
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Executor, Job, Pool
from scheduling.governor import book as book_module
from scheduling.governor.book import Book, FirstEta
from scheduling.governor.config import (
    Config,
    ExecutorFacts,
    TenantFacts,
    WorkflowFacts,
    WorkspaceFacts,
)
from scheduling.governor.durations import Durations
from scheduling.governor.rows import JobRow
from scheduling.governor.view import Stamp, build

SIZES = "10000,100000,1000000"
UNITS = 64
NEXT = 20_000
NOW = 1e6
PASS_MOST = 100_000
"""The largest backlog for which the governor's pass is measured."""
MEGABYTE = 1024 * 1024


def backlog(size: int, tenants: int) -> list[Job]:
    """Return `size` jobs of `tenants` tenants, sizes by a heavy-tailed draw, costs 1 to 3."""
    dice = random.Random(size)  # noqa: S311 (a reproducible workload)
    names = [f"tenant-{n}" for n in range(tenants)]
    weights = [1 / (n + 1) ** 0.5 for n in range(tenants)]
    owners = dice.choices(names, weights, k=size)
    return [
        Job(
            id=f"job-{seq}",
            seq=seq,
            tenant=owner,
            workspace=f"{owner}/main",
            submitted_at=seq / 50,
            class_name="normal",
            cost=dice.choice((1, 1, 1, 2, 3)),
            expected_s=dice.choice((5.0, 30.0, 120.0)),
            kind="simulated",
            limits=(("tenant", owner), ("workspace", f"{owner}/main")),
        )
        for seq, owner in enumerate(owners)
    ]


def pool_state(jobs: list[Job]) -> PoolState:
    """Return a pool in which all of them wait."""
    policy = Policy(age_after=0)
    order = Order(
        classes=policy.classes,
        weights={f"tenant-{n}": 1 + n % 3 for n in range(1000)},
        age_after=policy.age_after,
        age_limit=policy.age_limit,
    )
    executor = Executor(id="sim", kinds=frozenset({"simulated"}), slots=UNITS)
    state = PoolState(
        pool=Pool(id="p", budget=UNITS),
        policy=policy,
        order=order,
        executors={"sim": executor},
        limits=Limits({}),
    )
    for job in jobs:
        state.wait(job)
    return state


def timed(repeat: int, work: Callable[[], object]) -> float:
    """Return the median seconds of CPU of `repeat` runs."""
    seconds = []
    for _ in range(repeat):
        gc.collect()
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return median(seconds)


def measure(size: int, tenants: int, repeat: int) -> dict[str, float]:
    """Return the figures of one backlog, in seconds but for `next_per_s`."""
    jobs = backlog(size, tenants)
    began = time.process_time()
    state = pool_state(jobs)
    found = {"add": time.process_time() - began}
    standing = list(state.order.startable())
    columns = columns_of(state.order, standing)
    found["columns"] = timed(repeat, lambda: columns_of(state.order, standing))
    found["order"] = timed(repeat, lambda: full_order(columns))
    queue = [standing[row][0] for row in full_order(columns).rows.tolist()]
    queue, places = [job for job, _ in standing], full_order(columns).rows
    found["eta"] = timed(repeat, lambda: forecast(state, NOW, exact=0, queue=queue, places=places))
    found["columns+order+eta"] = found["columns"] + found["order"] + found["eta"]
    cycle(state, NOW)
    cycles = [_free_one_and_cycle(state) for _ in range(200)]
    found["cycle"], found["cycle, slowest"] = median(cycles), max(cycles)
    began = time.process_time()
    for _ in range(min(NEXT, size // 2)):
        spot = state.order.head("normal")
        if spot is not None:
            state.order.place(spot, NOW)
    found["next_per_s"] = min(NEXT, size // 2) / (time.process_time() - began)
    return found


def _free_one_and_cycle(state: PoolState) -> float:
    state.end(next(iter(state.live)))
    began = time.process_time()
    cycle(state, NOW)
    return time.process_time() - began


def leader_book(size: int, tenants: int) -> Book:
    """Return the governor's memory with such a backlog: one pool, two workflows a tenant."""
    dice = random.Random(size)  # noqa: S311 (a reproducible workload)
    owners = [_id(dice) for _ in range(tenants)]
    spaces = {owner: _id(dice) for owner in owners}
    flows = {owner: (_id(dice), _id(dice)) for owner in owners}
    book = Book(config=_config(spaces, flows), durations=Durations(default=60.0))
    for owner in owners[::2]:
        for _ in range(5):
            book.durations.learn(owner, flows[owner][0], dice.expovariate(1 / 30))
    book_module.recent_retries = lambda _policy: {}  # nothing was retried, and no database is there
    book.open_pools({})
    weights = [1 / (n + 1) ** 0.5 for n in range(tenants)]
    drawn = dice.choices(owners, weights, k=size)
    book.load(
        (
            (_row(dice, seq, owner, spaces[owner], dice.choice(flows[owner])), None)
            for seq, owner in enumerate(drawn)
        ),
        NOW,
    )
    cycle(book.states["pool"], NOW)
    return book


def _id(dice: random.Random) -> str:
    return str(UUID(int=dice.getrandbits(128)))


def _config(spaces: dict[str, str], flows: dict[str, tuple[str, str]]) -> Config:
    simulated = Executor(id="sim", kinds=frozenset({"simulated"}), slots=UNITS)
    facts = ExecutorFacts(
        slug="sim",
        kind="simulated",
        slots=UNITS,
        health="ok",
        circuit="closed",
        enabled=True,
        draining=False,
    )
    return Config(
        control=1,
        policy=Policy(),
        pools={"pool": Pool(id="pool", budget=UNITS)},
        pool_slugs={"pool": "pool"},
        executors={"pool": {"sim": simulated}},
        executor_rows={"sim": facts},
        tenants={
            owner: TenantFacts(slug=f"t{n}", name=f"Tenant {n}", weight=1 + n % 3, held=False)
            for n, owner in enumerate(spaces)
        },
        workspaces={
            space: WorkspaceFacts(path=f"t{n}/main", weight=1)
            for n, space in enumerate(spaces.values())
        },
        workflows={
            flow: WorkflowFacts(tenant=owner, slug=f"w{n}", cost=n + 1, expected_s=None)
            for owner, own in flows.items()
            for n, flow in enumerate(own)
        },
    )


def _row(dice: random.Random, seq: int, owner: str, space: str, flow: str) -> JobRow:
    return JobRow(
        id=_id(dice),
        seq=seq,
        pool="pool",
        tenant=owner,
        workspace=space,
        workflow=flow,
        kind="simulated",
        job_class="normal",
        cost=None,
        state="queued",
        paused=False,
        reason="",
        model="",
        region="",
        labels=[],
        tools=[],
        data_class="",
        compute_class="",
        keys=[],
        input_tokens=0,
        output_tokens=0,
        expected_s=dice.choice((5.0, 30.0, 120.0)),
        submitted_by="somebody",
        submitted_at=NOW - 600 + seq / 1000,
        deadline=None,
        fence=0,
        idempotent=True,
        preemptions=0,
        places=[],
        changed="3",
    )


def measure_pass(size: int, tenants: int, repeat: int) -> dict[str, float]:
    """Return the seconds of the governor's full pass, and megabytes; run in a fresh process.

    The leader is a child of this process, so that its memory is not that of an earlier backlog, and
    forks the passes itself. The first pass gives every job an estimate, the later ones need not.
    """
    return forked(lambda: _lead(size, tenants, repeat))


def _lead(size: int, tenants: int, repeat: int) -> dict[str, float]:
    before = _memory("Rss")
    book = leader_book(size, tenants)
    gc.freeze()
    stamp = Stamp(pool="pool", epoch=1, seq=1, now=NOW)
    found = {"leader_mb": _memory("Rss") - before}
    found["first pass"] = forked(lambda: _pass(book, stamp))["pass"]
    etas = build(book, stamp).first_etas
    book.first_etas.update({job: FirstEta(NOW, *eta) for job, *eta in etas})
    later = [forked(lambda: _pass(book, stamp)) for _ in range(repeat)]
    found["pass"] = median(one["pass"] for one in later)
    return found | {"pass_mb": max(one["pass_mb"] for one in later)}


def _pass(book: Book, stamp: Stamp) -> dict[str, float]:
    gc.disable()  # as the publisher's child does
    began = time.process_time()
    build(book, stamp)
    took = time.process_time() - began
    return {"pass": took, "pass_mb": _memory("Private_Dirty")}


def forked(work: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Return what `work` finds in a process of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.write(writing, msgspec.msgpack.encode(work()))
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    return msgspec.msgpack.decode(said, type=dict[str, float])


def _memory(kind: str) -> float:
    """Return the megabytes of this process, of one kind of the kernel's account."""
    account = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    line = next(line for line in account.splitlines() if line.startswith(f"{kind}:"))
    return int(line.split()[1]) * 1024 / MEGABYTE


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    sizes = [int(size) for size in asked.sizes.split(",")]
    passes = {
        size: measure_pass(size, asked.tenants, asked.repeat) if size <= PASS_MOST else {}
        for size in sizes
    }
    rows = {size: measure(size, asked.tenants, asked.repeat) | passes[size] for size in sizes}
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    out = sys.stdout.write
    out("| what | " + " | ".join(f"{size:,}" for size in sizes) + " | growth exponent |\n")
    out("|---" * (len(sizes) + 2) + "|\n")
    for name in names:
        values = {size: row[name] for size, row in rows.items() if name in row}
        shown = [_shown(name, values.get(size)) for size in sizes]
        growth = _growth(list(values), list(values.values()))
        out(f"| {name} | " + " | ".join(shown) + f" | {growth} |\n")


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name.endswith("_per_s"):
        return f"{value:,.0f} /s"
    return f"{value:,.0f} MB" if name.endswith("_mb") else f"{value * 1000:,.2f} ms"


def _growth(sizes: list[int], values: list[float]) -> str:
    if len(sizes) < 2 or min(values) <= 0:
        return "-"
    return f"{math.log(values[-1] / values[0]) / math.log(sizes[-1] / sizes[0]):.2f}"


if __name__ == "__main__":
    main()
