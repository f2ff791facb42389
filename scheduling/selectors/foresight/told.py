"""The forecast and the score of the ETAs as one caller is told them: over the API and on the page.

The hours, the clear time and the advice are of the pool as a whole, as times and counts. Groups and
scores are of the tenants that the caller sees as a whole; budgets those that it may see.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from billing.services.overview import BudgetRow
from scheduling.events import valkey_client
from scheduling.models import Pool
from scheduling.selectors.budgets import budgets_visible, names_of
from scheduling.selectors.foresight.budgets import BudgetAhead, budgets_ahead
from scheduling.selectors.foresight.honesty import Honesty, eta_honesty
from scheduling.selectors.foresight.outlook import Asked, PoolAhead, pool_ahead
from scheduling.selectors.queue import pool_header
from tenants.models import Tenant
from tenants.rbac import Permission, Principal, reach

TARGETS = ("target_wait_s", "outage_s", "recover_s")
"""What the advice may be asked for, in whole seconds from 1 to `LONGEST_S`."""
LONGEST_S = 30 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """A pool's forecast and the budgets ahead; `tenants` are slugs by id, `name_of` a budget's owner."""

    asked: Asked
    ahead: PoolAhead
    budgets: list[BudgetAhead]
    budgets_left_out: int
    tenants: Mapping[str, str]
    name_of: Callable[[BudgetRow], str]


def foretold(principal: Principal, pool: Pool, asked: Asked, now: datetime) -> Foretold:
    """Return a pool's forecast as this caller is told it; `asked.tenants` is not looked at.

    Raises `PolicyVersion.DoesNotExist` where neither a run nor a policy tells how long jobs take,
    `redis.RedisError` while the order cannot be read.
    """
    tenants = tenants_seen(principal)
    header = pool_header(valkey_client(), pool)
    bound = replace(asked, tenants=tenants)
    ahead = pool_ahead(pool, bound, header, now.timestamp())
    budgets, left_out = budgets_ahead(budgets_visible(principal), now)
    return Foretold(
        asked=bound,
        ahead=ahead,
        budgets=budgets,
        budgets_left_out=left_out,
        tenants=tenants,
        name_of=names_of([one.row for one in budgets]),
    )


def scores_told(principal: Principal, pool: Pool, span: str, now: datetime) -> list[Honesty]:
    """Return the scores of the ETAs of the jobs of the tenants that the caller sees as a whole."""
    within = reach(principal, Permission.VIEW)
    bound: Collection[UUID] | None = None if within.everywhere else within.tenants
    return eta_honesty(pool, span, now, bound)


def tenants_seen(principal: Principal) -> dict[str, str]:
    """Return the slugs, by id, of the tenants that the caller sees as a whole."""
    within = reach(principal, Permission.VIEW)
    rows = (
        Tenant.objects.all() if within.everywhere else Tenant.objects.filter(id__in=within.tenants)
    )
    return {str(key): slug for key, slug in rows.values_list("id", "slug")}
