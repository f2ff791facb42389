"""Fallback: which model may stand in for one that fails, and why the others may not (DESIGN 4.8).

A policy's list names, for a model, the models that may stand in for it, each within bounds. They
are tried in the list's order, from the one behind the model in force on, so that no model is come
back to before all others were looked at; last of all stands the model that was asked for. What is
not known passes no bound that is set on it, but for the latency of a model that has never run.

Each candidate is put to these tests, in this order: the class of data that it may be given; the
region where it must run; an executor that could run the job; its measured quality; its measured
latency; a circuit that lets it through; a price; the price as a multiple of that of the model that
was asked for; the job's own ceiling. What passes is asked of the budgets by the caller.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from scheduling.core.policy.settings import Candidate, Policy


class Against(StrEnum):
    """Why a candidate is passed over."""

    DATA_CLASS = "data_class"
    REGION = "region"
    NO_EXECUTOR = "no_executor"
    QUALITY = "quality"
    LATENCY = "latency"
    CIRCUIT_OPEN = "circuit_open"
    UNPRICED_MODEL = "unpriced_model"
    PRICE = "price"
    HARD_CEILING = "hard_ceiling"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """What a job binds its stand-in to. Money is USD; None: not bound, or not known."""

    region: str = ""
    data_class: str = ""
    max_spend: Decimal | None = None
    asked_spend: Decimal | None = None
    """The estimate for the model that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What is known of a candidate for a job. `prices` (USD) are by executor, of those that could
    run it and whose circuit lets it through; `able` counts those that could but for circuits."""

    able: int = 1
    quality: float | None = None
    latency_s: float | None = None
    unpriced: bool = False
    prices: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A candidate with what speaks against it, if anything, and else what it may cost where."""

    model: str
    against: Against | None = None
    sentence: str = ""
    prices: Mapping[str, Decimal] = field(default_factory=dict)


def has_list(policy: Policy, model: str) -> bool:
    """Tell whether the policy names models that may stand in for `model`."""
    return any(one.model == model for one in policy.fallback)


def candidates_after(policy: Policy, asked: str, in_force: str) -> Sequence[Candidate]:
    """Return the candidates to try, in order, when the model in force fails.

    The model that was asked for comes last, unless it is itself the one that fails.
    """
    listed = next((one.candidates for one in policy.fallback if one.model == asked), ())
    names = [one.model for one in listed]
    if in_force == asked:
        return listed
    start = names.index(in_force) + 1 if in_force in names else len(names)
    return (*listed[start:], Candidate(model=asked))


def weighed(candidate: Candidate, asks: Asks, offered: Offered) -> Weighed:
    """Return what the tests say of a candidate, in the module's order."""
    against = _unfit(candidate, asks, offered) or _unpriced(offered)
    if against is not None:
        return Weighed(model=candidate.model, against=against[0], sentence=against[1])
    prices = offered.prices
    bounds = (
        (Against.PRICE, _price_bound(candidate, asks), "the policy lets it cost"),
        (Against.HARD_CEILING, asks.max_spend, "the job may cost"),
    )
    for why, most, words in bounds:
        left = {one: price for one, price in prices.items() if most is None or price <= most}
        if not left:
            cheapest = min(prices.values())
            sentence = f"it costs {cheapest:f} and {words} at most {most or 0:f}"
            return Weighed(model=candidate.model, against=why, sentence=sentence)
        prices = left
    return Weighed(model=candidate.model, prices=prices)


def _unfit(candidate: Candidate, asks: Asks, offered: Offered) -> tuple[Against, str] | None:
    """Return the first thing against a candidate that has nothing to do with money."""
    if candidate.data_class and asks.data_class not in ("", candidate.data_class):
        sentence = f"it may be given data of class {candidate.data_class} alone"
        return Against.DATA_CLASS, sentence
    if candidate.region and asks.region not in ("", candidate.region):
        return Against.REGION, f"it may stand in in region {candidate.region} alone"
    if not offered.able:
        return Against.NO_EXECUTOR, "no executor offers it within what the job asks for"
    return _too_poor(candidate, offered) or _too_slow(candidate, offered)


def _too_poor(candidate: Candidate, offered: Offered) -> tuple[Against, str] | None:
    measured = offered.quality
    if (measured or 0.0) >= candidate.quality_floor:
        return None
    said = "was not measured" if measured is None else f"is {measured:.2f}"
    return Against.QUALITY, f"its quality {said} and must be {candidate.quality_floor:.2f}"


def _too_slow(candidate: Candidate, offered: Offered) -> tuple[Against, str] | None:
    most, measured = candidate.latency_s, offered.latency_s
    if most is None or measured is None or measured <= most:
        return None
    return Against.LATENCY, f"it takes {measured:.1f} s and may take {most:g} s"


def _unpriced(offered: Offered) -> tuple[Against, str] | None:
    if offered.unpriced:
        return Against.UNPRICED_MODEL, "no price is known for it"
    if not offered.prices:
        return Against.CIRCUIT_OPEN, "its circuits are open"
    return None


def _price_bound(candidate: Candidate, asks: Asks) -> Decimal | None:
    """Return the most that a candidate may cost; nothing where the asked model has no price."""
    if candidate.price_ratio is None:
        return None
    return Decimal(str(candidate.price_ratio)) * (asks.asked_spend or Decimal(0))
