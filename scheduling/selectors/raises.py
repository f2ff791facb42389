"""Escalations of limits, and the limits that they raise.

What is raised is a limit of its own row, a running cap in the row of a tenant, workspace or
workflow, or the policy's default for a scope that has none of its own.
"""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeAlias

from django.db.models import F, Q, QuerySet

from scheduling.core.policy.raises import Raise
from scheduling.models import Limit, LimitRaise, Workflow
from scheduling.models.limit import COLUMN_SCOPES, REQUESTS, RUNNING, TOKENS
from scheduling.selectors.policy import active_policy, caps_by_default
from tenants.models import Tenant, Workspace
from tenants.rbac import Reach

Subject: TypeAlias = tuple[str, str, str]
"""What a limit is on: scope, scope_id, measure."""
_Rows: TypeAlias = type[Tenant] | type[Workspace] | type[Workflow]
COLUMNS: Mapping[str, _Rows] = MappingProxyType(
    dict(zip(COLUMN_SCOPES, (Tenant, Workspace, Workflow), strict=True))
)
_AMOUNTS = {RUNNING: "running", REQUESTS: "requests", TOKENS: "tokens"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseInForce:
    """An escalation with the limit that it raises (None: there is none now, so it raises nothing).

    `in_force` is that limit with all that is on top of it now.
    """

    row: LimitRaise
    value: int | None
    in_force: int | None


def subject_of(row: Limit | LimitRaise) -> Subject:
    """Return what a limit or a raise is on."""
    return row.scope, row.scope_id, row.measure


def core_raise(row: LimitRaise) -> Raise:
    """Return the escalation as the core sees it."""
    amount: dict[str, Any] = {_AMOUNTS[row.measure]: row.extra}
    return Raise(
        id=str(row.id),
        key=(row.scope, row.scope_id),
        starts_at=row.starts_at.timestamp(),
        ends_at=row.ends_at.timestamp(),
        owner=row.owner,
        **amount,
    )


def raises_open(now: datetime) -> QuerySet[LimitRaise]:
    """Return the escalations in force and those to come, oldest first."""
    return LimitRaise.objects.filter(ends_at__gt=now).exclude(ends_at=F("starts_at"))


def raises_by_limit(now: datetime) -> dict[Subject, list[LimitRaise]]:
    """Return the escalations in force by what they raise."""
    found: dict[Subject, list[LimitRaise]] = defaultdict(list)
    for row in LimitRaise.objects.filter(starts_at__lte=now, ends_at__gt=now):
        found[subject_of(row)].append(row)
    return dict(found)


def raises_seen(within: Reach, asked: Mapping[str, str], now: datetime) -> list[RaiseInForce]:
    """Return the escalations in force and to come of the limits that somebody may see.

    `asked` are exact values of columns.
    """
    rows = list(raises_open(now).filter(_visible(within), **asked))
    values, raised = bases([subject_of(row) for row in rows]), raises_by_limit(now)
    return [
        RaiseInForce(row=row, value=value, in_force=on_top(value, raised.get(subject_of(row), ())))
        for row in rows
        for value in [values[subject_of(row)]]
    ]


def on_top(value: int | None, raises: Iterable[LimitRaise]) -> int | None:
    """Return a limit with its escalations on top."""
    return None if value is None else sum((one.extra for one in raises), value)


def bases(subjects: Collection[Subject]) -> dict[Subject, int | None]:
    """Return the limits on these as they are set, escalations aside; None: there is none."""
    limits = Limit.objects.filter(scope_id__in=[scope_id for _, scope_id, _ in subjects])
    found: dict[Subject, int | None] = {subject_of(row): row.value for row in limits}
    found |= _columns(subjects)
    defaults = caps_by_default(active_policy())
    return {
        one: found.get(one) or (defaults.get(one[0]) if one[2] == RUNNING else None)
        for one in subjects
    }


def _columns(subjects: Iterable[Subject]) -> dict[Subject, int | None]:
    """Return the running caps that stand in the rows of tenants, workspaces and workflows."""
    ids: dict[str, list[uuid.UUID]] = defaultdict(list)
    for scope, scope_id, measure in subjects:
        if measure == RUNNING and scope in COLUMNS:
            ids[scope].append(uuid.UUID(scope_id))
    return {
        (scope, str(key), RUNNING): cap
        for scope, keys in ids.items()
        for key, cap in COLUMNS[scope].objects.filter(id__in=keys).values_list("id", "max_running")
    }


def _visible(within: Reach) -> Q:
    """Return the filter: all to operators, else those of tenants and workspaces within reach."""
    if within.everywhere:
        return Q()
    inside = Q(tenant__in=within.tenants)
    spaces = Workspace.objects.filter(inside | Q(id__in=within.workspaces))
    ids: dict[str, Iterable[uuid.UUID]] = {
        "tenant": within.tenants,
        "workspace": spaces.values_list("id", flat=True),
        "workflow": Workflow.objects.filter(inside).values_list("id", flat=True),
    }
    rows = Q(pk=None)
    for scope, found in ids.items():
        rows |= Q(scope=scope, scope_id__in=[str(one) for one in found])
    return rows
