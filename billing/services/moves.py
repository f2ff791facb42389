"""Bringing reservations into the present window before their jobs run.

Theory. A job may wait longer than the window its reservation was made in. What it will spend falls
into the window of its dispatch, so there it must be held and fit. All stale lines of a job move or
none; a job that does not fit loses its reservation and goes back to admission: it is never run
unfunded.
"""

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby

from django.db import connection, transaction
from django.db.models import prefetch_related_objects

from billing.core.headroom import refusal
from billing.core.windows import Window
from billing.models import Budget
from billing.services.accounts import (
    Account,
    Place,
    accounts_lock,
    accounts_write,
    balances_ensure,
    limits_raise,
    window_of,
)
from billing.services.reservations import refused_of, release
from billing.services.sets import array, columns
from billing.services.verdicts import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stale:
    """A line that is held in another window than the present one."""

    job_id: uuid.UUID
    line_id: uuid.UUID
    old: Place
    new: Place
    amount: Decimal


_LINES = """
SELECT r.job_id, l.id, l.budget_id, l.window_start, l.amount
FROM billing_reservation r JOIN billing_reservationline l ON l.reservation_id = r.id
WHERE r.job_id = ANY(%s::uuid[]) AND r.state = 'open'
ORDER BY r.id, l.id
"""
_LINES_LOCKED = _LINES + "FOR UPDATE OF r"
_Spans = dict[Place, tuple[Budget, Window]]


@transaction.atomic
def reservations_move(*, job_ids: Collection[uuid.UUID], now: datetime) -> list[Refused]:
    """Move what the jobs hold into the present windows; returns the jobs that do not fit there.

    Those hold nothing any more. Jobs without stale lines cost two reads and no lock.
    """
    stale, spans = _stale_lines(job_ids, now, _LINES)
    if not stale:
        return []
    balances_ensure({line.new: spans[line.new] for line in stale})
    # Read again under lock: a job may have been settled or released in between.
    stale, spans = _stale_lines({line.job_id for line in stale}, now, _LINES_LOCKED)
    accounts = accounts_lock(spans)
    prefetch_related_objects([budget for budget, _ in spans.values()], "escalations")
    limits_raise(accounts.values(), now)
    moved: list[_Stale] = []
    refused: list[Refused] = []
    for job_id, group in groupby(stale, key=lambda line: line.job_id):
        lines = list(group)
        answer = _move(job_id, lines, accounts)
        if answer is None:
            moved += lines
        else:
            refused.append(answer)
    accounts_write(accounts.values())
    _lines_update(moved)
    release(job_ids=[answer.job_id for answer in refused], now=now)
    return refused


def _stale_lines(
    job_ids: Collection[uuid.UUID], now: datetime, sql: str
) -> tuple[list[_Stale], _Spans]:
    """Return the stale lines by job, and the places that they leave and go to."""
    with connection.cursor() as cursor:
        cursor.execute(
            sql,
            [array(job_ids)],
        )
        rows = cursor.fetchall()
    budgets = Budget.objects.in_bulk({row[2] for row in rows})
    present = {budget.id: window_of(budget, now) for budget in budgets.values()}
    stale: list[_Stale] = []
    spans: _Spans = {}
    for job_id, line_id, budget_id, start, amount in rows:
        span = present[budget_id]
        if span.start == start:
            continue
        old, new = (budget_id, start), (budget_id, span.start)
        spans[old] = (budgets[budget_id], window_of(budgets[budget_id], start))
        spans[new] = (budgets[budget_id], span)
        stale.append(_Stale(job_id=job_id, line_id=line_id, old=old, new=new, amount=amount))
    return stale, spans


def _move(job_id: uuid.UUID, lines: list[_Stale], accounts: dict[Place, Account]) -> Refused | None:
    """Move one job's lines in memory, or return what refuses it and move nothing."""
    for line in lines:
        account = accounts[line.new]
        if refusal([account], {account.dimension: line.amount}) is not None:
            return refused_of(job_id, account, line.amount)
    for line in lines:
        accounts[line.old].held = max(Decimal(0), accounts[line.old].held - line.amount)
        accounts[line.new].held += line.amount
    return None


def _lines_update(moved: list[_Stale]) -> None:
    if not moved:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE billing_reservationline l SET window_start = k.start "
            "FROM unnest(%s::uuid[], %s::timestamptz[]) k(id, start) WHERE l.id = k.id",
            columns([(line.line_id, line.new[1]) for line in moved]),
        )
