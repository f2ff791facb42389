"""Answers that are known from elsewhere, as scenarios that are played and figures that are compared.

Two come from the rule itself, by hand; two from the results published with "Improving Backfilling by
using Machine Learning to Predict Running Times in HPC" (SC'15) for the KTH-SP2 log; two from the
measurements published with "Fairness in Serving Large Language Models" (VTC, OSDI'24). The traces
are not part of this project: TELEMACHUS_DATA names their folder.
"""

import csv
import gzip
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduling.simulator.engine import play
from scheduling.simulator.reading import read

KTH = "swf/KTH-SP2-1996-2.swf.gz"
VTC = "vtc/artifact_numbers.json"
UNITS = 19
"""How many requests the measured server held at once on average."""

Document = Mapping[str, Any]
Take = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A figure: what is published, what we find, and by what part of it they may differ."""

    name: str
    published: float
    ours: float
    tolerance: float

    @property
    def difference(self) -> float:
        """Return by what part of the published figure ours differs."""
        return self.ours / self.published - 1

    @property
    def holds(self) -> bool:
        """Tell whether the difference is within the tolerance."""
        return abs(self.difference) <= self.tolerance


def played(document: Document, take: Take) -> dict[str, Any]:
    """Play a scenario that is given as plain data, and return its summary."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return play(read(path), take)


def placed(document: Document) -> list[dict[str, Any]]:
    """Return the placements of a run, in their order."""
    events: list[dict[str, Any]] = []
    played(document, lambda event: events.append(event) if event["event"] == "placed" else None)
    return events


def seven_charts() -> str:
    """Return in which order the worked example's seven jobs are placed; it must be ABCFDEG."""
    owners = {"A": "1", "B": "1", "C": "2", "D": "1", "E": "2", "F": "3", "G": "1"}
    jobs = [
        {"id": name, "tenant": owner, "at": at}
        for at, (name, owner) in enumerate(owners.items(), 1)
    ]
    first = {"id": "first", "tenant": "0", "duration": len(owners) + 1}
    document = {
        "policy": {"share_by": "turns"},
        "pools": [{"name": "default", "budget": 1}],
        "tenants": [{"name": "1", "weight": 2}],
        "jobs": [first, *jobs],
    }
    return "".join(event["job"] for event in placed(document)[1:])


def newer_among_the_first(count: int = 200) -> int:
    """Return how many of B's 100 newer jobs are among the first placed, beside A's 1,000 older."""
    document = {
        "policy": {"share_by": "turns"},
        "pools": [{"name": "default", "budget": 1}],
        "jobs": [
            {"repeat": 1000, "id": "a{n}", "tenant": "A"},
            {"repeat": 100, "id": "b{n}", "tenant": "B", "at": 1},
        ],
    }
    return sum(event["tenant"] == "B" for event in placed(document)[:count])


def kth(data: Path, expected: str) -> dict[str, Any]:
    """Return the summary of the KTH-SP2 log under EASY backfilling."""
    trace = {
        "file": str(data / KTH),
        "format": "swf",
        "tenant": "all",
        "cost": "processors",
        "expected_s": expected,
    }
    document = {
        "policy": {"backfill": "easy", "age_after": 0},
        "pools": [{"name": "sp2", "budget": 100}],
        "trace": trace,
    }
    return played(document, lambda _event: None)


def kth_figures(data: Path, expected: str, mean: float, most: float) -> Iterator[Known]:
    """Yield the mean and the greatest bounded slowdown beside the published ones."""
    summary = kth(data, expected)
    for name, published, key in (
        ("mean", mean, "mean_bounded_slowdown"),
        ("max", most, "max_bounded_slowdown"),
    ):
        label = f"KTH-SP2, EASY, {expected} times: {name} bounded slowdown"
        tolerance = 0.01 if name == "mean" else 0.0005
        yield Known(name=label, published=published, ours=summary[key], tolerance=tolerance)


def vtc_figures(
    data: Path, suite: str, scheduler: str, weights: Mapping[str, int]
) -> Iterator[Known]:
    """Yield each client's service by the end of the arrivals beside the measured one."""
    measured = _artifact(data, suite, scheduler)
    path = data / f"vtc/measured/{suite}/{scheduler}.csv.gz"
    duration = measured["total_time_s"] * UNITS / measured["requests"]
    document = {
        "policy": {"share_by": "tokens", "age_after": 0},
        "pools": [{"name": "gpu", "budget": UNITS}],
        "tenants": [{"name": name, "weight": weight} for name, weight in weights.items()],
        "trace": {
            "file": str(path),
            "format": "csv",
            "tenant": "client",
            "cost": 1,
            "expected_s": "runtime",
            "duration": {"fixed": duration},
        },
    }
    service = _service(document, path, measured["duration_s"], duration)
    for client, published in sorted(measured["acc_service_at_end"].items()):
        label = f"VTC {suite}, {scheduler}: service of client {client}"
        yield Known(name=label, published=published, ours=service[client], tolerance=0.04)


def _artifact(data: Path, suite: str, scheduler: str) -> dict[str, Any]:
    rows = json.loads((data / VTC).read_text(encoding="utf-8"))
    return next(row for row in rows if (row["suite"], row["scheduler"]) == (suite, scheduler))


def _service(document: Document, path: Path, end: float, duration: float) -> dict[str, float]:
    """Return each client's service by `end`: input + 2 x output, linear in the elapsed time."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        worth = [
            int(row["input_tokens"]) + 2 * int(row["output_tokens"])
            for row in csv.DictReader(lines)
        ]
    service: dict[str, float] = defaultdict(float)
    for event in placed(document):
        elapsed = min(duration, max(0.0, end - event["t"]))
        service[event["tenant"]] += worth[int(event["job"])] * elapsed / duration
    return service


def every_figure(data: Path) -> Iterator[Known]:
    """Yield the figures of all traces."""
    yield from kth_figures(data, "requested", 92.577, 14805.2)
    yield from kth_figures(data, "runtime", 71.722, 10017.2)
    yield from vtc_figures(data, "overload", "VTC", {"1": 1, "2": 1})
    weights = {"1": 1, "2": 2, "3": 3, "4": 4}
    yield from vtc_figures(data, "overload-weighted", "WVTC", weights)
