"""The range of an estimate in a run: the recent ratios, moved by how often the range was missed."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from scheduling.simulator.runs import Estimate
from scheduling.simulator.scoring import LAST_CHECKED, Ranges


def told(ranges, finish_s):
    low_s, high_s = ranges.around(finish_s)
    return Estimate(at=0.0, finish_s=finish_s, low_s=low_s, high_s=high_s, naive_s=0.0)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)), max_size=60), st.integers(0, 30))
def test_whatever_comes_true_a_range_holds_its_estimate(outcomes, repeat):
    ranges = Ranges()
    for finish_s, actual_s in outcomes * repeat:
        estimate = told(ranges, finish_s)
        assert 0 <= estimate.low_s <= finish_s <= estimate.high_s
        ranges.add(estimate, actual_s)


def test_only_the_last_outcomes_are_kept():
    ranges = Ranges()
    for actual_s in [1000.0] * LAST_CHECKED + [10.0] * LAST_CHECKED:
        ranges.add(Estimate(at=0, finish_s=10.0, low_s=0, high_s=1e9, naive_s=0), actual_s)
    assert ranges.around(10.0) == (10.0, 10.0)


def test_a_side_is_missed_by_a_tenth_while_the_ratios_drift_away():
    ranges, dice, hits = Ranges(), Random(7), 0
    for number in range(20_000):
        estimate, actual_s = (
            told(ranges, 100.0),
            100.0 * (1 + number / 2000) * dice.lognormvariate(0, 0.01),
        )
        hits += estimate.low_s <= actual_s <= estimate.high_s
        ranges.add(estimate, actual_s)
    assert 0.89 <= hits / 20_000 <= 0.91  # the other side, the estimate itself, is never missed
