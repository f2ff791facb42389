"""Whether the services that live elsewhere answer, asked once before anything is started."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import psycopg
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from telemachus.local.errors import LocalServiceError

WAIT_S = 5


def require_reachable(environ: Mapping[str, str]) -> None:
    """Ask the servers named by DATABASE_URL and REDIS_URL; raise LocalServiceError if one is away.

    The message names the variable, the address and the fault, never the password.
    """
    if url := environ.get("DATABASE_URL"):
        try:
            psycopg.connect(url, connect_timeout=WAIT_S).close()
        except psycopg.Error as error:
            raise _away("DATABASE_URL", "PostgreSQL", url, error) from None
    if url := environ.get("REDIS_URL"):
        client = redis.Redis.from_url(url, socket_timeout=WAIT_S, retry=Retry(NoBackoff(), 0))
        try:
            client.ping()
        except redis.RedisError as error:
            raise _away("REDIS_URL", "Valkey or Redis", url, error) from None
        finally:
            client.close()


def _away(variable: str, what: str, url: str, error: Exception) -> LocalServiceError:
    parts = urlsplit(url)
    where = f"{parts.hostname}:{parts.port or 'default port'}"
    fault = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return LocalServiceError(
        f"{what} at {where} ({variable}) cannot be used: {fault}. Start it, correct {variable}, or "
        f"leave {variable} out to use the embedded server."
    )
