import math
from heapq import heapreplace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.eta.outlook import (
    Work,
    clear_hours,
    outlook,
    seconds_left,
    servers,
    units_for,
    units_to_recover,
)

MINUTE = Work(run_s=60.0)
DAY = np.full(24, 60.0)


def test_a_server_is_the_capacity_of_one_job_of_mean_cost():
    assert servers(10, 99, Work(run_s=1.0, cost=2.5)) == 4
    assert servers(10, 3, Work(run_s=1.0, cost=2.5)) == 3
    assert servers(-2, 3, MINUTE) == 0


def test_a_backlog_shrinks_by_what_is_done_and_grows_by_what_comes():
    steady = Work(run_s=60.0, run_scv=0.0, arrival_scv=0.0)
    found = outlook(100.0, np.array([30.0, 30.0, 90.0]), steady, 1)
    assert [hour.depth for hour in found] == [70.0, 40.0, 70.0]
    assert found[0].wait_s == 70 * 60


def test_without_servers_all_that_comes_waits_for_ever():
    found = outlook(1.0, np.array([5.0]), Work(run_s=60.0, run_scv=0, arrival_scv=0), 0)
    assert (found[0].depth, found[0].wait_s) == (6.0, math.inf)


@pytest.mark.parametrize(
    ("count", "load", "share"), [(1, 0.5, 0.5), (2, 1, 1 / 3), (10, 8, 0.4092)]
)
def test_the_line_of_a_calm_queue_is_that_of_erlang(count, load, share):
    """M/M/c: `share` of the arrivals wait (Erlang's C, from his tables)."""
    found = outlook(0.0, np.array([load * 60.0]), MINUTE, count)[0]
    assert found.depth == pytest.approx(share * load / (count - load), rel=1e-3)


@given(st.floats(0.01, 0.9999), st.integers(1, 4000))
def test_the_short_way_to_erlangs_share_ends_where_the_whole_one_does(busy, count):
    load, blocked = busy * count, 1.0
    for number in range(1, count + 1):
        blocked = load * blocked / (number + load * blocked)
    depth = blocked / (1 - busy + busy * blocked) * load / (count - load)
    found = outlook(0.0, np.array([load * 60.0]), MINUTE, count)[0]
    bound = math.sqrt(2 * load * 60.0 * 2 / math.pi)
    assert found.depth == pytest.approx(min(depth, bound), rel=1e-9, abs=1e-6)


def test_servers_far_beyond_the_load_are_not_counted_one_by_one():
    """By steps of one this would take hours."""
    assert outlook(0.0, DAY, MINUTE, 10**12)[0].depth == 0
    assert outlook(0.0, np.array([6e11]), MINUTE, 10**10 + 10**7)[0].depth < 1


def test_of_a_begun_hour_only_the_rest_comes_and_is_done():
    steady = Work(run_s=60.0, run_scv=0.0, arrival_scv=0.0)
    found = outlook(100.0, np.array([20.0, 20.0]), steady, 1, 0.25)
    assert [hour.depth for hour in found] == [90.0, 50.0]
    assert [hour.wait_s for hour in found] == [90 * 60, 50 * 60]


def test_a_begun_hour_is_shorter_for_the_clear_time_too():
    assert clear_hours(90, DAY, MINUTE, 2, 0.5) == 1.5
    assert clear_hours(20, np.array([0.0, 60.0]), MINUTE, 1, 0.5) == pytest.approx(1 / 3)
    assert clear_hours(40, np.array([60.0, 0.0]), MINUTE, 1, 0.5) == pytest.approx(0.5 + 2 / 3)


def test_what_a_begun_hour_leaves_asks_for_more_units():
    assert units_for(60.0, 600.0, DAY, MINUTE, 0.1) > units_for(60.0, 600.0, DAY, MINUTE)


def test_the_wait_agrees_with_a_queue_that_is_played():
    dice = np.random.default_rng(3)
    rate, count, jobs = 4.5 / 60, 5, 200_000
    at = np.cumsum(dice.exponential(1 / rate, jobs))
    free, waited = [0.0] * count, 0.0
    for came, runs in zip(at.tolist(), dice.exponential(60.0, jobs).tolist(), strict=True):
        start = max(came, free[0])
        waited += start - came
        heapreplace(free, start + runs)
    found = outlook(0.0, np.array([rate * 3600]), MINUTE, count)[0]
    assert found.depth == pytest.approx(rate * waited / jobs, rel=0.15)


def test_at_saturation_the_line_of_an_hour_is_bounded():
    found = outlook(0.0, np.array([60.0]), MINUTE, 1)[0]
    assert found.depth == pytest.approx(math.sqrt(2 * 60 * 2 / math.pi))


def test_when_a_backlog_is_gone_is_told_to_the_part_of_an_hour():
    assert clear_hours(0, DAY, MINUTE, 2) == 0
    assert clear_hours(30, np.full(24, 60.0), MINUTE, 2) == 0.5
    assert clear_hours(90, np.full(24, 60.0), MINUTE, 2) == 1.5
    assert clear_hours(10, np.full(24, 60.0), MINUTE, 1) is None
    assert clear_hours(10, np.array([60.0, 0.0]), MINUTE, 1) == pytest.approx(1 + 10 / 60)
    assert clear_hours(60, np.array([0.0]), MINUTE, 1) == 1.0


def test_the_fewest_units_that_meet_a_target_are_found():
    units = units_for(60.0, 0.0, DAY, Work(run_s=60.0, cost=3.0))
    count = units // 3
    assert all(hour.wait_s <= 60 for hour in outlook(0, DAY, MINUTE, count)[1:])
    assert any(hour.wait_s > 60 for hour in outlook(0, DAY, MINUTE, count - 1)[1:])


def test_one_unit_may_do():
    assert units_for(60.0, 0.0, np.full(24, 0.1), MINUTE) == 1


def test_no_units_are_named_where_none_would_do():
    assert units_for(1.0, 0.0, np.full(24, 1e9), Work(run_s=3600.0)) is None


def test_what_an_outage_leaves_is_cleared_beside_what_keeps_coming():
    assert units_to_recover(3600, 3600, 1 / 60, MINUTE) == 2
    assert units_to_recover(3600, 1800, 1 / 60, Work(run_s=60.0, cost=2.0)) == 6
    assert units_to_recover(3600, 3600, 0.0, MINUTE) == 0


def test_a_budget_is_used_up_unless_its_window_ends_first():
    assert seconds_left(100, 2, None) == 50
    assert seconds_left(100, 2, 60) == 50
    assert seconds_left(100, 2, 50) is None
    assert seconds_left(100, 0, None) is None
    assert seconds_left(0, 0, None) == 0


HOURS = st.lists(st.floats(0, 500), min_size=2, max_size=24).map(np.array)


@given(st.floats(0, 1000), HOURS, st.integers(0, 40))
def test_more_servers_never_make_a_longer_line(backlog, arrivals, count):
    fewer, more = (outlook(backlog, arrivals, MINUTE, one) for one in (count, count + 1))
    assert all(a.depth >= b.depth - 1e-9 for a, b in zip(fewer, more, strict=True))


@given(st.floats(0, 1000), HOURS, st.floats(1, 3600))
def test_units_for_a_shorter_wait_are_never_fewer(backlog, arrivals, target):
    tight, loose = (units_for(one, backlog, arrivals, MINUTE) for one in (target, 2 * target))
    assert tight >= loose
