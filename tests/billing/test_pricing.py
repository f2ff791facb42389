"""Exact prices: disjoint meters, tiers, no float."""

from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from billing.core.pricing import (
    USAGE_INCONSISTENT,
    MeterCharge,
    Rate,
    Rule,
    Usage,
    affordable_output,
    price,
    total,
)

D = Decimal


def rule(long_context: Any = "whole", **amounts: str) -> Rule:
    """Build a rule of USD per million; `output_above_100="9"` is a tier."""
    rates = []
    for name, amount in amounts.items():
        meter, _, above = name.partition("_above_")
        rates.append(Rate(meter=meter, amount=D(amount), above_tokens=int(above or 0)))
    return Rule(id="r", rates=tuple(rates), long_context=long_context)


def cost(usage: Usage, priced_by: Rule) -> Decimal:
    return total(price(usage, priced_by)[0])


CACHED = rule(input="3.00", cached_read="0.30", cached_write="3.75", output="15.00")


def test_cache_writes_are_billed_once():
    usage = Usage(input_total=2400, cached_read=600, cached_write=500, output_total=200)
    charges, flags = price(usage, CACHED)
    assert total(charges) == D("0.008955")
    assert charges[0] == MeterCharge(meter="input", quantity=D(1300), amount=D("0.0039"))
    assert flags == ()


def test_a_report_that_contradicts_itself_is_clamped_and_flagged():
    usage = Usage(input_total=100, cached_read=80, cached_write=40, flags=("late",))
    charges, flags = price(usage, CACHED)
    assert [charge.meter for charge in charges] == ["cached_read", "cached_write"]
    assert total(charges) == D("0.000174")
    assert flags == ("late", USAGE_INCONSISTENT)


def test_more_reasoning_than_output_is_clamped_and_flagged():
    charges, flags = price(Usage(output_total=10, reasoning=11), rule(output="8", reasoning="8"))
    assert [(c.meter, c.quantity) for c in charges] == [("reasoning", D(10))]
    assert flags == (USAGE_INCONSISTENT,)


def test_reasoning_is_inside_the_output_without_a_rate_of_its_own():
    usage = Usage(input_total=1200, output_total=900, reasoning=640)
    charges, _ = price(usage, rule(input="2.00", output="8.00"))
    assert total(charges) == D("0.009600")
    assert [(c.meter, c.quantity) for c in charges] == [("input", D(1200)), ("output", D(900))]


def test_reasoning_leaves_the_output_when_it_has_a_rate():
    usage = Usage(output_total=900, reasoning=640)
    assert cost(usage, rule(output="8", reasoning="10")) == D("0.00848")


def test_cached_tokens_without_a_rate_of_their_own_cost_what_input_costs():
    usage = Usage(input_total=1000, cached_read=600, cached_write=300)
    assert cost(usage, rule(input="2")) == D("0.002")


def test_a_meter_without_a_rate_costs_nothing_but_is_counted():
    charges, _ = price(Usage(tool_calls=3, other={"environment": D(5)}), rule(input="2"))
    assert [(c.meter, c.quantity, c.amount) for c in charges] == [
        ("tool_calls", D(3), D(0)),
        ("environment", D(5), D(0)),
    ]


def test_worker_seconds_are_a_meter():
    per_second = Rule(id="r", rates=(Rate(meter="worker_seconds", amount=D("0.0002"), per=1),))
    assert cost(Usage(worker_seconds=D("1.5")), per_second) == D("0.0003")


def test_money_is_exact():
    assert str(cost(Usage(input_total=323), rule(input="5.00")).normalize()) == "0.001615"


def test_amounts_are_quantised_at_twelve_places():
    third = Rule(id="r", rates=(Rate(meter="tool_calls", amount=D(1), per=3),))
    assert cost(Usage(tool_calls=2), third) == D("0.666666666667")


TIERS: dict[str, Any] = {
    "input": "1",
    "input_above_100": "2",
    "output": "10",
    "output_above_100": "20",
}


@pytest.mark.parametrize(("input_total", "expected"), [(100, "0.000110"), (101, "0.000222")])
def test_whole_request_pays_the_highest_tier_reached(input_total, expected):
    usage = Usage(input_total=input_total, output_total=1)
    assert cost(usage, rule(**TIERS)) == D(expected)


