"""The seed prices: what the package genai-prices says, as dated rules of our own shape.

Reads no database. A price that our meters cannot express is never imported as 0: extras (web
searches, audio, one-hour cache writes ...) are named in the rule's note, prices by time of day and
request variants (batch, flex) are counted as skipped, and a version that asks money per request,
or for nothing but such extras, is left out, so that its model stays unpriced and is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from decimal import Decimal
from importlib.metadata import version

from genai_prices.data import providers
from genai_prices.types import (
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
    TieredPrices,
)

from billing.core.pricing import PLACES, Rate
from billing.core.windows import EPOCH

PACKAGE = "genai-prices"
METER_OF = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cached_read",
    "cache_write_mtok": "cached_write",
    "output_reasoning_mtok": "reasoning",
}
PER_REQUEST = "requests_kcount"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A rule that could be stored: prices of (provider, model) from an instant on."""

    provider: str
    model: str
    starts_at: datetime
    rates: tuple[Rate, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """The drafts, oldest first within a model, and what was left out, by reason."""

    source: str
    drafts: list[Draft]
    skipped: dict[str, int]


def seed() -> Seed:
    """Read all prices of the installed package."""
    drafts: list[Draft] = []
    skipped = {"time of day": 0, "variant": 0, "not expressible": 0}
    for provider in providers:
        for model in provider.models:
            skipped["variant"] += len(model.price_variants or ())
            for starts_at, prices in _versions(model):
                draft = starts_at and _draft(provider.id, model.id, starts_at, prices)
                if draft:
                    drafts.append(draft)
                else:
                    skipped["not expressible" if starts_at else "time of day"] += 1
    return Seed(source=f"{PACKAGE} {version(PACKAGE)}", drafts=drafts, skipped=skipped)


def _versions(model: ModelInfo) -> Iterator[tuple[datetime | None, ModelPrice]]:
    """Yield each price and the instant it starts at; None for one that depends on the hour."""
    prices = model.prices
    listed = prices if isinstance(prices, list) else [ConditionalPrice(prices=prices)]
    for conditional in listed:
        constraint = conditional.constraint
        if constraint is None:
            yield EPOCH, conditional.prices
        elif isinstance(constraint, StartDateConstraint):
            yield datetime.combine(constraint.start_date, time(), UTC), conditional.prices
        else:
            yield None, conditional.prices


def _draft(provider: str, model: str, starts_at: datetime, prices: ModelPrice) -> Draft | None:
    """Turn a price into a draft, or None when our meters would price the model too low."""
    listed: dict[str, Decimal | TieredPrices] = {
        key: value for key, value in vars(prices).items() if value is not None
    }
    rates = tuple(
        rate
        for key, meter in METER_OF.items()
        if key in listed
        for rate in _rates(meter, listed[key])
    )
    if PER_REQUEST in listed or not rates:
        return None
    extras = sorted(listed.keys() - METER_OF.keys())
    note = f"Not priced here: {', '.join(extras)}." if extras else ""
    return Draft(provider=provider, model=model, starts_at=starts_at, rates=rates, note=note)


def _rates(meter: str, value: Decimal | TieredPrices) -> list[Rate]:
    """Return the base rate and its tiers, at the places that we keep (the source has float dust)."""
    if isinstance(value, Decimal):
        return [Rate(meter=meter, amount=value.quantize(PLACES))]
    tiers = [(0, value.base), *((tier.start, tier.price) for tier in value.tiers)]
    return [
        Rate(meter=meter, amount=amount.quantize(PLACES), above_tokens=start)
        for start, amount in tiers
    ]
