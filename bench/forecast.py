"""How well arrivals are foreseen on real logs: a rolling origin, a day ahead, every day of each log.

`python -m bench.forecast` reads the logs of the folder that TELEMACHUS_DATA names (see `known`), those
that are there: `swf/*.swf.gz` (weeks of arrivals), `servegen/*_rates.csv.gz` (rates), and the
request traces of Azure and Mooncake, an hour long, by the minute. MASE is the mean absolute error
over that of the naive forecast: the same hour of the last week, else of the last day, else the
last value.
"""

import csv
import gzip
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.data import data_folder
from scheduling.core.eta.arrivals import DAY, HOUR_S, WEEK, Floats, learnt

HISTORY = 8 * WEEK


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The errors over all origins of one log."""

    log: str
    origins: int
    mean: float
    mae: float
    mase: float
    coverage: float


def backtest(log: str, counts: Floats, *, warm: int, ahead: int) -> Found | None:
    """Forecast `ahead` steps from every origin after `warm` steps; None for a log that is too short."""
    errors, naive, inside = [], [], []
    origins = range(warm, len(counts) - ahead + 1, ahead)
    for origin in origins:
        first = max(0, origin - HISTORY)
        found = learnt(counts[first:origin], first).ahead(origin, ahead)
        came = counts[origin : origin + ahead]
        errors.append(np.abs(found.mean - came))
        naive.append(np.abs(_naive(counts, origin, ahead) - came))
        inside.append((found.low <= came) & (came <= found.high))
    if not errors or not (naive_mae := float(np.mean(naive))):
        return None
    mae = float(np.mean(errors))
    return Found(
        log=log,
        origins=len(origins),
        mean=float(counts.mean()),
        mae=mae,
        mase=mae / naive_mae,
        coverage=float(np.mean(inside)),
    )


def _naive(counts: Floats, origin: int, ahead: int) -> Floats:
    for season in (WEEK, DAY):
        if origin >= season >= ahead:
            return counts[origin - season : origin - season + ahead]
    return np.full(ahead, counts[origin - 1])


def logs(data: Path) -> Iterator[tuple[str, Floats, int, int]]:
    """Yield (name, counts by step, steps of warming up, steps ahead) of the logs that are there."""
    for path in sorted(data.glob("swf/*.swf.gz")):
        yield path.name.split(".")[0], _per_step(_submits(path), HOUR_S), 2 * WEEK, DAY
    for path in sorted(data.glob("servegen/*_rates.csv.gz")):
        yield f"ServeGen {path.name.split('_')[0]}", _rates(path), DAY, 1
    for path in sorted([*data.glob("azure_llm_2023/*.gz"), *data.glob("mooncake/*.gz")]):
        name = f"{path.parent.name.split('_')[0]} {path.name.split('.')[0]}, minutes"
        yield name, _per_step(_arrivals(path), 60), 10, 1


def _per_step(times: list[float], step_s: int) -> Floats:
    steps = (np.array(times) // step_s).astype(np.int64)
    return np.bincount(steps - steps.min()).astype(np.float64)


def _submits(path: Path) -> list[float]:
    with gzip.open(path, "rt", errors="replace") as lines:
        return [float(line.split()[1]) for line in lines if line.strip() and line[0] != ";"]


def _arrivals(path: Path) -> list[float]:
    with gzip.open(path, "rt") as lines:
        return [float(row["arrival_s"]) for row in csv.DictReader(lines)]


def _rates(path: Path) -> Floats:
    """Return requests by hour: windows of ten minutes, summed over the clients."""
    found: dict[int, float] = {}
    with gzip.open(path, "rt") as lines:
        for row in csv.DictReader(lines):
            hour = int(float(row["window_start_s"]) // HOUR_S)
            found[hour] = found.get(hour, 0.0) + 600 * float(row["rate_req_s"])
    first = min(found)
    return np.array([found.get(hour, 0.0) for hour in range(first, max(found) + 1)])


def main() -> None:
    """Print the table."""
    data = data_folder()
    if data is None:
        sys.exit("The logs are not here: TELEMACHUS_DATA names their folder.")
    sys.stdout.write(f"{'log':<32}{'origins':>8}{'mean':>9}{'MAE':>9}{'MASE':>7}{'in 80 %':>9}\n")
    for log, counts, warm, ahead in logs(data):
        one = backtest(log, counts, warm=warm, ahead=ahead)
        if one is not None:
            sys.stdout.write(
                f"{one.log:<32}{one.origins:>8}{one.mean:>9.1f}{one.mae:>9.2f}"
                f"{one.mase:>7.2f}{one.coverage:>9.0%}\n"
            )


if __name__ == "__main__":
    main()
