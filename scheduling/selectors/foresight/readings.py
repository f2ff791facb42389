"""Readings of weeks of rows, kept in Valkey for all web processes, and read by one at a time.

Counting weeks of rows takes seconds on a large system, and little changes in minutes: a reading is
good for `FRESH_S`. Who finds none marks that it is being read; others meanwhile take the last one,
up to `KEPT_S` old, or wait for the new one, and read themselves only if it does not come in time.
While Valkey does not answer everybody reads.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec
import redis

from scheduling.events import valkey_client

log = logging.getLogger(__name__)

FRESH_S = 600
KEPT_S = 3600
BEING_READ_S = 60
"""So long a reader that has died keeps others off."""
WAIT_S = 10.0
_LOOK_S = 0.1


class Reading(Protocol):
    """What is kept, with when it was read (epoch seconds)."""

    @property
    def at(self) -> float:
        """When it was read."""


R = TypeVar("R", bound=Reading)


def reading(key: str, now: float, shape: type[R], read: Callable[[], R]) -> R:
    """Return what `read` returns, or returned for this key within `FRESH_S`, or does for another."""
    kept = _kept(key, shape)
    if kept is not None and 0 <= now - kept.at < FRESH_S:
        return kept
    if not _is_first(key):
        found = kept if kept is not None and kept.at <= now else _awaited(key, shape)
        if found is not None:
            return found
    try:
        made = read()
        _keep(key, made)
    finally:
        _read_no_more(key)
    return made


def _awaited(key: str, shape: type[R]) -> R | None:
    """Return what another makes, None where that takes too long."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        found = _kept(key, shape)
        if found is not None:
            return found
        time.sleep(_LOOK_S)
    return None


def _kept(key: str, shape: type[R]) -> R | None:
    try:
        raw: Any = valkey_client().get(key)
        return msgspec.msgpack.decode(raw, type=shape) if raw else None
    except (redis.RedisError, msgspec.MsgspecError):
        return None


def _keep(key: str, made: Reading) -> None:
    try:
        valkey_client().set(key, msgspec.msgpack.encode(made), ex=KEPT_S)
    except redis.RedisError as error:
        log.warning("reading not kept: %s", type(error).__name__)


def _is_first(key: str) -> bool:
    try:
        return bool(valkey_client().set(f"{key}:being_read", b"1", nx=True, ex=BEING_READ_S))
    except redis.RedisError:
        return True


def _read_no_more(key: str) -> None:
    try:
        valkey_client().delete(f"{key}:being_read")
    except redis.RedisError as error:
        log.warning("the mark of a reading is left to end: %s", type(error).__name__)
