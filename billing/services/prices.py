"""Prices at an instant: finds the rule in force, estimates, and publishes new rules.

Rules are immutable, so a process keeps them for `CACHE_S`; a newly published version is seen by all
processes within that time, and at once by the one that published it. A provider's model "*" prices
whatever has no rule of its own; a model without either is unpriced, which refuses the work: a
price of 0 must be said explicitly.
"""

import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import transaction

from billing.core.pricing import PLACES, LongContext, Rate, Rule, Usage, price, total
from billing.core.terms import METERS
from billing.models import CostRule
from billing.models import Rate as RateRow
from tenants.controls import ControlRefused, record_change

CACHE_S = 1.0
ANY_MODEL = "*"
SECONDS = Decimal("1E-6")
"""Times and quantities are kept in microunits, as the ledger stores them."""

Offer = tuple[str, str]
"""(provider, model)"""


class UnpricedModel(Exception):
    """No cost rule prices this provider and model at that instant."""

    def __init__(self, provider: str, model: str, at: datetime) -> None:
        """Keep what has no price."""
        super().__init__(
            f"No price for model {model!r} of provider {provider!r} at {at.isoformat()}: publish a "
            f"cost rule for it, or for model {ANY_MODEL!r} of the provider."
        )
        self.provider = provider
        self.model = model


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A rule and the instant from which it holds (inclusive)."""

    starts_at: datetime
    rule: Rule


_cache: dict[Offer, tuple[float, list[Version]]] = {}


def prices_forget() -> None:
    """Drop the cached rules of this process."""
    _cache.clear()


def prices_load(offers: Collection[Offer]) -> None:
    """Fetch the rules of the offers, and of their providers' "*", that are not cached freshly."""
    now = time.monotonic()
    wanted = set(offers) | {(provider, ANY_MODEL) for provider, _ in offers}
    stale = [offer for offer in wanted if offer not in _cache or _cache[offer][0] < now - CACHE_S]
    if not stale:
        return
    found: dict[Offer, list[Version]] = {offer: [] for offer in stale}
    rules = CostRule.objects.filter(
        provider__in={provider for provider, _ in stale}, model__in={model for _, model in stale}
    )
    for row in rules.order_by("-starts_at").prefetch_related("rates"):
        if (row.provider, row.model) in found:
            found[row.provider, row.model].append(_version(row))
    _cache.update({offer: (now, versions) for offer, versions in found.items()})


def rule_in_force(offer: Offer, at: datetime) -> Rule:
    """Return the newest rule of the offer that has started at `at`; raises `UnpricedModel`.

    Call `prices_load` first: an offer that is not cached is fetched alone.
    """
    provider, model = offer
    for candidate in (offer, (provider, ANY_MODEL)):
        if candidate not in _cache:
            prices_load([offer])
        for version in _cache[candidate][1]:
            if version.starts_at <= at:
                return version.rule
    raise UnpricedModel(provider, model, at)


def price_each(
    *,
    offers: Collection[Offer],
    input_tokens: int,
    output_tokens: int,
    seconds: Decimal | float,
    now: datetime,
) -> dict[Offer, Decimal]:
    """Return what the work costs at each of the offers (USD).

    Nothing is assumed cached. Raises `UnpricedModel` when any offer has no price.
    """
    usage = Usage(
        input_total=input_tokens, output_total=output_tokens, worker_seconds=seconds_of(seconds)
    )
    prices_load(offers)
    return {offer: total(price(usage, rule_in_force(offer, now))[0]) for offer in offers}


def price_review(*, offers: Collection[Offer], minutes: Decimal, now: datetime) -> Decimal:
    """Return what so many minutes of review cost at the dearest of the offers (USD).

    Raises `UnpricedModel` when any of them has no price.
    """
    usage = Usage(other={"review_minutes": minutes.quantize(SECONDS)})
    prices_load(offers)
    return max(total(price(usage, rule_in_force(offer, now))[0]) for offer in offers)


