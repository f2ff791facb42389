"""Usage events: what an attempt used, priced by the rule in force when it was dispatched."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from msgspec import Struct, structs

from billing.core.dimensions import (
    ATTEMPT_EVENT,
    MARKER_METER,
    NEXT_STEP,
    spent_by_dimension,
)
from billing.core.pricing import MeterCharge, Usage, price
from billing.core.terms import AMOUNTS
from billing.services.accounts import SPENT_KINDS, Chain
from billing.services.prices import SECONDS, rule_in_force


class UsageConflict(Exception):
    """A usage event came again with another body; nothing was changed."""

    def __init__(self, attempt_id: uuid.UUID, source_event: str) -> None:
        """Keep which event."""
        super().__init__(
            f"Usage event {source_event!r} of attempt {attempt_id} was booked with other numbers: "
            "send a correction as an event of its own."
        )
        self.attempt_id = attempt_id
        self.source_event = source_event


class Settlement(Struct, frozen=True, kw_only=True):
    """What one attempt used, and whose budgets it draws on.

    `chain` is the scopes of the reservation; the ids must agree with it. `final`: the job has
    ended, its reservation is closed. `is_try` False: a flow's next step, which is no new attempt
    to the `attempts` dimension.
    """

    attempt_id: uuid.UUID
    job_id: uuid.UUID
    tenant_id: uuid.UUID
    workspace_id: uuid.UUID
    workflow_id: uuid.UUID
    mission_id: uuid.UUID | None
    executor_id: uuid.UUID | None
    provider: str
    model: str
    dispatched_at: datetime
    usage: Usage
    chain: Chain
    final: bool
    kind: str = "incurred"
    failure_class: str = ""
    is_try: bool = True
    source_event: str = ATTEMPT_EVENT

    def __post_init__(self) -> None:
        """Refuse an unknown kind, and a chain that names other scopes than the ids do."""
        if self.kind not in AMOUNTS:
            message = f"unknown kind {self.kind!r}: use one of {', '.join(AMOUNTS)}"
            raise ValueError(message)
        ids = {"tenant": self.tenant_id, "workspace": self.workspace_id, "job": self.job_id,
               "workflow": self.workflow_id, "mission": self.mission_id}  # fmt: skip
        for scope, name in self.chain:
            if scope in ids and name != str(ids[scope]):
                message = f"chain names {scope} {name}, the settlement {ids[scope]}"
                raise ValueError(message)

    @property
    def event(self) -> tuple[uuid.UUID, str]:
        """What names the usage event."""
        return self.attempt_id, self.source_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A budget whose spent sum reached a share of its own limit, escalations aside."""

    budget_id: uuid.UUID
    tenant_id: uuid.UUID
    percent: int
    window_start: datetime
    limit: Decimal
    spent: Decimal


class Settled(Struct, frozen=True, kw_only=True):
    """What a settlement did. `cost` is the event's price in USD, also for a repeat.

    `overrun` is the cost above what the job had reserved (0 unless this closed the reservation).
    """

    attempt_id: uuid.UUID
    source_event: str
    cost: Decimal
    repeated: bool
    overrun: Decimal


class Priced(Struct, frozen=True, kw_only=True):
    """A settlement with its charges and the rule that priced them."""

    settlement: Settlement
    charges: list[MeterCharge]
    flags: tuple[str, ...]
    rule_id: uuid.UUID

    def spent(self) -> dict[str, Decimal]:
        """Return what it adds to each dimension of a budget."""
        settlement = self.settlement
        if settlement.kind not in SPENT_KINDS:
            return {}
        is_try = settlement.is_try and settlement.source_event == ATTEMPT_EVENT
        return spent_by_dimension(self.charges, tries=int(is_try))


def priced_of(settlement: Settlement) -> Priced:
    """Price a settlement by the rule in force when its attempt was dispatched.

    The marker meter is always among the charges. Raises `UnpricedModel`.
    """
    offer = (settlement.provider, settlement.model)
    rule = rule_in_force(offer, settlement.dispatched_at)
    charges, flags = price(_stored(settlement.usage), rule)
    if all(charge.meter != MARKER_METER for charge in charges):
        charges.append(MeterCharge(meter=MARKER_METER, quantity=Decimal(0), amount=Decimal(0)))
    if not settlement.is_try:
        flags = (*flags, NEXT_STEP)
    return Priced(settlement=settlement, charges=charges, flags=flags, rule_id=uuid.UUID(rule.id))


def _stored(usage: Usage) -> Usage:
    """Round the quantities to what the ledger keeps, so that sums of its rows are exact."""
    other = {meter: quantity.quantize(SECONDS) for meter, quantity in usage.other.items()}
    return structs.replace(
        usage, worker_seconds=usage.worker_seconds.quantize(SECONDS), other=other
    )
