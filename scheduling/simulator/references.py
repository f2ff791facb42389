"""What is wrong between the parts of a scenario that are each right alone: names and bounds.

Each check yields the key path of the fault and a sentence. Tenants need not be declared: those that
a job or the trace names are known, with weight 1.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from scheduling.core.policy.settings import Policy
from scheduling.simulator import dependencies
from scheduling.simulator.ids import Ids
from scheduling.simulator.scenario import Do
from scheduling.simulator.sources import MARK, Source

Fault: TypeAlias = tuple[str, str]
Rows: TypeAlias = tuple[Mapping[str, Any], ...]

NEEDS: Mapping[Do, tuple[str, ...]] = {
    Do.TENANT_HOLD: ("tenant",),
    Do.TENANT_UNHOLD: ("tenant",),
    Do.TENANT_WEIGHT: ("tenant", "weight"),
    Do.POOL_BUDGET: ("pool", "budget"),
    Do.EXECUTOR_DOWN: ("executor",),
    Do.EXECUTOR_UP: ("executor",),
    Do.RATE_LIMITED: ("executor",),
    Do.JOB_CANCEL: ("job",),
    Do.JOB_PAUSE: ("job",),
    Do.JOB_RESUME: ("job",),
    Do.JOB_PRIORITISE: ("job",),
    Do.WORKFLOW_COST: ("tenant", "workflow", "cost"),
    Do.WORKER_LOST: (),
}
VALUES: Mapping[Do, str] = {
    Do.TENANT_WEIGHT: "weight",
    Do.POOL_BUDGET: "budget",
    Do.WORKFLOW_COST: "cost",
    Do.JOB_PRIORITISE: "class",
    Do.RATE_LIMITED: "retry_after",
}
_EITHER = ("executor", "job")


def twins(rows: Rows, part: str, keys: tuple[str, ...] = ("name",)) -> Iterator[Fault]:
    """Yield the entries whose name an entry before them has."""
    seen: set[tuple[Any, ...]] = set()
    for place, row in enumerate(rows):
        name = tuple(row.get(key) for key in keys)
        if name in seen:
            yield f"{part}.{place}.{keys[-1]}", f"{_shown(name)} stands twice."
        if None not in name:
            seen.add(name)


def _shown(name: Iterable[Any]) -> str:
    return " of ".join(str(part) for part in reversed(tuple(name)))


def unknown(rows: Rows, part: str, key: str, known: Iterable[str], what: str) -> Iterator[Fault]:
    """Yield the entries that name something that is not there."""
    names = {*known, ""}
    for place, row in enumerate(rows):
        if row.get(key, "") not in names:
            yield f"{part}.{place}.{key}", f"{row[key]} is no {what} of this scenario."


def in_pools(rows: Rows) -> Iterator[Fault]:
    """Yield what is wrong with the pools."""
    yield from twins(rows, "pools")
    if not rows:
        yield "pools", "Is missing; name at least one pool with its budget."
    for place, row in enumerate(rows):
        if row.get("reserve", 0) > row.get("budget", row.get("reserve", 0)):
            yield f"pools.{place}.reserve", "Must not be above the pool's budget."


def in_jobs(rows: Rows, policy: Policy | None, pools: set[str]) -> Iterator[Fault]:
    """Yield what is wrong with each job alone; without a right policy its classes are not known."""
    yield from unknown(rows, "jobs", "pool", pools, "pool")
    if policy is not None:
        yield from unknown(rows, "jobs", "class", (rule.name for rule in policy.classes), "class")
    for place, row in enumerate(rows):
        if "repeat" in row:
            if row["repeat"] > 1 and str(row.get("id", MARK)).count(MARK) != 1:
                yield f"jobs.{place}.id", f"Must hold {MARK} once, so that each job has its own id."
        elif "every" in row:
            yield f"jobs.{place}.every", "Stands without repeat."


def between_jobs(sources: tuple[Source, ...], ids: Ids) -> Iterator[Fault]:
    """Yield ids that stand twice, dependencies that no job has, and the first circle."""
    for source, job_id in ids.twins:
        yield f"jobs.{source.place}.id", f"{job_id} is the id of another job too."
    missing = list(dependencies.unknown(sources, ids))
    for source, name in missing:
        yield f"jobs.{source.place}.after", f"{name} is no job of this scenario."
    found = None if missing or ids.twins else dependencies.circle(sources, ids)
    if found is not None:
        way = " -> ".join(found[1][:10])
        yield f"jobs.{found[0].place}.after", f"Waits for itself: {way}."


def in_events(rows: Rows, known: Mapping[str, Iterable[str] | Ids]) -> Iterator[Fault]:
    """Yield what is wrong with levers and faults; `known` are the names by key."""
    for place, row in enumerate(rows):
        if "do" in row:
            yield from _in_keys(row, f"events.{place}")
        for key, names in known.items():
            if key in row and row[key] not in names:
                yield f"events.{place}.{key}", f"{row[key]} is no {key} of this scenario."


def in_workflows(
    rows: Rows, tenants: Container[str], workflows: Container[tuple[str, str]]
) -> Iterator[Fault]:
    """Yield the levers on a known tenant's workflow that no job and no entry has: they would do
    nothing."""
    for place, row in enumerate(rows):
        tenant, name = row.get("tenant"), row.get("workflow")
        if tenant in tenants and name is not None and (tenant, name) not in workflows:
            yield f"events.{place}.workflow", f"{name} is no workflow of {tenant} in this scenario."


def _in_keys(row: Mapping[str, Any], path: str) -> Iterator[Fault]:
    do = Do(row["do"])
    needed = NEEDS[do]
    for key in needed:
        if key not in row:
            yield f"{path}.{key}", f"Is missing; {do} has it."
    if do is Do.WORKER_LOST:
        needed = tuple(key for key in _EITHER if key in row)
        if len(needed) != 1:
            yield path, f"{do} names an executor or a job."
    for key in row.keys() - {"at", "do", VALUES.get(do), *needed}:
        yield f"{path}.{key}", f"{do} has no such key."