def test_overflow_pays_the_higher_tier_only_beyond_the_threshold():
    usage = Usage(input_total=130, output_total=1)
    assert cost(usage, rule("overflow", **TIERS)) == D("0.000180")


def test_overflow_counts_cached_tokens_as_the_head_of_the_prompt():
    tiers = rule("overflow", input="1", input_above_100="2", cached_read="0.1",
                 cached_read_above_50="0.2")  # fmt: skip
    usage = Usage(input_total=130, cached_read=80)
    # 50 cached at 0.1 and 30 at 0.2; 20 plain at 1 and 30 at 2.
    assert cost(usage, tiers) == D("0.000091")


def test_a_meter_priced_only_above_a_threshold_is_free_below_it():
    assert cost(Usage(input_total=100), rule(input_above_100="2")) == 0


@given(
    st.sampled_from(["whole", "overflow"]),
    st.lists(st.integers(0, 10**7), min_size=3, max_size=3),
)
def test_without_tiers_both_long_context_rules_agree(mode, parts):
    read, write, plain = parts
    usage = Usage(input_total=sum(parts), cached_read=read, cached_write=write)
    expected = (3 * plain + D("0.3") * read + D("3.75") * write) / 1_000_000
    amounts = {"input": "3", "cached_read": "0.3", "cached_write": "3.75"}
    assert cost(usage, rule(mode, **amounts)) == expected


@settings(max_examples=3, deadline=None)
@given(st.integers())
def test_ten_thousand_random_charges_add_up_exactly(seed):
    random = Random(seed)
    cheap = rule(input="0.15", output="0.6")
    usages = [(random.randrange(10**6), random.randrange(10**5)) for _ in range(10_000)]
    charged = sum(
        (cost(Usage(input_total=i, output_total=o), cheap)
         for i, o in usages), D(0)
    )  # fmt: skip
    micro_cents = sum(15 * i + 60 * o for i, o in usages)
    assert charged == D(micro_cents).scaleb(-8)


@pytest.mark.parametrize("name", ["input_total", "reasoning", "tool_calls"])
def test_a_negative_count_is_refused_by_name(name):
    negative: dict[str, Any] = {name: -1}
    with pytest.raises(ValueError, match=f"usage: {name} must be at least 0, not -1"):
        replace(Usage(), **negative)


def test_a_float_is_refused():
    inexact: Any = 0.1
    with pytest.raises(TypeError, match="worker_seconds must be a Decimal, not float"):
        Usage(worker_seconds=inexact)
    with pytest.raises(TypeError, match="rate of input must be a Decimal, not float"):
        Rate(meter="input", amount=inexact)


@pytest.mark.parametrize("amount", ["-1", "NaN", "Infinity"])
def test_a_rate_is_a_finite_number_from_zero(amount):
    with pytest.raises(ValueError, match="rate of input must be a finite number"):
        Rate(meter="input", amount=D(amount))


@pytest.mark.parametrize("wrong", [{"per": 0}, {"above_tokens": -1}])
def test_a_rate_has_a_sensible_unit(wrong):
    with pytest.raises(ValueError, match="per must be at least 1 and above_tokens at least 0"):
        Rate(meter="input", amount=D(1), **wrong)


@given(
    spend=st.decimals(0, 10, places=6),
    asked=st.integers(0, 300_000),
    mode=st.sampled_from(["whole", "overflow"]),
)
def test_the_output_that_a_sum_pays_for_costs_no_more_and_one_token_more_would(spend, asked, mode):
    priced_by = rule(mode, input="1", output="7")
    question = Usage(input_total=asked)
    most = affordable_output(priced_by, question, spend, most=1_000_000)
    assert -1 <= most <= 1_000_000
    if most >= 0:
        assert cost(replace(question, output_total=most), priced_by) <= spend
    if most < 1_000_000:
        assert cost(replace(question, output_total=most + 1), priced_by) > spend


def test_a_sum_below_the_price_of_the_question_pays_for_no_answer():
    assert affordable_output(rule(input="1"), Usage(input_total=2), Decimal("1E-6"), most=9) == -1
    assert affordable_output(rule(input="1"), Usage(input_total=1), Decimal("1E-6"), most=9) == 9
