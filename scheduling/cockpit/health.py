"""Probes: `/healthz` says that the process answers, `/readyz` that it can do its work."""

import time
from collections.abc import Callable

import redis
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduling import snapshot
from scheduling.events import valkey_client

SNAPSHOT_FRESH_S = 15.0


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer, whatever the state of the services."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 when database, broker and order snapshot are there, else 503 and which is not."""
    checks: dict[str, Callable[[], str]] = {
        "database": _database,
        "broker": _broker,
        "governor": _governor,
    }
    state = {name: _safely(check) for name, check in checks.items()}
    ready = all(answer == "ok" for answer in state.values())
    return JsonResponse({"ready": ready, **state}, status=200 if ready else 503)


def _safely(check: Callable[[], str]) -> str:
    try:
        return check()
    except (DatabaseError, redis.RedisError, OSError) as error:
        return f"no answer ({type(error).__name__})"


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return "ok"


def _broker() -> str:
    valkey_client().ping()
    return "ok"


def _governor() -> str:
    """Say how old the oldest pool's snapshot is, when it is too old."""
    ages = [time.time() - header.at for header in snapshot.read_headers(valkey_client())]
    if not ages:
        return "no order snapshot yet; is a governor running?"
    if max(ages) > SNAPSHOT_FRESH_S:
        return f"the order snapshot is {max(ages):.0f} s old; is a governor running?"
    return "ok"
