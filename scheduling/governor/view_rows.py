"""The read model's rows, filled column by column."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from scheduling.core.types import Job, Reason
from scheduling.governor.config import Config
from scheduling.snapshot import ROW, Header, Rows

_ID, _COST, _SUBMITTED_AT = attrgetter("id"), attrgetter("cost"), attrgetter("submitted_at")
_TENANT, _WORKSPACE = attrgetter("tenant"), attrgetter("workspace")
_WORKFLOW = attrgetter("workflow")


@dataclass(frozen=True, slots=True)
class Index:
    """The numbers by which rows name tenants, workspaces, workflows, classes and reasons.

    A name that is not here raises KeyError: filed under another's number, a row would be shown to
    a tenant that it does not belong to.
    """

    tenants: dict[str, int]
    workspaces: dict[str, int]
    workflows: dict[str, int]
    classes: dict[str, int]
    reasons: dict[Reason, int]

    @classmethod
    def of(cls, config: Config) -> "Index":
        """Return the numbers of a configuration."""
        return cls(
            _numbered(config.tenants),
            _numbered(config.workspaces),
            _numbered(config.workflows),
            _numbered(rule.name for rule in config.policy.classes),
            {reason: number for number, reason in enumerate(Reason)},
        )

    @classmethod
    def of_header(cls, header: Header, config: Config) -> "Index":
        """Return the numbers by which a header that is published already names things."""
        paths = _numbered(header.workspaces)
        known = {one: facts.path for one, facts in config.workspaces.items()}
        return cls(
            _numbered(row.id for row in header.tenants),
            {one: paths[path] for one, path in known.items() if path in paths},
            _numbered(workflow for workflow, _ in header.workflows),
            _numbered(header.classes),
            {Reason(reason): number for number, reason in enumerate(header.reasons)},
        )


@dataclass(frozen=True, slots=True)
class KeptOut:
    """A job that waits without standing in a line, and why."""

    job: Job
    reason: Reason


def columns_filled(
    *,
    jobs: Sequence[Job],
    classes: Sequence[str],
    kept_out: Sequence[KeptOut],
    index: Index,
) -> Rows:
    """Return rows for the startable jobs as they stand, then for those kept out.

    Turns are -1 and times NaN yet. The reason of a startable job is that it stands behind others,
    until it is worked out.
    """
    everybody = [*jobs, *(one.job for one in kept_out)]
    count, total = len(jobs), len(everybody)
    rows = np.zeros(total, dtype=ROW)
    rows["job"] = _ids(everybody)
    rows["tenant"] = _looked_up(index.tenants, map(_TENANT, everybody), total)
    rows["workspace"] = _looked_up(index.workspaces, map(_WORKSPACE, everybody), total)
    rows["workflow"] = _looked_up(index.workflows, map(_WORKFLOW, everybody), total)
    stand_in = (*classes, *(one.job.class_name for one in kept_out))
    rows["job_class"] = _looked_up(index.classes, stand_in, total)
    rows["reason"][:count] = index.reasons[Reason.BEHIND_HEAD]
    rows["reason"][count:] = [index.reasons[one.reason] for one in kept_out]
    rows["startable"][:count] = True
    rows["cost"] = np.fromiter(map(_COST, everybody), np.uint32, total)
    rows["turn"] = -1
    rows["submitted_at"] = np.fromiter(map(_SUBMITTED_AT, everybody), np.float64, total)
    for name in ("start", "finish", "low", "high"):
        rows[name] = np.nan
    return rows


def _ids(jobs: Sequence[Job]) -> npt.NDArray[np.void]:
    """Return the jobs' UUIDs as 16-byte values."""
    return np.frombuffer(bytes.fromhex("".join(map(_ID, jobs)).replace("-", "")), dtype="V16")


def _looked_up(
    numbers: Mapping[str, int], names: Iterable[str], total: int
) -> npt.NDArray[np.uint32]:
    return np.fromiter(map(numbers.__getitem__, names), np.uint32, total)


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}
