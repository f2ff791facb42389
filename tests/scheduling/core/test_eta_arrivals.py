import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.eta.arrivals import DAY, WEEK, learnt

MONDAY = 24 * 4
"""The epoch was a Thursday; the hour of the week counts from there."""


def weekly(weeks, peak=20.0, quiet=2.0):
    """Busy from 9 to 17 on five days of seven."""
    hours = np.arange(weeks * WEEK)
    busy = (hours % DAY >= 9) & (hours % DAY < 17) & (hours // DAY % 7 < 5)
    return np.where(busy, peak, quiet)


def test_a_pattern_that_repeats_by_the_week_is_foreseen():
    found = learnt(weekly(6), 0)
    ahead = found.ahead(6 * WEEK, WEEK)
    assert found.basis == "week"
    assert np.abs(ahead.mean - weekly(1)).max() < 6
    assert np.abs(ahead.mean - weekly(1)).mean() < 0.5 * np.abs(weekly(1) - weekly(1).mean()).mean()


def test_the_hour_of_the_week_is_told_from_the_epoch_and_not_from_the_first_count():
    whole, later = learnt(weekly(8), 0), learnt(weekly(8)[50:], 50)
    assert np.abs(whole.by_hour - later.by_hour).max() < 1.0


def test_with_a_few_days_only_the_day_is_foreseen():
    found = learnt(weekly(1)[: 3 * DAY], 0)
    assert found.basis == "day"
    assert found.ahead(12, 1).mean[0] > found.ahead(3, 1).mean[0]
    assert found.by_hour[12] == found.by_hour[12 + 5 * DAY]


def test_with_less_than_two_days_a_plain_mean_is_foreseen():
    found = learnt(np.array([2.0, 4.0] * 20), 0)
    assert (found.basis, found.hours) == ("mean", 40)
    assert found.by_hour == pytest.approx(np.full(WEEK, 3.0), rel=0.01)


def test_without_any_history_nothing_is_foreseen():
    found = learnt(np.zeros(0), 5)
    assert (found.basis, found.hours, found.dispersion) == ("mean", 0, 1.0)
    assert found.ahead(0, 3).mean.tolist() == [0, 0, 0]


def test_recent_weeks_weigh_more():
    counts = np.concatenate([weekly(4, peak=10), weekly(4, peak=40)])
    assert learnt(counts, 0).ahead(12, 1).mean[0] > 25


def test_a_few_counts_have_a_range_of_their_own_and_fewer_a_wide_guess():
    apart = [10.0, 90.0]
    assert learnt(np.array(apart * 4), 0).high == 2.0
    assert learnt(np.array(apart * 5), 0).high > 5.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_four_of_five_hours_fall_into_the_range(seed):
    dice = np.random.default_rng(seed)
    counts = dice.poisson(weekly(12)).astype(float)
    found = learnt(counts[: 10 * WEEK], 0).ahead(10 * WEEK, 2 * WEEK)
    came = counts[10 * WEEK :]
    inside = ((found.low <= came) & (came <= found.high)).mean()
    assert 0.72 <= inside <= 0.93


def test_arrivals_in_bursts_are_told_from_independent_ones():
    dice = np.random.default_rng(1)
    calm = dice.poisson(5.0, 4 * WEEK).astype(float)
    bursts = dice.poisson(0.5, 4 * WEEK) * 10.0
    assert learnt(calm, 0).dispersion < 2 < learnt(bursts, 0).dispersion


@given(st.lists(st.integers(0, 1000), max_size=600), st.integers(0, 1_000_000))
def test_a_forecast_is_never_negative_nor_inside_out(counts, first_hour):
    found = learnt(np.array(counts, dtype=float), first_hour).ahead(first_hour + len(counts), DAY)
    assert (found.low >= 0).all()
    assert (found.low <= found.mean + 1e-9).all()
    assert (found.mean <= found.high).all()


@given(st.lists(st.integers(0, 100), min_size=1, max_size=600), st.integers(2, 9))
def test_a_flat_factor_on_all_counts_is_one_on_the_forecast(counts, factor):
    one = learnt(np.array(counts, dtype=float), 0).by_hour
    more = learnt(np.array(counts, dtype=float) * factor, 0).by_hour
    assert more == pytest.approx(one * factor)
