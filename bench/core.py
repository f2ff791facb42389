"""What the decision core costs at size: order, ETA, next job. One core, no database.

    python bench/core.py [--sizes 10000,100000,1000000] [--tenants 1000] [--repeat 3]

For each backlog: columns and full order, units-only ETA of all jobs, both together (the target is
0.25 s at 100,000), the next job of the incremental structure, and a whole cycle for one freed slot.
The growth exponent is the slope of log(time) over log(size): 1 is linear.
"""

import argparse
import gc
import math
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scheduling.core.eta.forecast import forecast
from scheduling.core.order.full import columns_of, full_order
from scheduling.core.order.order import Order
from scheduling.core.policy.cycle import cycle
from scheduling.core.policy.limits import Limits
from scheduling.core.policy.settings import Policy
from scheduling.core.policy.state import PoolState
from scheduling.core.types import Executor, Job, Pool

SIZES = "10000,100000,1000000"
UNITS = 64
NEXT = 20_000


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
    found["eta"] = timed(repeat, lambda: forecast(state, 1e6, exact=0, queue=queue))
    found["order+eta"] = found["order"] + found["eta"]
    cycle(state, 1e6)
    found["cycle"] = median(_free_one_and_cycle(state) for _ in range(200))
    began = time.process_time()
    for _ in range(min(NEXT, size // 2)):
        spot = state.order.head("normal")
        if spot is not None:
            state.order.place(spot, 1e6)
    found["next_per_s"] = min(NEXT, size // 2) / (time.process_time() - began)
    return found


def _free_one_and_cycle(state: PoolState) -> float:
    state.end(next(iter(state.live)))
    began = time.process_time()
    cycle(state, 1e6)
    return time.process_time() - began


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    sizes = [int(size) for size in asked.sizes.split(",")]
    rows = {size: measure(size, asked.tenants, asked.repeat) for size in sizes}
    names = list(next(iter(rows.values())))
    out = sys.stdout.write
    out("| what | " + " | ".join(f"{size:,}" for size in sizes) + " | growth exponent |\n")
    out("|---" * (len(sizes) + 2) + "|\n")
    for name in names:
        values = [rows[size][name] for size in sizes]
        shown = [f"{v:,.0f} /s" if name == "next_per_s" else f"{v * 1000:,.2f} ms" for v in values]
        out(f"| {name} | " + " | ".join(shown) + f" | {_growth(sizes, values)} |\n")


def _growth(sizes: list[int], values: list[float]) -> str:
    if len(sizes) < 2 or min(values) <= 0:
        return "-"
    return f"{math.log(values[-1] / values[0]) / math.log(sizes[-1] / sizes[0]):.2f}"


if __name__ == "__main__":
    main()
