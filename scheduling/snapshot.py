"""The order snapshot: the read model that people see, one packed blob a pool in Valkey.

The leading governor writes it; web processes read it, in slices, without touching the database.
Two keys: the header (`telemachus:order:<pool>`, msgpack, small) names the rows' key, which is new
for each full pass and expires, so a reader never mixes two versions. Rows are fixed-width records
in the order in which jobs will start; behind them stand those that cannot start now (held, paused,
blocked, waiting), with a reason and no times.

A full pass over a large backlog takes a while. Between two of them the leader publishes headers
alone: what runs and what is in use now, and in `gone` the jobs of the rows that wait no more.
`read_rows` leaves those out, so a header and its rows always agree.

`seq` counts the versions of one leader, `epoch` is the leader's: a reader that sees another epoch,
or a gap that matters to it, takes the window anew.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import redis

PREFIX = "telemachus:order:"
POOLS_KEY = "telemachus:pools"
ROWS_LIVE_S = 60

ROW = np.dtype(
    [
        ("job", "V16"),
        ("tenant", "<u4"),
        ("workspace", "<u4"),
        ("workflow", "<u4"),
        ("job_class", "u1"),
        ("reason", "u1"),
        ("startable", "?"),
        ("approximate", "?"),
        ("cost", "<u4"),
        ("turn", "<i8"),
        ("submitted_at", "<f8"),
        ("start", "<f8"),
        ("finish", "<f8"),
        ("low", "<f8"),
        ("high", "<f8"),
    ]
)
"""`tenant`, `workspace`, `workflow`, `job_class`, `reason` index the header's lists. `turn` is -1
where there is none; times are epoch seconds, NaN where there is none; `low` and `high` are the
80 % range of `finish`."""

Rows: TypeAlias = npt.NDArray[np.void]


class TenantRow(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant in a pool: its waiting and running work and its share.

    `planned` is its weight over the weights of all that wait or run now, `actual` its part of the
    units in use; `served` the charge placed since the leader began, for the long view.
    """

    id: str
    slug: str
    name: str
    weight: int
    held: bool
    waiting: int
    running: int
    in_use: int
    planned: float
    actual: float
    served: int
    clear_at: float | None


class ExecutorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One executor: `slots` can run now, `in_use` do."""

    id: str
    slug: str
    kind: str
    slots: int
    configured_slots: int
    in_use: int
    health: str
    circuit: str
    enabled: bool
    draining: bool
    tenant: str | None
    models: list[str]


class RunningRow(msgspec.Struct, frozen=True, kw_only=True):
    """One live attempt: times are epoch seconds; `finish` is the estimate, `overdue` past it."""

    job: str
    attempt: str
    fence: int
    tenant: int
    workflow: int
    job_class: int
    executor: str
    cost: int
    started_at: float
    finish: float
    overdue: bool
    workspace: int


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool looks like at one moment; lists are what the rows' numbers index.

    `workspaces` are named "tenant/workspace" by slug, `workflows` (id, slug). `rows_seq` is the
    version whose full pass made the rows, `gone` the 16-byte ids of those that wait no more.
    """

    pool: str
    slug: str
    epoch: int
    seq: int
    at: float
    policy: int
    control: int
    budget: int
    reserve: int
    in_use: int
    startable: int
    total: int
    clear_at: float | None
    clear_low: float | None
    clear_high: float | None
    tenants: list[TenantRow]
    workspaces: list[str]
    workflows: list[tuple[str, str]]
    classes: list[str]
    reasons: list[str]
    executors: list[ExecutorRow]
    running: list[RunningRow]
    eta_mean_error_s: float | None
    eta_hit_rate: float | None
    rows_seq: int
    gone: bytes = b""


def write(client: redis.Redis, header: Header, rows: Rows) -> None:
    """Publish one full version: rows first, then the header that names them."""
    write_rows(client, header, rows)
    write_header(client, header)


def write_rows(client: redis.Redis, header: Header, rows: Rows) -> None:
    """Store the rows of a version; nobody sees them before a header names them."""
    client.set(_rows_key(header), rows.tobytes(), ex=ROWS_LIVE_S)


def write_header(client: redis.Redis, header: Header) -> None:
    """Publish a header; its rows must be stored already, and are kept alive by it."""
    pipe = client.pipeline(transaction=True)
    pipe.expire(_rows_key(header), ROWS_LIVE_S)
    pipe.set(PREFIX + header.pool, msgspec.msgpack.encode(header))
    pipe.sadd(POOLS_KEY, header.pool)
    pipe.execute()


def read_header(client: redis.Redis, pool: str) -> Header | None:
    """Return the newest header of a pool, None before the first or after a broker's loss."""
    raw = client.get(PREFIX + pool)
    if raw is None:
        return None
    return msgspec.msgpack.decode(_bytes(raw), type=Header)


def read_headers(client: redis.Redis) -> list[Header]:
    """Read the newest headers of all pools, by slug."""
    named = client.smembers(POOLS_KEY)
    pools = [pool.decode() if isinstance(pool, bytes) else pool for pool in named]
    raw = client.mget([PREFIX + pool for pool in pools]) if pools else []
    headers = [msgspec.msgpack.decode(_bytes(one), type=Header) for one in raw if one is not None]
    return sorted(headers, key=lambda one: one.slug)


def read_rows(
    client: redis.Redis, header: Header, offset: int = 0, count: int | None = None
) -> Rows | None:
    """Return `count` rows from `offset` of that very version, None when it has expired."""
    if count == 0:  # an end before the start would read up to the last row
        return np.empty(0, dtype=ROW)
    gone = len(header.gone) // 16
    first = 0 if gone else offset
    stop = -1 if count is None else (offset + count + gone) * ROW.itemsize - 1
    raw = _bytes(client.getrange(_rows_key(header), first * ROW.itemsize, stop))
    if not raw and offset < header.total:
        return None
    rows = np.frombuffer(raw, dtype=ROW)
    if not gone:
        return rows
    kept = present(header, rows)
    return kept[offset : None if count is None else offset + count]


def present(header: Header, rows: Rows) -> Rows:
    """Return the rows without those that the header says are gone."""
    gone, ids = _halves(np.frombuffer(header.gone, dtype="V16")), _halves(rows["job"])
    absent = np.isin(ids[:, 1], gone[:, 1]) & np.isin(ids[:, 0], gone[:, 0])
    return rows[~absent]


def _halves(ids: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
    """Return 16-byte ids as pairs of numbers, which numpy can look up."""
    return np.ascontiguousarray(ids).view(np.uint64).reshape(-1, 2)


def pack(records: Sequence[tuple[object, ...]]) -> Rows:
    """Return rows from tuples in the order of ROW's fields."""
    return np.array(list(records), dtype=ROW)


def _rows_key(header: Header) -> str:
    return f"{PREFIX}{header.pool}:{header.epoch}:{header.rows_seq}"


def _bytes(raw: object) -> bytes:
    if not isinstance(raw, bytes):
        message = "the order snapshot needs a client without decode_responses"
        raise TypeError(message)
    return raw
