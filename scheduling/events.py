"""Signals between processes: the governor's wake-up, and the ticks that boards redraw on.

A signal carries no data and may be lost: the governor also wakes by its clock, and a board heals
by the next tick or its heartbeat. So a broker that is down never fails the caller: the fault is
logged, and the work goes on.
"""

import asyncio
import logging
import threading
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

import redis
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction
from redis.backoff import NoBackoff
from redis.retry import Retry

log = logging.getLogger(__name__)

LIVE_GROUP = "live"
TICK = "live.tick"


@lru_cache(maxsize=1)
def valkey_client() -> redis.Redis:
    """Return this process's client: no retries, short time-outs, bytes."""
    return valkey_client_new()


def valkey_client_new() -> redis.Redis:
    """Return a client of one's own, to be closed after use."""
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=2,
        socket_connect_timeout=0.5,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
    )


def nudge_channel() -> str:
    """Return the channel of nudges; pub/sub knows no database numbers, so the name carries it."""
    return f"telemachus:nudge:{urlsplit(settings.REDIS_URL).path.strip('/') or 0}"


def nudge() -> None:
    """Wake the governor now (best effort)."""
    try:
        valkey_client().publish(nudge_channel(), b"1")
    except redis.RedisError as error:
        log.warning("governor not nudged, it wakes by its clock: %s", type(error).__name__)


def nudge_on_commit() -> None:
    """Wake the governor when the present transaction has committed."""
    transaction.on_commit(nudge)


def caller_channel(job_id: str) -> str:
    """Return the channel on which the caller of a job hears that it was placed."""
    return f"{nudge_channel()}:{job_id}"


def callers_nudge(job_ids: Iterable[str]) -> None:
    """Tell those who wait for a slot of their own that they have one (best effort; they also look)."""
    try:
        pipe = valkey_client().pipeline(transaction=False)
        for job_id in job_ids:
            pipe.publish(caller_channel(job_id), b"1")
        pipe.execute()
    except redis.RedisError as error:
        log.warning("callers not nudged, they look by themselves: %s", type(error).__name__)


class TickPublisher:
    """Sends ticks to all boards from one thread with one event loop.

    A loop per call would open new connections for each tick, hence the thread. Of the ticks that
    come while one is under way, the newest of each pool is sent next.
    """

    def __init__(self) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._busy = threading.Event()
        self._lock = threading.Lock()
        self._newest: dict[str, tuple[int, int]] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="ticks", daemon=True)
        self._thread.start()

    def tick(self, pool: str, epoch: int, seq: int) -> None:
        """Tell the boards that version `seq` of a pool's order is there."""
        with self._lock:
            self._newest[pool] = (epoch, seq)
            if self._busy.is_set():
                return
            self._busy.set()
        asyncio.run_coroutine_threadsafe(self._send_all(), self._loop)

    async def _send_all(self) -> None:
        try:
            while (pool := self._next_pool()) is not None:
                await self._send(pool, *self._newest.pop(pool))
        except BaseException:
            self._busy.clear()
            raise

    def _next_pool(self) -> str | None:
        """Return a pool that is to be ticked; None, and busy no more, when there is none."""
        with self._lock:
            pool = next(iter(self._newest), None)
            if pool is None:
                self._busy.clear()
            return pool

    async def _send(self, pool: str, epoch: int, seq: int) -> None:
        message = {"type": TICK, "pool": pool, "epoch": epoch, "seq": seq}
        try:
            await asyncio.wait_for(get_channel_layer().group_send(LIVE_GROUP, message), 2)
        except (redis.RedisError, OSError, TimeoutError) as error:
            log.warning("boards not ticked: %s", type(error).__name__)

    def close(self) -> None:
        """Stop the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=2)
