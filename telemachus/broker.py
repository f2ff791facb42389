"""kombu's transport for Redis and Valkey, with one client a channel for what it sends.

kombu makes a client anew for each command, and with it the hundred callbacks that a client has; that is
a quarter of what publishing takes. They all share the channel's pool of connections, so one serves as well.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from kombu.transport import redis as kombu_redis


class Channel(kombu_redis.Channel):
    """Keeps its client for as long as it keeps its pool."""

    _kept: redis.Redis | None = None

    @contextmanager
    def conn_or_acquire(self, client: redis.Redis | None = None) -> Iterator[redis.Redis]:
        """Lend `client`, or else its own."""
        if client is not None:
            yield client
            return
        if self._kept is None or self._kept.connection_pool is not self.pool:
            self._kept = self._create_client()  # type: ignore[no-untyped-call]
        yield self._kept


class Transport(kombu_redis.Transport):
    """Opens such channels."""

    Channel = Channel
