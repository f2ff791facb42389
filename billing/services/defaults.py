"""Budgets that a tenant's defaults give to members, workspaces, workflows and missions.

Theory. A scope gets its budget in the transaction of the first verdict that names it. The unique
key of budgets decides between parallel first uses: one inserts, the others wait for its end and
find the row. So the reading after the insert is the truth of this transaction, whatever was
remembered before. The audit, which moves the control clock and so tells all other processes, comes
last: the clock's lock is the last that any transaction takes.
"""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from django.db import transaction

from billing.core.terms import DEFAULT_SCOPES
from billing.models import Budget, BudgetDefault
from billing.services.accounts import Budgets, Chain, budgets_read
from billing.services.budgets import Ceiling, ceiling_check, limit_check
from billing.services.raises import plain
from tenants.controls import ControlRefused, Version, control_version, record_change
from tenants.ids import new_id
from tenants.models import Tenant
from tenants.remembered import Remembered

Chains = Collection[tuple[uuid.UUID, Chain]]
ACTOR = "budget default"


def _defaults_read(tenant_id: uuid.UUID, _version: Version) -> dict[str, list[BudgetDefault]]:
    found: dict[str, list[BudgetDefault]] = {}
    for default in BudgetDefault.objects.filter(tenant=tenant_id):
        found.setdefault(default.scope, []).append(default)
    return found


_defaults = Remembered(_defaults_read)


def defaults_apply(
    chains: Chains, budgets: Budgets, version: Version | None
) -> tuple[Budgets, list[Budget]]:
    """Return the budgets with those that the defaults add on this first use, and which were made.

    The caller audits them with `defaults_record` once it holds all of its locks.
    """
    now = control_version() if version is None else version
    made: list[Budget] = []
    for tenant in sorted({tenant for tenant, _ in chains}):
        defaults = _defaults.at(now, tenant)
        missing = _missing(tenant, chains, defaults, budgets) if defaults else []
        if missing:
            Budget.objects.bulk_create(missing, ignore_conflicts=True)
            fresh = budgets_read(tenant)
            ids = {budget.id for own in fresh.values() for budget in own}
            made += [budget for budget in missing if budget.id in ids]
            budgets = budgets | fresh
    return budgets, made


def defaults_record(made: Iterable[Budget]) -> None:
    """Audit the budgets that defaults have made."""
    for budget in made:
        named = f"{budget.scope} {budget.scope_id} {budget.dimension} per {budget.window}"
        record_change(
            actor=ACTOR,
            action="budget_default_use",
            tenant=budget.tenant,
            target=("budget", budget.id),
            change=({}, {"limit": plain(budget.limit), "budget": named}),
            reason=f"first use by this {budget.scope}",
        )


@transaction.atomic
def budget_default_set(
    *, acting_user: str, reason: str, default: Ceiling, limit: Decimal | None
) -> int:
    """Set what each new scope of a kind gets (None: nothing any more); returns the number.

    Budgets that were made already keep their limit. The default's `scope_id` stays empty. Raises
    `ControlRefused` for a scope that has no defaults, and as `budget_set` does.
    """
    if default.scope not in DEFAULT_SCOPES:
        sentence = f"There are defaults for {', '.join(DEFAULT_SCOPES)}, not {default.scope!r}."
        raise ControlRefused("scope", sentence)
    ceiling_check(replace(default, scope_id="each"))
    key: dict[str, Any] = {
        "scope": default.scope,
        "dimension": default.dimension,
        "window": default.window,
    }
    rows = BudgetDefault.objects.filter(tenant=default.tenant_id, **key)
    before = rows.select_for_update(no_key=True).first()
    if limit is None:
        rows.delete()
    else:
        limit_check("limit", limit)
        values = {"limit": limit, "timezone": default.timezone, "anchor": default.anchor}
        BudgetDefault.objects.update_or_create(tenant_id=default.tenant_id, **key, defaults=values)
    return record_change(
        actor=acting_user,
        action="budget_default_set",
        tenant=Tenant.objects.get(id=default.tenant_id),
        target=("tenant", default.tenant_id),
        change=(
            key | {"limit": plain(before.limit) if before else None},
            key | {"limit": None if limit is None else plain(limit)},
        ),
        reason=reason,
    )


def _missing(
    tenant: uuid.UUID, chains: Chains, defaults: dict[str, list[BudgetDefault]], budgets: Budgets
) -> list[Budget]:
    """Return the budgets, unsaved and in the order of their key, that the chains' scopes lack."""
    named = {one for owner, chain in chains if owner == tenant for one in chain}
    found = []
    for scope, name in sorted(one for one in named if one[0] in defaults):
        own = budgets.get((str(tenant), scope, name), ())
        had = {(budget.dimension, budget.window) for budget in own}
        wanted = sorted(defaults[scope], key=lambda one: (one.dimension, one.window))
        found += [
            _budget(default, name)
            for default in wanted
            if (default.dimension, default.window) not in had
        ]
    return found


def _budget(default: BudgetDefault, scope_id: str) -> Budget:
    return Budget(
        id=new_id(),
        tenant_id=default.tenant_id,
        scope=default.scope,
        scope_id=scope_id,
        dimension=default.dimension,
        limit=default.limit,
        window=default.window,
        timezone=default.timezone,
        anchor=default.anchor,
    )
