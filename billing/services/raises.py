"""Which escalations a verdict rests on: those of the budgets that it passed only because of them."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from billing.models import Budget, Escalation
from billing.services.accounts import Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise:
    """An escalation that let a job in: by how much it raised which budget, until when, whose."""

    escalation_id: uuid.UUID
    scope: str
    dimension: str
    extra: Decimal
    owner: str
    ends_at: datetime

    @property
    def sentence(self) -> str:
        """Say what made room."""
        return (
            f"It fits because the {self.scope}'s {self.dimension} budget is raised by "
            f"{plain(self.extra)} until {self.ends_at.isoformat(timespec='minutes')} "
            f"({self.owner})."
        )

    def told(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "id": str(self.escalation_id),
            "scope": self.scope,
            "dimension": self.dimension,
            "extra": plain(self.extra),
            "owner": self.owner,
            "ends_at": self.ends_at.isoformat(),
        }


def raises_needed(
    accounts: Iterable[Account], estimates: Mapping[str, Decimal], now: datetime
) -> tuple[Raise, ...]:
    """Return the escalations without which the estimates, which pass, would not."""
    found: list[Raise] = []
    for account in accounts:
        budget = account.budget
        asked = estimates.get(account.dimension)
        if account.limit == budget.limit or asked is None:
            continue
        if account.spent + account.held + asked > budget.limit:
            found += [_raise(budget, one) for one in budget.escalations_at(now)]
    return tuple(found)


def plain(value: Decimal) -> str:
    """Return a number without an exponent and without trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _raise(budget: Budget, escalation: Escalation) -> Raise:
    return Raise(
        escalation_id=escalation.id,
        scope=budget.scope,
        dimension=budget.dimension,
        extra=escalation.extra,
        owner=escalation.owner,
        ends_at=escalation.ends_at,
    )
