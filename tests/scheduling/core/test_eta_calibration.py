import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.eta.calibration import (
    FALLBACK,
    FEWEST,
    Calibration,
    Checked,
    calibrated,
    expectation,
    naive_s,
    score,
)

NOW = 100.0


def test_few_samples_give_the_documented_wide_range():
    found = calibrated([1.0] * (FEWEST - 1))
    assert (found.low, found.high, found.samples) == (*FALLBACK, FEWEST - 1)
    assert found.around(NOW + 10, NOW) == (NOW + 5, NOW + 20)


def test_the_range_is_bounded_by_the_tenth_and_ninetieth_percentile_of_the_ratios():
    found = calibrated([ratio / 100 for ratio in range(1, 100)])
    assert (found.low, found.high, found.samples) == (0.10, 0.90, 99)


def test_ratios_that_are_no_positive_number_are_left_out():
    assert calibrated([0, -1, math.nan, math.inf, *[2.0] * FEWEST]) == Calibration(
        low=2.0, high=2.0, samples=FEWEST
    )


def test_a_range_never_begins_before_now():
    assert Calibration().around(NOW - 5, NOW) == (NOW, NOW + 1)


def test_no_range_is_finer_than_the_steps_in_which_work_is_placed():
    assert Calibration(low=0.9, high=1.1).around(NOW + 2, NOW) == (NOW + 1, NOW + 3)
    assert Calibration(low=0.9, high=1.1).around(NOW + 0.5, NOW) == (NOW, NOW + 1.5)


@given(st.lists(st.floats(0.01, 100), min_size=FEWEST), st.floats(0, 1e6))
def test_a_range_is_never_inside_out(ratios, wait):
    low, high = calibrated(ratios).around(NOW + wait, NOW)
    assert NOW <= low <= high


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_four_of_five_next_jobs_fall_into_the_range(seed):
    dice = random.Random(seed)
    ratios = [dice.lognormvariate(0, 0.7) for _ in range(5000)]
    found = calibrated(ratios[:1000])
    inside = sum(found.low <= ratio <= found.high for ratio in ratios[1000:]) / 4000
    assert inside == pytest.approx(0.8, abs=0.05)


def test_predictions_are_scored_by_error_bias_and_hits():
    late = Checked(predicted_s=10, low_s=5, high_s=20, actual_s=6)
    early = Checked(predicted_s=10, low_s=5, high_s=20, actual_s=30)
    found = score([late, early])
    assert (found.count, found.mean_error_s, found.bias_s, found.hit_rate) == (2, 12, -8, 0.5)
    assert score([]) is None


def test_the_naive_formula_is_pending_times_average_by_capacity():
    assert naive_s(1000, 60, 10) == 6000
    with pytest.raises(ValueError, match="at least 1"):
        naive_s(1, 1, 0)


def test_the_expected_time_is_the_workflows_else_the_tenants_else_the_default():
    assert expectation(3.0, 5.0, 60.0) == (3.0, "workflow")
    assert expectation(None, 5.0, 60.0) == (5.0, "tenant")
    assert expectation(None, None, 60.0) == (60.0, "default")
