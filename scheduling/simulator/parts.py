"""The parts of a scenario, built from values that were checked."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from msgspec import structs

from scheduling.core.policy.settings import Policy
from scheduling.core.types import Executor, Pool
from scheduling.simulator.fields import REVIEW_HOUR, UNIT_SECOND
from scheduling.simulator.references import VALUES, Rows
from scheduling.simulator.scenario import (
    BudgetRule,
    Do,
    Lever,
    ModelPrice,
    Prices,
    SimJob,
    Station,
    Tenant,
    WorkflowRule,
)

_SIMULATED = "simulated"


def pools_of(rows: Rows) -> tuple[Pool, ...]:
    """Return the pools."""
    return tuple(
        Pool(id=row["name"], budget=row["budget"], reserve=row.get("reserve", 0)) for row in rows
    )


def tenants_of(rows: Rows, named: Iterable[str]) -> tuple[Tenant, ...]:
    """Return the declared tenants, then those that are only `named`, with weight 1."""
    tenants = {row["name"]: _tenant(row) for row in rows}
    for name in named:
        if name not in tenants:
            tenants[name] = Tenant(name=name)
    return tuple(tenants.values())


def _tenant(row: Mapping[str, Any]) -> Tenant:
    return Tenant(
        name=row["name"],
        weight=row.get("weight", 1),
        max_running=row.get("max_running"),
        backlog_cap=row.get("backlog_cap"),
        budgets=tuple(BudgetRule(**one) for one in row.get("budgets") or ()),
    )


def workflows_of(rows: Rows) -> tuple[WorkflowRule, ...]:
    """Return the rules of the (tenant, workflow) pairs."""
    return tuple(WorkflowRule(**row) for row in rows)


def prices_of(values: Mapping[str, Any]) -> tuple[Prices, dict[str, float]]:
    """Return the prices, and the quality of each model of which one is said."""
    models, qualities = {}, {}
    for name, value in values.items():
        if name in (UNIT_SECOND, REVIEW_HOUR):
            continue
        models[name] = ModelPrice(**{key: value[key] for key in value if key != "quality"})
        if "quality" in value:
            qualities[name] = value["quality"]
    prices = Prices(
        models=models,
        unit_second=values.get(UNIT_SECOND, Decimal(0)),
        review_hour=values.get(REVIEW_HOUR, Decimal(0)),
    )
    return prices, qualities


def levers_of(rows: Rows) -> tuple[Lever, ...]:
    """Return the levers and faults by (at, number in the file)."""
    return tuple(sorted(map(_lever, rows), key=lambda lever: lever.at))


def _lever(row: Mapping[str, Any]) -> Lever:
    do = Do(row["do"])
    named = ("tenant", "pool", "executor", "job", "workflow")
    value = row.get(VALUES[do]) if do in VALUES else None
    return Lever(
        at=row["at"],
        do=do,
        value="" if do is Do.JOB_PRIORITISE and value is None else value,
        **{key: row[key] for key in named if key in row},
    )


def stations_of(
    rows: Rows | None, pools: tuple[Pool, ...], levers: tuple[Lever, ...], stand_in: Executor
) -> tuple[Station, ...]:
    """Return the executors; those left out (None) are a copy of `stand_in` for each pool."""
    if rows is not None:
        return tuple(_station(row, pools) for row in rows)
    return tuple(_simulated(pool, levers, stand_in) for pool in pools)


def _station(row: Mapping[str, Any], pools: tuple[Pool, ...]) -> Station:
    executor = Executor(
        id=row["name"],
        kinds=frozenset({row.get("kind", _SIMULATED)}),
        slots=row.get("slots", 1),
        models=frozenset(row.get("models") or ()),
        region=row.get("region") or "",
        weight=row.get("weight", 1),
        labels=frozenset(row.get("labels") or ()),
    )
    return Station(
        executor=executor,
        pool=row.get("pool", pools[0].id),
        requests_per_min=row.get("requests_per_min"),
        tokens_per_min=row.get("tokens_per_min"),
    )


def _simulated(pool: Pool, levers: tuple[Lever, ...], stand_in: Executor) -> Station:
    """Return the executor of a pool, with as many slots as it ever has budget units."""
    dials = (lever.value for lever in levers if lever.pool == pool.id)
    slots = max(pool.budget, *(int(dial) for dial in dials if dial is not None), 0)
    return Station(executor=structs.replace(stand_in, id=pool.id, slots=slots), pool=pool.id)


def able_to_all(jobs: Iterable[SimJob], policy: Policy) -> Executor:
    """Return an executor that offers all that any of the jobs asks for.

    It can stand in one region only, so it stands in one when all jobs that name one agree.
    """
    models = {one.model for rule in policy.fallback for one in rule.candidates}
    kinds, labels, regions = {_SIMULATED}, set[str](), set[str]()
    for job in jobs:
        models.add(job.model)
        kinds.add(job.kind or _SIMULATED)
        labels |= job.labels
        regions.add(job.region)
    regions.discard("")
    return Executor(
        id=_SIMULATED,
        kinds=frozenset(kinds),
        slots=0,
        models=frozenset(models - {""}),
        labels=frozenset(labels),
        region=regions.pop() if len(regions) == 1 else "",
    )
