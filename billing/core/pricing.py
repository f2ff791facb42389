"""What a usage costs under one price rule: exact Decimal arithmetic, no float anywhere.

Theory. A usage report is gross: `input_total` contains the cached tokens, `output_total` the
reasoning tokens. Charging the gross numbers and the parts bills a token twice, so the prompt is
split into three disjoint meters (input, cached_read, cached_write) before it is priced. A part
without a rate of its own costs what its whole costs; reasoning leaves the output only where the
rule prices it apart. Reports that contradict themselves are clamped at 0 and flagged, never
negative.

Long-context tiers. A rate with `above_tokens` = n applies to requests of more than n input tokens.
"whole": the highest tier reached prices the whole request. "overflow": only the prompt tokens
beyond n pay it, where the prompt is counted as cached read, then cached write, then the rest (a
cache holds a prefix); output has no place in the prompt and pays the highest tier reached.

Amounts are in the rule's currency (USD), quantised at 12 decimal places.
"""

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Literal, TypeAlias

from msgspec import Struct, field, structs

LongContext: TypeAlias = Literal["whole", "overflow"]

USAGE_INCONSISTENT = "usage_inconsistent"
PLACES = Decimal("1E-12")
_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)
_ZERO = Decimal(0)
_PROMPT = ("cached_read", "cached_write", "input")
_WHOLE_OF = {"cached_read": "input", "cached_write": "input"}


class Rate(Struct, frozen=True, kw_only=True):
    """The price of `per` units of a meter, for requests of more than `above_tokens` input."""

    meter: str
    amount: Decimal
    per: int = 1_000_000
    above_tokens: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no price: a float, a negative or infinite amount, `per` below 1."""
        check_decimal(f"rate of {self.meter}", self.amount)
        if self.per < 1 or self.above_tokens < 0:
            message = f"rate of {self.meter}: per must be at least 1 and above_tokens at least 0"
            raise ValueError(message)


class Rule(Struct, frozen=True, kw_only=True):
    """One version of the prices of a model; a meter without rates costs 0."""

    id: str
    rates: tuple[Rate, ...]
    long_context: LongContext = "whole"


class Usage(Struct, frozen=True, kw_only=True):
    """What one attempt used, gross: the totals contain the cached and the reasoning tokens.

    `other` holds further meters (environment seconds, storage, network bytes, review minutes ...).
    """

    input_total: int = 0
    cached_read: int = 0
    cached_write: int = 0
    output_total: int = 0
    reasoning: int = 0
    tool_calls: int = 0
    worker_seconds: Decimal = _ZERO
    other: Mapping[str, Decimal] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse negative counts and floats, naming the field."""
        for name in _COUNTS:
            if getattr(self, name) < 0:
                message = f"usage: {name} must be at least 0, not {getattr(self, name)}"
                raise ValueError(message)
        for name, quantity in {"worker_seconds": self.worker_seconds, **self.other}.items():
            check_decimal(f"usage: {name}", quantity)


_COUNTS = ("input_total", "cached_read", "cached_write", "output_total", "reasoning", "tool_calls")


class MeterCharge(Struct, frozen=True, kw_only=True):
    """How much of one meter was used and what it costs."""

    meter: str
    quantity: Decimal
    amount: Decimal


def price(usage: Usage, rule: Rule) -> tuple[list[MeterCharge], tuple[str, ...]]:
    """Return the charges of the meters used, in a fixed order, and the flags of the usage."""
    quantities, flags = _quantities(usage, split_reasoning=bool(_tiers(rule, "reasoning")))
    starts = _prompt_starts(quantities)
    charges = [
        MeterCharge(
            meter=meter,
            quantity=quantity,
            amount=_amount(rule, meter, quantity, (usage.input_total, starts.get(meter))),
        )
        for meter, quantity in quantities.items()
        if quantity
    ]
    return charges, flags


def total(charges: list[MeterCharge]) -> Decimal:
    """Return the exact sum of the amounts."""
    return sum((charge.amount for charge in charges), _ZERO)


