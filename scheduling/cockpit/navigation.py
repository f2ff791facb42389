"""Which pages a person's menu offers."""

from typing import Any

from scheduling.selectors.reviews import may_review, reviews_count
from tenants.rbac import Permission, Principal, reach


def navigation(principal: Principal) -> dict[str, Any]:
    """Return what the menu goes by; `reviews` None: the person may review nothing."""
    costs = reach(principal, Permission.COSTS)
    return {
        "may_see_costs": costs.everywhere or bool(costs.tenants),
        "reviews": reviews_count(principal) if may_review(principal) else None,
    }