def seconds_of(value: Decimal | float) -> Decimal:
    """Return a duration as the exact Decimal of microseconds that the ledger keeps."""
    return Decimal(str(value)).quantize(SECONDS)


@transaction.atomic
def cost_rule_publish(
    *,
    acting_user: str,
    reason: str,
    offer: Offer,
    starts_at: datetime,
    rates: Sequence[Rate],
    long_context: LongContext = "whole",
) -> uuid.UUID:
    """Publish a version of an offer's prices from `starts_at` on (inclusive); returns its id.

    What was booked keeps its price. Raises `ControlRefused` for a start that is taken already, an
    unknown meter, a repeated rate, or no reason.
    """
    _check_rates(rates)
    provider, model = offer
    existing = CostRule.objects.filter(provider=provider, model=model)
    if existing.filter(starts_at=starts_at).exists():
        sentence = f"{provider}/{model} has a rule from {starts_at.isoformat()}: choose another."
        raise ControlRefused("starts_at", sentence)
    before = existing.filter(starts_at__lt=starts_at).order_by("-starts_at").first()
    rule = CostRule.objects.create(
        provider=provider,
        model=model,
        starts_at=starts_at,
        source=f"published by {acting_user}"[:200],
        note=reason,
        long_context=long_context,
    )
    RateRow.objects.bulk_create(rate_rows(rule, rates))
    record_change(
        actor=acting_user,
        action="cost_rule_publish",
        tenant=None,
        target=("cost_rule", rule.id),
        change=(_described(before), _described(rule)),
        reason=reason,
    )
    prices_forget()
    transaction.on_commit(prices_forget)
    return rule.id


def rate_rows(rule: CostRule, rates: Sequence[Rate]) -> list[RateRow]:
    """Return the unsaved rows of a rule's rates."""
    return [
        RateRow(
            rule=rule,
            meter=rate.meter,
            per=rate.per,
            amount=rate.amount,
            above_tokens=rate.above_tokens,
        )
        for rate in rates
    ]


def rates_of(row: CostRule) -> tuple[Rate, ...]:
    """Return a stored rule's rates as values, in a fixed order."""
    rates = [
        Rate(meter=r.meter, amount=r.amount, per=r.per, above_tokens=r.above_tokens)
        for r in row.rates.all()
    ]
    return tuple(sorted(rates, key=lambda rate: (rate.meter, rate.above_tokens)))


def _version(row: CostRule) -> Version:
    rule = Rule(
        id=str(row.id),
        rates=rates_of(row),
        long_context="overflow" if row.long_context == "overflow" else "whole",
    )
    return Version(starts_at=row.starts_at, rule=rule)


def _check_rates(rates: Sequence[Rate]) -> None:
    seen: set[tuple[str, int]] = set()
    for rate in rates:
        if rate.meter not in METERS:
            sentence = f"Unknown meter {rate.meter!r}: use one of {', '.join(METERS)}."
            raise ControlRefused("rates", sentence)
        if (rate.meter, rate.above_tokens) in seen:
            sentence = f"{rate.meter} above {rate.above_tokens} tokens is priced twice."
            raise ControlRefused("rates", sentence)
        if rate.amount != rate.amount.quantize(PLACES):
            sentence = f"{rate.meter} at {rate.amount} has more than 12 decimal places."
            raise ControlRefused("rates", sentence)
        seen.add((rate.meter, rate.above_tokens))


def _described(row: CostRule | None) -> dict[str, object]:
    if row is None:
        return {}
    rates = [
        {"meter": r.meter, "amount": str(r.amount), "per": r.per, "above_tokens": r.above_tokens}
        for r in rates_of(row)
    ]
    return {
        "provider": row.provider,
        "model": row.model,
        "starts_at": row.starts_at.isoformat(),
        "long_context": row.long_context,
        "rates": rates,
    }
