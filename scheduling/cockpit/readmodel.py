"""This process's copy of every pool's newest order, loaded once per version for all sockets.

Reads are made in a small pool of threads of their own: the event loop never waits for the broker,
and a slow read delays no request. While a load is under way, all who ask share it. A broker that
does not answer leaves the last copy in place; its age (`header.at`) tells everybody that it is old.
The rows of a full pass are read once and kept: most versions only say which of them are gone.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
import numpy as np
import numpy.typing as npt
import redis

from scheduling import snapshot
from scheduling.cockpit.board import Board, Viewer

log = logging.getLogger(__name__)

DEPTH_EVERY_S = 10
DEPTH_KEPT = 360


class Depths:
    """How many jobs of each tenant waited, every ten seconds of the last hour."""

    def __init__(self) -> None:
        """Begin with nothing; the chart grows while the process lives."""
        self._samples: deque[tuple[int, tuple[str, ...], npt.NDArray[np.int64]]] = deque(
            maxlen=DEPTH_KEPT
        )

    def add(self, board: Board) -> None:
        """Keep a sample when the last one is old enough."""
        at = int(board.header.at)
        if self._samples and at < self._samples[-1][0] + DEPTH_EVERY_S:
            return
        ids = tuple(tenant.id for tenant in board.header.tenants)
        if self._samples and self._samples[-1][1] == ids:
            ids = self._samples[-1][1]
        waiting = np.array([tenant.waiting for tenant in board.header.tenants], dtype=np.int64)
        self._samples.append((at, ids, waiting))

    def of(self, viewer: Viewer) -> tuple[tuple[int, int], ...]:
        """Return (time, waiting jobs of the viewer's tenants), oldest first."""
        samples = list(self._samples)
        named = {id(ids): ids for _, ids, _ in samples}  # few: equal ones are the same object
        seen = {key: _numbers(ids, viewer) for key, ids in named.items()}
        return tuple((at, int(waiting[seen[id(ids)]].sum())) for at, ids, waiting in samples)


def _numbers(ids: tuple[str, ...], viewer: Viewer) -> slice | list[int]:
    """Return which of these tenants the viewer sees."""
    if viewer.tenants is None:
        return slice(None)
    return [number for number, name in enumerate(ids) if viewer.sees(name)]


class ReadModel:
    """The boards of all pools, by the pool's id."""

    def __init__(self, client: Callable[[], redis.Redis]) -> None:
        """Keep the way to a client; nothing is read before the first load."""
        self._client = client
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="board")
        self._lock = threading.Lock()
        self._load: Future[None] | None = None
        self._boards: dict[str, Board] = {}
        self._bases: dict[str, tuple[tuple[int, int], snapshot.Rows]] = {}
        self._depths: dict[str, Depths] = {}

    def boards(self) -> list[Board]:
        """Return the boards at hand, by the pool's slug."""
        return sorted(
            self._boards.values(), key=lambda board: (board.header.slug, board.header.pool)
        )

    def board(self, pool: str = "") -> Board | None:
        """Return the board of a pool named by id or slug; the first one when no name is given."""
        for board in self.boards():
            if pool in ("", board.header.pool, board.header.slug):
                return board
        return None

    def depth(self, board: Board, viewer: Viewer) -> tuple[tuple[int, int], ...]:
        """Return the depth of a pool in the last hour, as far as the viewer sees it."""
        depths = self._depths.get(board.header.pool)
        return depths.of(viewer) if depths else ()

    def has(self, pool: str, epoch: int, seq: int) -> bool:
        """Say whether this version, or a later one of the same leader, is at hand."""
        board = self._boards.get(pool)
        return board is not None and board.version >= (epoch, seq)

    def load(self) -> None:
        """Read every pool's newest version; faults of the broker are logged and change nothing."""
        try:
            self._read(self._client())
        except (redis.RedisError, OSError, msgspec.MsgspecError) as error:
            log.warning("order snapshot not read, the last one stays: %s", type(error).__name__)

    async def refresh(self) -> None:
        """Load in a thread; callers that come meanwhile share the load."""
        with self._lock:
            if self._load is None or self._load.done():
                self._load = self._threads.submit(self.load)
            load = self._load
        await asyncio.wrap_future(load)

    async def catch_up(self, pool: str, epoch: int, seq: int) -> None:
        """Load until this version is at hand; twice at most, the first may have begun before it."""
        for _ in range(2):
            if self.has(pool, epoch, seq):
                return
            await self.refresh()

    def _read(self, client: redis.Redis) -> None:
        named = client.smembers(snapshot.POOLS_KEY)
        pools = {pool.decode() if isinstance(pool, bytes) else pool for pool in named}
        for pool in pools:
            self._read_pool(client, pool)
        if pools:
            self._boards = {pool: board for pool, board in self._boards.items() if pool in pools}

    def _read_pool(self, client: redis.Redis, pool: str) -> None:
        header = snapshot.read_header(client, pool)
        if header is None or self._is_at_hand(pool, header):
            return
        base = self._base(client, header)
        if base is None:
            return
        rows = snapshot.present(header, base) if header.gone else base
        if len(rows) != header.total:
            return
        board = Board(header=header, rows=rows)
        self._depths.setdefault(pool, Depths()).add(board)
        self._boards = self._boards | {pool: board}

    def _base(self, client: redis.Redis, header: snapshot.Header) -> snapshot.Rows | None:
        """Return the rows of the header's full pass, gone ones included; None when they expired."""
        named = header.epoch, header.rows_seq
        known = self._bases.get(header.pool)
        if known is not None and known[0] == named:
            return known[1]
        rows = snapshot.read_rows(client, msgspec.structs.replace(header, gone=b""))
        if rows is not None:
            self._bases[header.pool] = named, rows
        return rows

    def _is_at_hand(self, pool: str, header: snapshot.Header) -> bool:
        board = self._boards.get(pool)
        return board is not None and board.version == (header.epoch, header.seq)
