"""The lever on limits of scopes that have no row of their own to hold them, and on rates.

A new limit acts on the backlog that is there; what runs above it runs on.
"""

import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from django.db import transaction

from scheduling.events import nudge_on_commit
from scheduling.models import Executor, Limit, Pool, Workflow
from scheduling.models.limit import (
    COLUMN_SCOPES,
    EVERYTHING,
    MEASURES,
    RATE_SCOPES,
    RUNNING,
    RUNNING_SCOPES,
)
from tenants.controls import ControlRefused, record_change
from tenants.limits import MAX_CAP
from tenants.models import Tenant, Workspace

MAX_RATE = 1_000_000_000_000
LONGEST_ID = 200
LONGEST_TARGET = 64
"""So much of an id the audit is searched by; the whole of it is in the change."""
_Row: TypeAlias = Pool | Executor | Tenant | Workspace | Workflow
_ROWS: Mapping[str, type[_Row]] = MappingProxyType(
    {
        "pool": Pool,
        "executor": Executor,
        "tenant": Tenant,
        "workspace": Workspace,
        "workflow": Workflow,
    }
)


@transaction.atomic
def limit_set(
    *,
    scope: str,
    scope_id: str,
    measure: str,
    value: int | None,
    acting_user: str,
    reason: str,
) -> int:
    """Set or lift (None) one limit; returns the change's number.

    `scope_id` is as `scheduling.models.Limit` tells. Raises `ControlRefused`.
    """
    _check_measure(scope, measure)
    _check_value(measure, value)
    tenant = target_check(scope, scope_id)
    mine = Limit.objects.filter(scope=scope, scope_id=scope_id, measure=measure)
    before = mine.select_for_update().values_list("value", flat=True).first()
    if value is None:
        mine.delete()
    else:
        Limit.objects.update_or_create(
            scope=scope, scope_id=scope_id, measure=measure, defaults={"value": value}
        )
    nudge_on_commit()
    whose = whose_limit(scope, scope_id)
    return record_change(
        actor=acting_user,
        action="limit_set",
        tenant=tenant,
        target=(scope, scope_id[:LONGEST_TARGET]),
        change=({**whose, measure: before}, {**whose, measure: value}),
        reason=reason,
    )


def _check_measure(scope: str, measure: str) -> None:
    if measure == RUNNING and scope in COLUMN_SCOPES:
        sentence = f"A {scope}'s running cap is set at its own address, .../limits."
        raise ControlRefused("scope", sentence)
    measure_check(scope, measure, RUNNING_SCOPES)


def measure_check(scope: str, measure: str, running_scopes: Sequence[str]) -> None:
    """Raise `ControlRefused` for a scope or measure that is none, or that do not go together."""
    if measure not in MEASURES:
        sentence = f"A limit is on one of {', '.join(MEASURES)}, not {measure!r}."
        raise ControlRefused("measure", sentence)
    known = sorted({*running_scopes, *RATE_SCOPES})
    if scope not in known:
        sentence = f"A limit is of one of {', '.join(known)}, not {scope!r}."
        raise ControlRefused("scope", sentence)
    fitting = running_scopes if measure == RUNNING else RATE_SCOPES
    if scope not in fitting:
        sentence = f"A limit on {measure} is of one of {', '.join(fitting)}, not {scope}."
        raise ControlRefused("measure", sentence)


def _check_value(measure: str, value: int | None) -> None:
    most = MAX_CAP if measure == RUNNING else MAX_RATE
    if value is not None and not 1 <= value <= most:
        sentence = f"A limit on {measure} is 1 to {most}, or null for none, not {value}."
        raise ControlRefused("value", sentence)


def target_check(scope: str, scope_id: str) -> Tenant | None:
    """Return the tenant whose limit it is; raise `ControlRefused` for what there is not."""
    if not scope_id.strip() or len(scope_id) > LONGEST_ID or not scope_id.isprintable():
        sentence = f"Name the {scope} that is limited, in 1 to {LONGEST_ID} characters."
        raise ControlRefused("scope_id", sentence)
    if scope == "global" and scope_id != EVERYTHING:
        raise ControlRefused("scope_id", f"The scope global has one id: {EVERYTHING!r}.")
    if scope == "provider" and not Executor.objects.filter(provider=scope_id).exists():
        raise ControlRefused("scope_id", f"No executor is of a provider {scope_id!r}.")
    if scope not in _ROWS:
        return None
    row = _row(scope, scope_id)
    if row is None:
        raise ControlRefused("scope_id", f"There is no {scope} {scope_id!r}.")
    if isinstance(row, Workspace | Workflow):
        return row.tenant
    return row if isinstance(row, Tenant) else None


def whose_limit(scope: str, scope_id: str) -> dict[str, str]:
    """Return whose limit it is, for the audit: the id, and `of`, the slug or path of what has one.

    What is gone, and what is named by its id (a provider, a user, a key), has no `of`.
    """
    row, known = _row(scope, scope_id), {"scope_id": scope_id}
    if row is None:
        return known
    if isinstance(row, Workspace | Workflow):
        return known | {"of": f"{row.tenant.slug}/{row.slug}"}
    return known | {"of": row.slug}


def _row(scope: str, scope_id: str) -> _Row | None:
    rows = _ROWS.get(scope)
    try:
        return rows.objects.filter(id=uuid.UUID(scope_id)).first() if rows else None
    except ValueError:
        return None
