"""Which levers a person's board offers. The API decides again when one is pulled."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from billing.core.terms import DIMENSIONS, SCOPES, WINDOWS
from scheduling.core.types import ClassRule
from scheduling.models import PolicyVersion
from scheduling.selectors.policy import active_policy
from tenants.models import Tenant, Workspace
from tenants.rbac import (
    Permission,
    Principal,
    asking_levels_anywhere,
    principal_of_user,
    reach,
)


def levers_of(user: AbstractBaseUser | AnonymousUser) -> dict[str, Any] | None:
    """Return where the person may act on jobs and manage, and which classes; None: nowhere.

    `work` has tenants by slug and workspaces as tenant/workspace; `manage` has whole tenants;
    `budgets` are a budget's words.
    """
    principal = principal_of_user(user)
    work = reach(principal, Permission.CANCEL)
    if not (work.everywhere or work.tenants or work.workspaces):
        return None
    manage = reach(principal, Permission.MANAGE).tenants
    slugs = dict(Tenant.objects.filter(id__in=work.tenants | manage).values_list("id", "slug"))
    spaces = Workspace.objects.filter(id__in=work.workspaces).values_list("tenant__slug", "slug")
    return {
        "operator": principal.is_operator,
        "work": sorted([slugs[one] for one in work.tenants] + [f"{t}/{w}" for t, w in spaces]),
        "manage": sorted(slugs[one] for one in manage),
        "classes": _classes(principal),
        "budgets": {"scopes": SCOPES, "dimensions": DIMENSIONS, "windows": WINDOWS},
    }


def classes_in_order() -> list[str]:
    """Return the names of the policy's classes, the first served first; none without a policy."""
    return [rule.name for rule in _rules()]


def _classes(principal: Principal) -> list[str]:
    """Return the policy's classes that the person may ask for anywhere, in their order."""
    levels = asking_levels_anywhere(principal)
    return [rule.name for rule in _rules() if rule.asked_by in levels]


def _rules() -> Sequence[ClassRule]:
    try:
        return active_policy().classes
    except PolicyVersion.DoesNotExist:
        return ()
