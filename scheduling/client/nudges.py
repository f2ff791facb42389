"""Waiting for a placement: woken by the governor over Valkey, and by the clock where it is away."""

import contextlib
import time
from collections.abc import Callable
from typing import Self

import redis

from scheduling.events import caller_channel, valkey_client

ALONE_S = 0.1
"""The longest sleep between two looks where nothing can wake us."""


class Nudges:
    """A subscription to one job's placements; without Valkey it only sleeps."""

    def __init__(self, job_id: str) -> None:
        """Subscribe at the first wait."""
        self._channel = caller_channel(job_id)
        self._subscription: redis.client.PubSub | None = None

    def __enter__(self) -> Self:
        self._try(self._subscribe)
        return self

    def __exit__(self, *_: object) -> None:
        if self._subscription is not None:
            with contextlib.suppress(redis.RedisError, OSError):
                self._subscription.close()

    def wait(self, seconds: float) -> None:
        """Return when the job was placed, or after `seconds`; at times for nothing."""
        if self._subscription is None:
            time.sleep(min(seconds, ALONE_S))
        else:
            self._try(lambda: self._listen(seconds))

    def _listen(self, seconds: float) -> None:
        if self._subscription is not None:
            self._subscription.get_message(timeout=seconds)

    def _subscribe(self) -> None:
        subscription = valkey_client().pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        subscription.subscribe(self._channel)
        self._subscription = subscription

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (redis.RedisError, OSError):
            self._subscription = None
