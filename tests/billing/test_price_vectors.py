"""Imported prices give the answers that the package itself gives."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices import calc_price
from genai_prices.types import Usage as PackageUsage
from hypothesis import given
from hypothesis import strategies as st

from billing.core.pricing import Rule, Usage, price, total
from billing.prices.seed import seed

AT = datetime(2026, 11, 1, tzinfo=UTC)
SEED = seed()


def imported(provider: str, model: str, at: datetime) -> Rule:
    """The rule that the import would have in force."""
    held = [d for d in SEED.drafts if (d.provider, d.model) == (provider, model)]
    last = max((d for d in held if d.starts_at <= at), key=lambda d: d.starts_at)
    return Rule(id=last.model, rates=last.rates)


MODELS = [
    ("openai", "gpt-4o"), ("openai", "gpt-4o-mini"), ("openai", "gpt-5"), ("openai", "o3"),
    ("anthropic", "claude-sonnet-4-5"), ("anthropic", "claude-haiku-5-5"),
    ("google", "gemini-2.5-pro"), ("google", "gemini-2.5-flash"), ("mistral", "mistral-large-4"),
]  # fmt: skip
KNOWN = [
    ("openai", "gpt-4o", (10000, 6000, 0, 500), AT, "0.0225"),
    ("openai", "gpt-4o-mini", (123457, 0, 0, 6789), AT, "0.02259195"),
    ("openai", "o3", (1000000, 0, 0, 1000000), datetime(2025, 5, 1, tzinfo=UTC), "50"),
    ("openai", "o3", (1000000, 0, 0, 1000000), datetime(2025, 7, 1, tzinfo=UTC), "10"),
    ("anthropic", "claude-sonnet-4-5", (4740, 0, 4735, 255), AT, "0.02159625"),
    ("anthropic", "claude-sonnet-4-5", (300000, 0, 0, 1000), AT, "1.8225"),
    ("google", "gemini-2.5-pro", (200000, 0, 0, 1000), AT, "0.26"),
    ("google", "gemini-2.5-pro", (200001, 0, 0, 1000), AT, "0.5150025"),
    ("google", "gemini-2.5-flash", (50000, 10000, 0, 4000), AT, "0.0223"),
]


def used(parts: tuple[int, int, int, int]) -> Usage:
    prompt, read, write, output = parts
    return Usage(input_total=prompt, cached_read=read, cached_write=write, output_total=output)


@pytest.mark.parametrize(("provider", "model", "parts", "at", "usd"), KNOWN)
def test_known_answers(provider, model, parts, at, usd):
    charges, _ = price(used(parts), imported(provider, model, at))
    assert total(charges) == Decimal(usd)


@given(
    st.sampled_from(MODELS),
    st.tuples(*[st.integers(0, 400_000)] * 3),
    st.integers(0, 100_000),
)
def test_any_usage_costs_what_the_package_says(offer, prompt, output):
    plain, read, write = prompt
    parts = (plain + read + write, read, write, output)
    provider, model = offer
    theirs = calc_price(
        PackageUsage(
            input_tokens=parts[0],
            cache_read_tokens=read,
            cache_write_tokens=write,
            output_tokens=output,
        ),
        model_ref=model,
        provider_id=provider,
        genai_request_timestamp=AT,
    )
    assert total(price(used(parts), imported(provider, model, AT))[0]) == theirs.total_price
