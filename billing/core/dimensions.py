"""How the charges of an attempt count against the dimensions of a budget.

Theory. What a budget has spent must be rebuildable from ledger rows alone, so each dimension is a
sum over rows: of amounts for `spend`, of quantities of some meters for the others. `attempts`
counts tries: each attempt writes exactly one worker_seconds row, which counts 1 unless it carries
the flag `next_step` (a flow's next step is a new placement, not a new try).
"""

from collections.abc import Iterable
from decimal import Decimal

from billing.core.pricing import MeterCharge

DIMENSION_METERS: dict[str, tuple[str, ...]] = {
    "tokens": ("input", "cached_read", "cached_write", "output", "reasoning"),
    "wall_seconds": ("worker_seconds",),
    "tool_calls": ("tool_calls",),
    "environment_seconds": ("environment",),
    "storage_byte_hours": ("storage",),
    "network_bytes": ("network",),
    "review_minutes": ("review_minutes",),
}
_DIMENSION_OF = {meter: name for name, meters in DIMENSION_METERS.items() for meter in meters}
MARKER_METER = "worker_seconds"
"""The meter whose row every settled attempt has, if only with quantity 0."""
ATTEMPT_EVENT = "attempt"
"""The source event of an attempt's own settlement."""
NEXT_STEP = "next_step"
"""The flag of an attempt that is a flow's next step and no new try."""


def spent_by_dimension(charges: Iterable[MeterCharge], *, tries: int) -> dict[str, Decimal]:
    """Return what the charges add to each dimension; `tries` is what they add to attempts.

    A dimension that is not named gets nothing.
    """
    spent = {"spend": Decimal(0), "attempts": Decimal(tries)}
    for charge in charges:
        spent["spend"] += charge.amount
        dimension = _DIMENSION_OF.get(charge.meter)
        if dimension is not None:
            spent[dimension] = spent.get(dimension, Decimal(0)) + charge.quantity
    return spent
