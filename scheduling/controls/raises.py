"""Escalations of limits: levers that raise one limit for a time, with who answers for it and why.

Theory. What is in force is derived from time (`core.policy.raises`): no row is touched when an
escalation begins or ends. It acts on the backlog that is there at both moments; what runs above the
limit that is left runs on.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduling.controls.limits import (
    LONGEST_TARGET,
    MAX_RATE,
    measure_check,
    target_check,
    whose_limit,
)
from scheduling.events import nudge_on_commit
from scheduling.models import LimitRaise, Workflow
from scheduling.models.limit import COLUMN_SCOPES, RUNNING, RUNNING_SCOPES
from scheduling.selectors.raises import COLUMNS, Subject, bases
from tenants.controls import ControlRefused, record_change
from tenants.escalations import Escalated, Term, early_end, term_start
from tenants.limits import MAX_CAP
from tenants.models import Tenant, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitIncrease(Term):
    """By how much a limit is raised, from when to when, and who answers for it."""

    extra: int


@transaction.atomic
def limit_raise(
    *,
    acting_user: str,
    reason: str,
    subject: Subject,
    increase: LimitIncrease,
    now: datetime,
) -> Escalated:
    """Raise the limit on a (scope, scope_id, measure) for a time.

    `scope_id` is as `scheduling.models.LimitRaise` tells. Raises `ControlRefused` for what has no
    limit, a raise that raises nothing, a time that is over, empty or longer than a year, no reason.
    """
    scope, scope_id, measure = subject
    measure_check(scope, measure, (*RUNNING_SCOPES, *COLUMN_SCOPES))
    _check_extra(measure, increase.extra)
    starts_at = term_start(increase, now)
    target_check(scope, scope_id)
    base = bases([subject])[subject]
    if base is None:
        sentence = f"This {scope} has no limit on {measure}: there is nothing to raise."
        raise ControlRefused("scope_id", sentence)
    made = LimitRaise.objects.create(
        scope=scope,
        scope_id=scope_id,
        measure=measure,
        extra=increase.extra,
        owner=increase.owner or acting_user,
        reason=reason,
        starts_at=starts_at,
        ends_at=increase.ends_at,
    )
    before = {**whose_limit(scope, scope_id), measure: base}
    number = _record(made, (before, _told(made)), "limit_raise", (acting_user, reason))
    return Escalated(id=made.id, number=number)


@transaction.atomic
def limit_raise_end(*, acting_user: str, reason: str, raise_id: uuid.UUID, now: datetime) -> int:
    """End an escalation of a limit now; returns the change's number.

    Raises `ControlRefused` for one that has ended, and `LimitRaise.DoesNotExist`.
    """
    row = LimitRaise.objects.select_for_update(no_key=True).get(id=raise_id)
    before = _told(row)
    row.ends_at = early_end(row.starts_at, row.ends_at, now)
    row.save(update_fields=["ends_at"])
    return _record(row, (before, _told(row)), "limit_raise_end", (acting_user, reason))


def _check_extra(measure: str, extra: int) -> None:
    most = MAX_CAP if measure == RUNNING else MAX_RATE
    if not 1 <= extra <= most:
        sentence = f"A limit on {measure} is raised by 1 to {most}, not by {extra}."
        raise ControlRefused("extra", sentence)


def _record(
    row: LimitRaise, change: tuple[dict[str, Any], dict[str, Any]], action: str, by: tuple[str, str]
) -> int:
    nudge_on_commit()
    return record_change(
        actor=by[0],
        action=action,
        tenant=_tenant_of(row),
        target=(row.scope, row.scope_id[:LONGEST_TARGET]),
        change=change,
        reason=by[1],
    )


def _tenant_of(row: LimitRaise) -> Tenant | None:
    """Return the tenant whose limit is raised; None where it is nobody's, or of what is gone."""
    rows = COLUMNS.get(row.scope)
    found = rows.objects.filter(id=row.scope_id).first() if rows else None
    return found.tenant if isinstance(found, Workspace | Workflow) else found


def _told(row: LimitRaise) -> dict[str, Any]:
    return {
        "escalation": str(row.id),
        **whose_limit(row.scope, row.scope_id),
        "measure": row.measure,
        "extra": row.extra,
        "owner": row.owner,
        "starts_at": row.starts_at.isoformat(),
        "ends_at": row.ends_at.isoformat(),
    }
