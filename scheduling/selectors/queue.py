"""Reading the order: windows of it, one job's place, and headers, from the snapshot in Valkey.

A window of the whole order is one slice. A window of some tenants' jobs, and the place of one job,
need the whole version; it is kept in this process until the next one is there.
"""

import threading
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import redis

from scheduling.models import Pool
from scheduling.snapshot import Header, Rows, read_header, read_rows
from tenants.models import Workspace
from tenants.rbac import Reach

READ_TRIES = 3
_kept: dict[str, tuple[tuple[int, int], Rows]] = {}
_lock = threading.Lock()


class NoOrder(Exception):
    """The governor has not published an order of this pool, or it is lost for the moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a waiting job stands. Jobs that cannot start now have no place and no times."""

    job: uuid.UUID
    place: int | None
    turn: int | None
    tenant: str
    workspace: str
    workflow: str
    job_class: str
    cost: int
    reason: str
    submitted_at: datetime
    start: datetime | None
    finish: datetime | None
    low: datetime | None
    high: datetime | None
    approximate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of the order; `matching` rows are within reach, `header.total` wait in all."""

    header: Header
    matching: int
    rows: tuple[Place, ...]


def pool_header(client: redis.Redis, pool: Pool) -> Header | None:
    """Return the newest header of a pool, None when there is none."""
    return read_header(client, str(pool.id))


def order_window(
    client: redis.Redis,
    pool: Pool,
    *,
    within: Reach,
    tenant: uuid.UUID | None,
    offset: int,
    limit: int,
) -> Window:
    """Return `limit` rows from `offset` of those within reach, each with its true place.

    Raises `NoOrder`.
    """
    if within.everywhere and tenant is None:
        header, rows = _read(client, pool, lambda found: read_rows(client, found, offset, limit))
        places = np.arange(offset, offset + len(rows))
        return _window(header, header.total, rows, places)
    header, rows = _read(client, pool, lambda found: _whole(client, found))
    matching = np.flatnonzero(_mask(header, rows, within, tenant))
    chosen = matching[offset : offset + limit]
    return _window(header, len(matching), rows[chosen], chosen)


def job_place(client: redis.Redis, pool: Pool, job_id: uuid.UUID) -> Place | None:
    """Return where a job stands; None when the order does not hold it. Raises `NoOrder`."""
    header, rows = _read(client, pool, lambda found: _whole(client, found))
    found = np.flatnonzero(rows["job"] == np.void(job_id.bytes))
    if not len(found):
        return None
    return _place(header, rows[found[0]], int(found[0]))


def moment(seconds: float | None) -> datetime | None:
    """Return an aware time from epoch seconds; None and NaN give None."""
    if seconds is None or np.isnan(seconds):
        return None
    return datetime.fromtimestamp(float(seconds), tz=UTC)


def _read(
    client: redis.Redis, pool: Pool, read: Callable[[Header], Rows | None]
) -> tuple[Header, Rows]:
    """Return a header with rows of that very version; a version may expire in between."""
    for _ in range(READ_TRIES):
        header = pool_header(client, pool)
        rows = read(header) if header is not None else None
        if header is not None and rows is not None:
            return header, rows
    raise NoOrder


def _whole(client: redis.Redis, header: Header) -> Rows | None:
    version = (header.epoch, header.seq)
    with _lock:
        kept = _kept.get(header.pool)
        if kept is not None and kept[0] == version:
            return kept[1]
        rows = read_rows(client, header)
        if rows is not None:
            _kept[header.pool] = (version, rows)
        return rows


def _mask(
    header: Header, rows: Rows, within: Reach, tenant: uuid.UUID | None
) -> npt.NDArray[np.bool_]:
    mask = np.full(len(rows), within.everywhere)
    if not within.everywhere:
        mask = _in_tenants(header, rows, within.tenants) | _in_workspaces(header, rows, within)
    return mask if tenant is None else mask & _in_tenants(header, rows, {tenant})


def _in_tenants(
    header: Header, rows: Rows, tenants: Collection[uuid.UUID]
) -> npt.NDArray[np.bool_]:
    numbers = [i for i, row in enumerate(header.tenants) if uuid.UUID(row.id) in tenants]
    return np.isin(rows["tenant"], numbers)


def _in_workspaces(header: Header, rows: Rows, within: Reach) -> npt.NDArray[np.bool_]:
    """A workspace is found by any of its names, within its tenant's rows."""
    mask = np.zeros(len(rows), dtype=bool)
    own = Workspace.objects.filter(id__in=within.workspaces).select_related("tenant")
    for workspace in own if within.workspaces else ():
        names = {str(workspace.id), workspace.slug, f"{workspace.tenant.slug}/{workspace.slug}"}
        numbers = [i for i, name in enumerate(header.workspaces) if name in names]
        same = _in_tenants(header, rows, {workspace.tenant_id})
        mask |= same & np.isin(rows["workspace"], numbers)
    return mask


def _window(header: Header, matching: int, rows: Rows, positions: npt.NDArray[np.intp]) -> Window:
    places = (_place(header, row, int(at)) for row, at in zip(rows, positions, strict=True))
    return Window(header=header, matching=matching, rows=tuple(places))


def _place(header: Header, row: np.void, position: int) -> Place:
    submitted_at = moment(float(row["submitted_at"]))
    return Place(
        job=uuid.UUID(bytes=bytes(row["job"])),
        place=position + 1 if row["startable"] else None,
        turn=int(row["turn"]) if row["turn"] >= 0 else None,
        tenant=header.tenants[row["tenant"]].slug,
        workspace=header.workspaces[row["workspace"]],
        workflow=header.workflows[row["workflow"]][1],
        job_class=header.classes[row["job_class"]],
        cost=int(row["cost"]),
        reason=header.reasons[row["reason"]],
        submitted_at=submitted_at or datetime.fromtimestamp(0, tz=UTC),
        start=moment(float(row["start"])),
        finish=moment(float(row["finish"])),
        low=moment(float(row["low"])),
        high=moment(float(row["high"])),
        approximate=bool(row["approximate"]),
    )
