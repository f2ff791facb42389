"""How honest the ETAs of the simulator are on real traces, beside pending x average / capacity.

    TELEMACHUS_DATA=... .venv/bin/python -m bench.etas

Each job's first ETA, told as it is let in, is compared with its finish. Printed are our mean error as
a part of the naive formula's (wanted: at most 0.5) and how often the finish lay within the 80 % range
(wanted: 75 to 85 %). The logs are played as in the table of known answers, by user and under one name;
of the requests each output token takes 0.02 s, or each request as long as the mean, and the pool has
the units at which its mean load is as told. Above 1 the queue grows to the end of the trace, and what was
told while more was to be expected comes true too early once nothing comes: so these are also played to
the last arrival only, with the jobs that had ended by then.
"""

import csv
import gzip
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.known import KTH, Document, played

TOKEN_S = 0.02
REQUESTS = {"m-large": "sampled_m-large_2h.csv.gz", "deepseek-r1": "sampled_deepseek-r1_4h.csv.gz"}
LOADS = (0.9, 1.0, 1.1)


def kth(data: Path) -> Iterator[tuple[str, Document]]:
    """Yield the log with its requested times, as one tenant and by user."""
    for tenant in ("all", "user"):
        trace = {
            "file": str(data / KTH),
            "format": "swf",
            "tenant": tenant,
            "cost": "processors",
            "expected_s": "requested",
        }
        policy = {"backfill": "easy", "age_after": 0}
        pools = [{"name": "sp2", "budget": 100}]
        yield f"KTH-SP2, tenant: {tenant}", {"policy": policy, "pools": pools, "trace": trace}


def requests(path: Path, name: str) -> Iterator[tuple[str, Document]]:
    """Yield a trace of requests at each load, with run times by token and all alike."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    tokens = sum(int(row["output_tokens"]) for row in rows)
    length = float(rows[-1]["arrival_s"]) - float(rows[0]["arrival_s"])
    mean = round(TOKEN_S * tokens / len(rows), 3)
    ways: dict[str, dict[str, float]] = {
        "by token": {"per_output_token": TOKEN_S, "base": 0},
        "all alike": {"fixed": mean},
    }
    for said, duration in ways.items():
        for load in LOADS:
            units = max(1, round(TOKEN_S * tokens / length / load))
            trace = {"file": str(path), "format": "csv", "tenant": "client", "duration": duration}
            pools = [{"name": "gpus", "budget": units}]
            document = {"pools": pools, "trace": trace}
            yield f"{name}, {said}, load {load}", document
            if load > 1:
                yield f"{name}, {said}, load {load}, to its end", document | {"until": length}


def every_run(data: Path) -> Iterator[tuple[str, Document]]:
    """Yield all runs whose traces are there."""
    if (data / KTH).exists():
        yield from kth(data)
    for name, file in REQUESTS.items():
        if (data / "servegen" / file).exists():
            yield from requests(data / "servegen" / file, name)


def say(line: str) -> None:
    """Print a line at once: a run takes a while."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Print a line for each run."""
    data = Path(os.environ.get("TELEMACHUS_DATA", ""))
    say(f"{'trace':45} {'ETAs':>7} {'ours / naive':>13} {'within 80 %':>12} {'took':>7}")
    found = False
    for name, document in every_run(data):
        if sys.argv[1:] and not any(one in name for one in sys.argv[1:]):
            continue
        found, began = True, time.monotonic()
        eta: dict[str, Any] = played(document, lambda _event: None)["eta"]
        ratio = eta["mean_error_s"] / eta["naive_mean_error_s"]
        took = time.monotonic() - began
        say(f"{name:45} {eta['count']:7,} {ratio:13.3f} {eta['hit_rate']:12.3f} {took:5.0f} s")
    if not found:
        sys.exit(
            "No trace was found; set TELEMACHUS_DATA to the folder that holds swf/ and servegen/."
        )


if __name__ == "__main__":
    main()
