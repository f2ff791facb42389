"""Asks the API for what people ask it for, in the database that is configured; prints JSON.

A row for each read: path, status, milliseconds, statements, and the large tables that a plan of one
of its statements reads from end to end. `bench/size.py` runs it as `python -m bench.size_reads`.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")
django.setup()

# ruff: noqa: E402 (models can be imported only after django.setup)
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.test import Client

from scheduling.models import Job
from tenants.models import Membership

LARGE = 50_000
TIMES = 5
READS = (
    "jobs", "jobs?state=failed", "jobs?tenant=many-7", "jobs?workflow=work",
    "jobs/{job}", "jobs/{job}/events", "jobs/{job}/decisions",
    "jobs/{job}/explain", "costs", "costs?tenant=many-7", "tenants", "pools", "executors",
    "limits", "budgets", "audit", "alerts",
)  # fmt: skip


def measured(client: Client, path: str) -> tuple[str, int, float, int, list[str]]:
    """Return a read's row."""
    asked: dict[str, Any] = {}

    def note(execute: Callable[..., object], sql: str, params: object, *rest: object) -> object:
        asked.setdefault(sql, params)
        return execute(sql, params, *rest)

    with connection.execute_wrapper(note):
        status = client.get(path).status_code
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        client.get(path)
        took.append(time.perf_counter() - began)
    whole: set[str] = set()
    with transaction.atomic(), connection.cursor() as cursor:
        for sql, params in asked.items():
            if sql.lstrip().startswith(("SELECT", "WITH")):
                cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
                plan = cursor.fetchone()[0]
                whole.update(_whole(json.loads(plan) if isinstance(plan, str) else plan))
    return path, status, sorted(took)[TIMES // 2] * 1e3, len(asked), sorted(whole)


def _whole(node: object) -> Iterator[str]:
    """Yield the large tables that a plan reads from end to end."""
    if isinstance(node, list):
        for one in node:
            yield from _whole(one)
    if isinstance(node, dict):
        if node.get("Node Type") == "Seq Scan" and node["Plan Rows"] >= LARGE:
            yield node["Relation Name"]
        for one in node.values():
            yield from _whole(one)


def main() -> None:
    """Read as an operator, and print."""
    user, _ = get_user_model().objects.get_or_create(username="reader")
    Membership.objects.get_or_create(user=user, role="operator")
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    jobs = Job.objects.filter(state="queued").order_by("seq")
    job = jobs.values_list("id", flat=True)[0]
    rows = [measured(client, f"/api/v1/{path.format(job=job)}") for path in READS]
    sys.stdout.write(json.dumps(rows))


if __name__ == "__main__":
    main()