def check_decimal(what: str, value: object) -> None:
    """Raise `TypeError` for what is no Decimal, `ValueError` below 0 or not finite."""
    if not isinstance(value, Decimal):
        message = f"{what} must be a Decimal, not {type(value).__name__}"
        raise TypeError(message)
    if not value.is_finite() or value < 0:
        message = f"{what} must be a finite number, at least 0, not {value}"
        raise ValueError(message)


def _quantities(
    usage: Usage, *, split_reasoning: bool
) -> tuple[dict[str, Decimal], tuple[str, ...]]:
    """Split the gross report into disjoint meters; say when it contradicts itself."""
    uncached = usage.input_total - usage.cached_read - usage.cached_write
    reasoning = min(usage.reasoning, usage.output_total) if split_reasoning else 0
    quantities = {
        "input": Decimal(max(0, uncached)),
        "cached_read": Decimal(usage.cached_read),
        "cached_write": Decimal(usage.cached_write),
        "output": Decimal(usage.output_total - reasoning),
        "reasoning": Decimal(reasoning),
        "tool_calls": Decimal(usage.tool_calls),
        "worker_seconds": usage.worker_seconds,
        **dict(sorted(usage.other.items())),
    }
    flags = usage.flags
    if uncached < 0 or usage.reasoning > usage.output_total:
        flags = (*flags, USAGE_INCONSISTENT)
    return quantities, flags


def _prompt_starts(quantities: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return the place in the prompt at which the tokens of each prompt meter begin."""
    starts: dict[str, Decimal] = {}
    position = _ZERO
    for meter in _PROMPT:
        starts[meter] = position
        position += quantities[meter]
    return starts


def _tiers(rule: Rule, meter: str) -> list[Rate]:
    """Return the meter's rates, lowest threshold first; a part without any has its whole's."""
    own = [rate for rate in rule.rates if rate.meter == meter]
    if not own and meter in _WHOLE_OF:
        return _tiers(rule, _WHOLE_OF[meter])
    return sorted(own, key=lambda rate: rate.above_tokens)


def _amount(
    rule: Rule, meter: str, quantity: Decimal, place: tuple[int, Decimal | None]
) -> Decimal:
    """Price a quantity; `place` is (input tokens of the request, its start in the prompt)."""
    input_total, start = place
    tiers = _tiers(rule, meter)
    if rule.long_context == "overflow" and start is not None:
        return sum((_cost(rate, n) for rate, n in _bands(tiers, start, quantity)), _ZERO)
    reached = [r for r in tiers if r.above_tokens == 0 or input_total > r.above_tokens]
    return _cost(reached[-1], quantity) if reached else _ZERO


def _bands(tiers: list[Rate], start: Decimal, quantity: Decimal) -> list[tuple[Rate, Decimal]]:
    """Cut the prompt tokens [start, start + quantity) at the thresholds of the tiers."""
    end = start + quantity
    tops = [*(Decimal(rate.above_tokens) for rate in tiers[1:]), end]
    return [
        (rate, max(_ZERO, min(end, top) - max(start, Decimal(rate.above_tokens))))
        for rate, top in zip(tiers, tops, strict=False)
    ]


def _cost(rate: Rate, quantity: Decimal) -> Decimal:
    exact = _EXACT.divide(_EXACT.multiply(quantity, rate.amount), Decimal(rate.per))
    return exact.quantize(PLACES, context=_EXACT)


def affordable_output(rule: Rule, asked: Usage, spend: Decimal, *, most: int) -> int:
    """Return how many tokens of output a sum pays for beside what is asked, from -1 (none) to `most`.

    -1: what is asked costs more than the sum already.
    """
    low, high = -1, most
    while low < high:
        middle = (low + high + 1) // 2
        if total(price(structs.replace(asked, output_total=middle), rule)[0]) <= spend:
            low = middle
        else:
            high = middle - 1
    return low
