"""A scenario file, YAML or JSON, read into a `Scenario`, or refused with all of its faults at once.

The keys are those of `fields`; relative paths are relative to the scenario's file. Where the
executors are left out, one simulated executor for each pool offers all that jobs ask for and has as
many slots as the pool ever has budget units, so that the budget alone binds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scheduling.core.policy.checks import Reader
from scheduling.core.policy.settings import Policy
from scheduling.simulator import parts, references
from scheduling.simulator.dialect import policy_of, with_known_quality
from scheduling.simulator.errors import InvalidScenario, ScenarioError
from scheduling.simulator.fields import MOST_JOBS, SCENARIO
from scheduling.simulator.ids import Ids
from scheduling.simulator.marked import Block, line_of, load
from scheduling.simulator.references import Fault, Rows
from scheduling.simulator.scenario import Scenario
from scheduling.simulator.sources import Arrivals, Source, sources_of
from scheduling.simulator.trace_rules import in_trace, trace_of
from scheduling.simulator.traces import Trace


@dataclass(slots=True)
class _Document:
    """A file and its checked values; the faults that were found in it are gathered here."""

    path: Path
    root: Block
    values: Mapping[str, Any] = field(default_factory=dict)
    errors: list[ScenarioError] = field(default_factory=list)

    def rows(self, part: str) -> Rows:
        """Return the entries of a list; none when it is left out."""
        return self.values.get(part) or ()

    def error(self, fault: Fault) -> ScenarioError:
        """Return a fault with its place in the file."""
        path, sentence = fault
        line = line_of(self.root, path)
        return ScenarioError(file=self.path.name, line=line, path=path, sentence=sentence)

    def add(self, faults: Iterable[Fault]) -> None:
        """Take in faults of this file, the first of each path."""
        told = {error.path for error in self.errors}
        self.errors += (self.error(fault) for fault in faults if fault[0] not in told)

    def checked_by(self, reader: Reader) -> None:
        """Take in what a reader found."""
        self.add((error.field, error.sentence) for error in reader.errors)

    def is_sound(self, *names: str) -> bool:
        """Tell whether nothing is wrong with those parts."""
        return not any(error.path.split(".")[0] in names for error in self.errors)


@dataclass(frozen=True, slots=True)
class _Work:
    """All jobs: the entries, the trace, and their ids."""

    sources: tuple[Source, ...]
    trace: Trace | None
    ids: Ids

    @property
    def owners(self) -> Iterator[str]:
        """Yield the tenants that jobs name."""
        yield from (source.job.tenant for source in self.sources if source.count)
        yield from self.trace.owners if self.trace else ()


def read(path: Path, *, policy: Path | None = None, seed: int | None = None) -> Scenario:
    """Return the scenario of a file; `policy` is a file whose policy replaces its own.

    Raises `InvalidScenario` with every fault by file, line and key path.
    """
    document = _checked(path)
    chosen = _own_policy(document) if policy is None else _policy_of_file(document, policy)
    document.add(_between(document, chosen))
    work = _work(document)
    if work is not None:
        document.add(references.between_jobs(work.sources, work.ids))
    document.add(_named(document, chosen, work))
    if document.errors or work is None or chosen is None:
        raise InvalidScenario(dict.fromkeys(document.errors))
    return _built(document, chosen, work, seed)


def _checked(path: Path) -> _Document:
    document, reader = _Document(path, load(path)), Reader()
    document.values = reader.fields(SCENARIO, document.root, "")
    document.checked_by(reader)
    if document.values.get("trace") and document.is_sound("trace"):
        document.add(in_trace(document.values["trace"]))
    return document


def _own_policy(document: _Document) -> Policy | None:
    """Return the scenario's policy; None for one with faults."""
    if not document.is_sound("policy"):
        return None
    return document.values.get("policy") or policy_of(Reader(), None, "policy")


def _policy_of_file(document: _Document, path: Path) -> Policy | None:
    """Return a file's policy, which is the whole file or its key `policy`."""
    own, reader = _Document(path, load(path)), Reader()
    part, inside = (own.root["policy"], "policy") if "policy" in own.root else (own.root, "")
    policy = policy_of(reader, part, inside)
    own.checked_by(reader)
    document.errors += own.errors
    return None if own.errors else policy


