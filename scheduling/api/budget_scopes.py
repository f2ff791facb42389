"""Whose a budget is: by name as people give it, by id as it is kept, and who may see and set it."""

import uuid
from typing import Any

from billing.core.terms import SCOPES
from scheduling.api.levers import operator_only
from scheduling.api.problems import Problem, invalid
from scheduling.api.scope import tenant_visible
from scheduling.models import Job
from scheduling.selectors.budgets import NAMED
from scheduling.services.drafts import FieldError
from tenants.ids import uuid_or_none
from tenants.rbac import Hidden, Permission, Principal, require


def tenant_seen(principal: Principal, named: str) -> uuid.UUID:
    """Return the tenant of that id or slug whose costs, or whose work, the caller may see."""
    try:
        return tenant_visible(principal, named, Permission.COSTS)
    except Hidden:
        return tenant_visible(principal, named)


def may_set(principal: Principal, scope: str, tenant: uuid.UUID) -> None:
    """Raise unless the caller may set and raise that scope's budgets in the tenant."""
    if scope == "tenant":
        operator_only(principal, "sets a tenant's own budgets")
    require(principal, Permission.MANAGE, tenant=tenant)


def scope_id_of(scope: str, named: str, tenant: uuid.UUID) -> str:
    """Return the id under which budgets of that scope are kept.

    `named` is a slug or id of the tenant's workspaces, workflows or missions, a member's name, a
    job's id; nothing for the tenant. A ceiling of attempts names whose they are as `scope:name`,
    or nothing for all of the tenant's. Raises a 400 `Problem`.
    """
    if scope not in SCOPES:
        sentence = f"Unknown scope {scope!r}: use one of {', '.join(SCOPES)}."
        raise invalid(FieldError(field="scope", sentence=sentence))
    if scope == "attempt":
        outer, _, name = named.partition(":")
        if outer in ("job", "attempt"):
            raise _unknown(scope, named)
        return scope_id_of(outer or "tenant", name, tenant)
    if scope == "tenant" and not named:
        return str(tenant)
    if scope == "member" and named:
        return named
    found = _row(scope, named, tenant)
    if found is None:
        raise _unknown(scope, named)
    return str(found)


def _row(scope: str, named: str, tenant: uuid.UUID) -> uuid.UUID | None:
    key = uuid_or_none(named)
    model = Job if scope == "job" else NAMED.get(scope)
    if model is None or (model is Job and key is None):
        return None
    by: dict[str, Any] = {"id": key} if key else {"slug": named}
    rows = model._default_manager.filter(tenant=tenant, **by)
    found: uuid.UUID | None = rows.values_list("id", flat=True).first()
    return found


def _unknown(scope: str, named: str) -> Problem:
    sentence = (
        "Must be left out: a tenant's budget is the tenant's."
        if scope == "tenant"
        else f"There is no {scope} {named!r} in this tenant."
    )
    return invalid(FieldError(field="of", sentence=sentence))
