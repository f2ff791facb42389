"""What is asked of the budgets, and what they answer."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from msgspec import Struct, field, structs

from billing.core.pricing import check_decimal
from billing.core.terms import DIMENSIONS
from billing.services.accounts import Chain
from billing.services.raises import Raise
from billing.services.raises import plain as plain

REASON = "budget"


class ReserveRequest(Struct, frozen=True, kw_only=True):
    """What a job asks to hold: money (USD), tokens, and the other dimensions by name.

    `chain` names the scopes to ask, (scope, scope id) from the tenant down to the job; the ids are
    strings. A dimension that is not named is not asked for. `instead` are other amounts of money that
    will do, each asked for in turn where there is no room for those before it.
    """

    job_id: uuid.UUID
    tenant_id: uuid.UUID
    workspace_id: uuid.UUID
    chain: Chain
    spend: Decimal
    tokens: int
    expires_at: datetime
    other: Mapping[str, Decimal] = field(default_factory=dict)
    instead: tuple[Decimal, ...] = ()

    def __post_init__(self) -> None:
        """Refuse unknown dimensions, floats and negative estimates, naming the dimension."""
        for name, value in self.estimates().items():
            if name not in DIMENSIONS:
                message = f"unknown dimension {name!r}: use one of {', '.join(DIMENSIONS)}"
                raise ValueError(message)
            check_decimal(f"estimate of {name}", value)
        for value in self.instead:
            check_decimal("estimate of spend", value)

    def estimates(self) -> dict[str, Decimal]:
        """Return the estimate of each dimension asked for."""
        return {"spend": self.spend, "tokens": Decimal(self.tokens), **self.other}

    def ways(self) -> Iterator["ReserveRequest"]:
        """Yield the request with each amount of money that will do, in turn."""
        yield self
        for spend in self.instead:
            yield structs.replace(self, spend=spend, instead=())


class Reserved(Struct, frozen=True, kw_only=True):
    """The job holds its estimate, of money `spend`; `repeated` says that it did already.

    `spend` is None where it is held already. `escalations` are the raises without which it would not have fitted.
    """

    job_id: uuid.UUID
    reservation_id: uuid.UUID
    repeated: bool = False
    spend: Decimal | None = None
    escalations: tuple[Raise, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The first budget of the chain that does not let the estimate in.

    `retry_at` is the start of that budget's next window, or None where waiting for it is no use:
    the budget has no window, or the estimate alone exceeds its limit. `limit` is what is in force,
    escalations included.
    """

    job_id: uuid.UUID
    budget_id: uuid.UUID
    scope: str
    scope_id: str
    dimension: str
    window: str
    limit: Decimal
    spent: Decimal
    held: Decimal
    asked: Decimal
    remaining: Decimal
    retry_at: datetime | None
    reason: str = REASON

    @property
    def sentence(self) -> str:
        """Say which budget refused, and what it has left."""
        per = "" if self.window == "none" else f" per {self.window}"
        return (
            f"The {self.scope}'s {self.dimension} budget of {plain(self.limit)}{per} has "
            f"{plain(self.remaining)} left ({plain(self.spent)} spent, {plain(self.held)} held); "
            f"this job asks for {plain(self.asked)}."
        )
