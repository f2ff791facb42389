"""Which budgets somebody sees, and whose each of them is, by name."""

from collections.abc import Callable, Collection, Mapping

from django.db.models import Model, Q

from billing.services.overview import BudgetRow
from scheduling.models import Mission, Workflow
from tenants.ids import uuid_or_none
from tenants.models import Workspace
from tenants.rbac import Permission, Principal, reach, visible_tenants

NAMED: Mapping[str, type[Model]] = {
    "workspace": Workspace,
    "workflow": Workflow,
    "mission": Mission,
}
"""The scopes that are named by a slug of their tenant."""


def budgets_visible(principal: Principal) -> Q:
    """Return the filter of the budgets that the principal may see.

    Those of the tenants whose costs it may see, those of single workspaces, and its own as a
    member.
    """
    within = reach(principal, Permission.COSTS)
    if within.everywhere:
        return Q()
    workspaces = [str(one) for one in within.workspaces]
    own = Q(scope="member", scope_id=principal.name, tenant__in=visible_tenants(principal) or ())
    return Q(tenant__in=within.tenants) | Q(scope="workspace", scope_id__in=workspaces) | own


def names_of(rows: Collection[BudgetRow]) -> Callable[[BudgetRow], str]:
    """Return what tells whose a budget is, in the form in which the API takes it."""
    keys = [key for key in (uuid_or_none(row.scope_id) for row in rows) if key is not None]
    slugs: dict[tuple[str, str], str] = {}
    for scope, model in NAMED.items():
        found = model._default_manager.filter(id__in=keys).values_list("id", "slug")
        slugs |= {(scope, str(key)): slug for key, slug in found}
    return lambda row: _name(row, slugs)


def _name(row: BudgetRow, slugs: Mapping[tuple[str, str], str]) -> str:
    if row.scope_id == str(row.tenant_id):
        return ""
    if row.scope != "attempt":
        return slugs.get((row.scope, row.scope_id), row.scope_id)
    outer = next((scope for scope in NAMED if (scope, row.scope_id) in slugs), "member")
    return f"{outer}:{slugs.get((outer, row.scope_id), row.scope_id)}"
