"""Answering a repeated write once: the remembered answer commits with what it tells of.

One row a (workspace, key) is inserted first, in the same transaction as the write. The unique
index makes a concurrent twin wait until that transaction ends: if it committed, the twin replays
the answer; if it rolled back (an error, a crash), nothing was stored and the twin does the work.
So there is no moment at which the work stands without its answer, or the other way round.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from django.db import OperationalError, connection, transaction

from scheduling.models import IdempotencyRecord
from tenants.ids import new_id

WAIT_S = 10
CLAIM_TRIES = 5

_CLAIM = """
INSERT INTO scheduling_idempotencyrecord (id, workspace_id, key, fingerprint)
VALUES (%s, %s, %s, %s) ON CONFLICT (workspace_id, key) DO NOTHING
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a write answers; `keep` False when a repeat should try again (a full backlog)."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    keep: bool = True


class KeyReused(Exception):
    """The key was used for another request before."""


class KeyInProgress(Exception):
    """A request with this key is still being worked on."""


def fingerprint(*asked: object) -> str:
    """Return the hash of what is asked; the order of keys and white space do not matter."""
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def answer_once(
    *, workspace_id: uuid.UUID, key: str, asked: str, act: Callable[[], Answer]
) -> tuple[Answer, bool]:
    """Return the answer of `act`, or the remembered one and True; without a key just act.

    `asked` is the fingerprint of the request. What `act` raises is not remembered. Raises
    `KeyReused` for another request under the same key and `KeyInProgress` when the first one
    with it takes longer than `WAIT_S`.
    """
    if not key:
        return act(), False
    with transaction.atomic():
        record = _claim(workspace_id, key, asked)
        if record is not None:
            return _replay(record, asked), True
        answer = act()
        rows = IdempotencyRecord.objects.filter(workspace=workspace_id, key=key)
        if answer.keep:
            rows.update(status=answer.status, body=answer.body)
        else:
            rows.delete()
    return answer, False


def answers_forget(*, before: datetime) -> int:
    """Forget the answers given before that moment; return how many."""
    return IdempotencyRecord.objects.filter(created_at__lt=before).delete()[0]


def _claim(workspace_id: uuid.UUID, key: str, asked: str) -> IdempotencyRecord | None:
    """Return None when the key is now ours, else the committed record that holds it."""
    for _ in range(CLAIM_TRIES):
        if _insert(workspace_id, key, asked):
            return None
        # The holder may have been forgotten between the two statements: then claim again.
        record = IdempotencyRecord.objects.filter(workspace=workspace_id, key=key).first()
        if record is not None:
            return record
    raise KeyInProgress


def _insert(workspace_id: uuid.UUID, key: str, asked: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{WAIT_S}s'")
        try:
            cursor.execute(_CLAIM, [new_id(), workspace_id, key, asked])
        except OperationalError as error:
            if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                raise KeyInProgress from None
            raise
        fresh: bool = cursor.rowcount == 1
        cursor.execute("SET LOCAL lock_timeout TO DEFAULT")
    return fresh


def _replay(record: IdempotencyRecord, asked: str) -> Answer:
    if record.fingerprint != asked:
        raise KeyReused
    if record.status is None or record.body is None:  # cannot be: it commits with its answer
        raise KeyInProgress
    return Answer(status=record.status, body=record.body)
