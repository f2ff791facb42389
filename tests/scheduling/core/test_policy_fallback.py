from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.policy.fallback import (
    Against,
    Asks,
    Offered,
    candidates_after,
    has_list,
    weighed,
)
from scheduling.core.policy.settings import Candidate, Fallback, Policy

D = Decimal
LIST = tuple(Candidate(model=name) for name in ("b", "c", "d"))
POLICY = Policy(
    fallback=(Fallback(model="z", candidates=LIST), Fallback(model="a", candidates=LIST))
)
OFFERED = Offered(prices={"x": D(2), "y": D(1)})


def names(asked, in_force):
    return [one.model for one in candidates_after(POLICY, asked, in_force)]


def test_the_candidates_are_those_behind_the_model_in_force_and_last_the_one_asked_for():
    assert names("a", "a") == ["b", "c", "d"]
    assert names("a", "b") == ["c", "d", "a"]
    assert names("a", "d") == ["a"]
    assert names("a", "gone from the list") == ["a"]
    assert names("no list", "no list") == []
    assert (has_list(POLICY, "a"), has_list(POLICY, "b")) == (True, False)


@pytest.mark.parametrize(
    ("bounds", "asks", "offered", "against", "words"),
    [
        ({"data_class": "open"}, {"data_class": "secret"}, {}, Against.DATA_CLASS, "class open"),
        ({"region": "eu"}, {"region": "us"}, {}, Against.REGION, "region eu"),
        ({}, {}, {"able": 0}, Against.NO_EXECUTOR, "no executor"),
        ({"quality_floor": 0.9}, {}, {"quality": 0.89}, Against.QUALITY, "is 0.89 and must be 0.90"),
        ({"quality_floor": 0.1}, {}, {}, Against.QUALITY, "was not measured"),
        ({"latency_s": 2}, {}, {"latency_s": 2.1}, Against.LATENCY, "takes 2.1 s and may take 2 s"),
        ({}, {}, {"prices": {}}, Against.CIRCUIT_OPEN, "circuits"),
        ({}, {}, {"unpriced": True, "prices": {}}, Against.UNPRICED_MODEL, "no price"),
        ({"price_ratio": 0.5}, {"asked_spend": D("1.9")}, {}, Against.PRICE, "costs 1 and"),
        ({"price_ratio": 9}, {}, {}, Against.PRICE, "at most 0"),
        ({}, {"max_spend": D("0.5")}, {}, Against.HARD_CEILING, "at most 0.5"),
    ],
)  # fmt: skip
def test_each_bound_speaks_against_a_candidate(bounds, asks, offered, against, words):
    known = Offered(**({"prices": OFFERED.prices} | offered))
    found = weighed(Candidate(model="b", **bounds), Asks(**asks), known)
    assert (found.model, found.against, dict(found.prices)) == ("b", against, {})
    assert words in found.sentence


@pytest.mark.parametrize(
    ("bounds", "asks", "offered", "left"),
    [
        ({}, {}, {}, "xy"),
        ({"data_class": "open"}, {}, {}, "xy"),
        ({"data_class": "open"}, {"data_class": "open"}, {}, "xy"),
        ({"region": "eu"}, {}, {}, "xy"),
        ({"region": "eu"}, {"region": "eu"}, {}, "xy"),
        ({"quality_floor": 0.9}, {}, {"quality": 0.9}, "xy"),
        ({"latency_s": 2}, {}, {"latency_s": 2.0}, "xy"),
        ({"latency_s": 2}, {}, {}, "xy"),
        ({"price_ratio": 2}, {"asked_spend": D(1)}, {}, "xy"),
        ({"price_ratio": 1.5}, {"asked_spend": D(1)}, {}, "y"),
        ({}, {"max_spend": D(1)}, {}, "y"),
    ],
)
def test_what_is_within_its_bounds_passes_where_it_is_cheap_enough(bounds, asks, offered, left):
    known = Offered(**({"prices": OFFERED.prices} | offered))
    found = weighed(Candidate(model="b", **bounds), Asks(**asks), known)
    assert (found.against, "".join(found.prices)) == (None, left)


@given(
    ratio=st.none() | st.floats(0, 5),
    asked=st.none() | st.decimals(0, 5, places=2),
    most=st.none() | st.decimals(0, 5, places=2),
    prices=st.dictionaries(st.sampled_from("xyz"), st.decimals(0, 5, places=2)),
)
def test_whatever_passes_is_within_both_bounds_and_what_is_left_out_is_not(
    ratio, asked, most, prices
):
    candidate = Candidate(model="b", price_ratio=ratio)
    found = weighed(candidate, Asks(asked_spend=asked, max_spend=most), Offered(prices=prices))
    bounds = [
        bound
        for bound in (most, ratio is not None and D(str(ratio)) * (asked or 0))
        if bound is not None and bound is not False
    ]
    fits = {one: price for one, price in prices.items() if all(price <= bound for bound in bounds)}
    assert found.prices == fits
    assert (found.against is None) == bool(fits)