def _between(document: _Document, policy: Policy | None) -> Iterator[Fault]:
    """Yield the faults between parts, those of single jobs among them."""
    rows = document.rows
    pools = {row["name"] for row in rows("pools") if row.get("name")}
    if "pools" not in document.root or document.is_sound("pools"):
        yield from references.in_pools(rows("pools"))
    for part in ("executors", "tenants"):
        yield from references.twins(rows(part), part)
    yield from references.twins(rows("workflows"), "workflows", ("tenant", "name"))
    yield from references.unknown(rows("executors"), "executors", "pool", pools, "pool")
    yield from references.in_jobs(rows("jobs"), policy, pools)
    if sum(row.get("repeat", 1) for row in rows("jobs")) > MOST_JOBS:
        yield "jobs", f"Are more than {MOST_JOBS:,} in all."


def _work(document: _Document) -> _Work | None:
    """Return all jobs; None when there are faults in what they are made of."""
    if not document.is_sound("jobs", "pools", "trace"):
        return None
    sources, trace = sources_of(document.rows("jobs")), None
    if rule := document.values.get("trace"):
        pool = parts.pools_of(document.rows("pools"))[0]
        try:
            trace = trace_of(document.path.parent, rule, pool, document.error)
        except InvalidScenario as wrong:
            document.errors += wrong.errors
            return None
    return _Work(sources, trace, Ids(sources, trace))


def _named(document: _Document, policy: Policy | None, work: _Work | None) -> Iterator[Fault]:
    """Yield names in workflows and events that are not there, as far as all names are known."""
    known: dict[str, set[str] | Ids] = {}
    for key in ("pool", "executor"):
        part = "pools" if document.values.get(f"{key}s") is None else f"{key}s"
        if document.is_sound(part, f"{key}s"):
            known[key] = {row["name"] for row in document.rows(part)}
    if policy is not None:
        known["class"] = {rule.name for rule in policy.classes}
    if work is not None and document.is_sound("tenants"):
        tenants = {*(row["name"] for row in document.rows("tenants")), *work.owners}
        known |= {"tenant": tenants, "job": work.ids}
        yield from references.unknown(
            document.rows("workflows"), "workflows", "tenant", tenants, "tenant"
        )
        if document.is_sound("workflows"):
            yield from references.in_workflows(
                document.rows("events"), tenants, _workflows(document, work)
            )
    yield from references.in_events(document.rows("events"), known)


def _workflows(document: _Document, work: _Work) -> set[tuple[str, str]]:
    """Return the workflows by tenant that an entry or a job names."""
    named = {(row["tenant"], row["name"]) for row in document.rows("workflows")}
    return named | {(one.job.tenant, one.job.workflow) for one in work.sources if one.count}


def _built(document: _Document, policy: Policy, work: _Work, seed: int | None) -> Scenario:
    """Return the scenario of what was found without a fault."""
    values, rows = document.values, document.rows
    arrivals = Arrivals(work.sources, work.trace)
    prices, qualities = parts.prices_of(values.get("prices") or {})
    pools, levers = parts.pools_of(rows("pools")), parts.levers_of(rows("events"))
    policy = with_known_quality(policy, qualities)
    stand_in = parts.able_to_all((source.job for source in work.sources), policy)
    return Scenario(
        name=values.get("name", document.path.stem),
        until=values.get("until"),
        seed=values.get("seed", 0) if seed is None else seed,
        policy=policy,
        pools=pools,
        stations=parts.stations_of(values.get("executors"), pools, levers, stand_in),
        prices=prices,
        tenants=parts.tenants_of(rows("tenants"), work.owners),
        workflows=parts.workflows_of(rows("workflows")),
        levers=levers,
        arrivals=arrivals,
        job_count=len(arrivals),
        compare=values.get("compare", ""),
        trace=document.path.parent / values["trace"]["file"] if work.trace else None,
        notes=work.trace.notes if work.trace else (),
    )
