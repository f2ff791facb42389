import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.eta.lanes import Lanes

NOW = 100.0


def seed_lanes(units, now, running):
    """The seed's own form: one number per lane, sorted; those over the dial vanish from the front."""
    lanes = sorted(max(now, end) for end, cost in running for _ in range(cost))
    free = [now] * max(0, units - len(lanes))
    return free + lanes[max(0, len(lanes) - units) :]


def lay(lanes, cost, duration):
    start = lanes[cost - 1]
    lanes[:cost] = [start + duration] * cost
    lanes.sort()
    return start


def test_one_lane_serves_one_after_the_other():
    lanes = Lanes(1, now=NOW, running=[(NOW + 600, 1)])
    assert lanes.take(1, 1200) == NOW + 600
    assert lanes.take(1, 3600) == NOW + 1800


def test_a_job_of_two_units_starts_when_two_lanes_are_free_together():
    lanes = Lanes(2, now=NOW, running=[(NOW + 600, 1)])
    assert lanes.take(1, 1200) == NOW
    assert lanes.take(2, 100) == NOW + 1200


def test_an_overdue_job_frees_its_units_now():
    assert Lanes(1, now=NOW, running=[(NOW - 50, 1)]).take(1, 1) == NOW


def test_when_the_dial_is_below_use_the_units_freed_first_vanish():
    running = [(NOW + 10, 2), (NOW + 20, 2), (NOW + 30, 1)]
    assert Lanes(2, now=NOW, running=running).groups() == [(NOW + 20, 1), (NOW + 30, 1)]


@pytest.mark.parametrize("cost", [0, 3])
def test_a_cost_that_never_fits_is_refused(cost):
    with pytest.raises(ValueError, match="never fits 2 units"):
        Lanes(2, now=NOW).take(cost, 1)


def test_no_units_are_no_lanes():
    assert Lanes(0, now=NOW).groups() == []
    assert Lanes(0, now=NOW).take_all([], []) == []


def test_a_set_with_one_job_that_never_fits_is_refused_before_any_is_laid():
    lanes = Lanes(2, now=NOW)
    with pytest.raises(ValueError, match="cost 3 never fits 2 units"):
        lanes.take_all([1, 3, 1], [5.0, 5.0, 5.0])
    assert lanes.groups() == [(NOW, 2)]


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(50, 200).map(float), st.integers(1, 4)), max_size=6),
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 30).map(float)), max_size=30),
)
def test_groups_give_the_starts_of_one_number_per_lane_and_never_overtake(units, running, jobs):
    lanes, plain = Lanes(units, now=NOW, running=running), seed_lanes(units, NOW, running)
    whole, starts, last = Lanes(units, now=NOW, running=running), [], NOW
    for cost, duration in jobs:
        taken = min(cost, units)
        start = lanes.take(taken, duration)
        assert start == lay(plain, taken, duration)
        assert start >= last
        last = start
        starts.append(start)
    costs = [min(cost, units) for cost, _ in jobs]
    assert whole.take_all(costs, [duration for _, duration in jobs]) == starts
    assert whole.groups() == lanes.groups()
    assert sum(count for _, count in lanes.groups()) == units
