"""Series in a fixed number of bins keep their integrals however long the run becomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.simulator.grid import BINS, Grid


def test_a_level_is_spread_over_the_bins_that_it_lasts() -> None:
    grid = Grid()
    grid.step("depth", 0.0, 2)
    grid.step("depth", 1.0, -1)
    grid.close(3.0)
    per_second = round(1 / grid.width)
    means = [one / grid.width for one in grid.sums("depth")]
    assert means[: 3 * per_second] == pytest.approx([2.0] * per_second + [1.0] * 2 * per_second)
    assert grid.level("depth") == 1


def test_a_series_that_was_never_touched_is_nothing() -> None:
    grid = Grid()
    assert grid.sums("none") == [0.0] * BINS
    assert grid.level("none") == 0


def test_keys_are_listed_by_their_kind() -> None:
    grid = Grid()
    grid.pulse(("served", "acme"), 1.0, 1)
    grid.pulse(("use", "acme"), 1.0, 1)
    assert list(grid.keys("served")) == ["acme"]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e6, allow_subnormal=False),
            st.integers(-5, 5),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_folding_the_bins_loses_nothing(changes: list[tuple[float, int]]) -> None:
    grid = Grid()
    expected, level, since = 0.0, 0, 0.0
    for at, by in sorted(changes):
        expected += level * (at - since)
        level, since = level + by, at
        grid.step("level", at, by)
        grid.pulse("count", at, 1)
    assert sum(grid.sums("level")) == pytest.approx(expected, rel=1e-9, abs=1e-6)
    assert sum(grid.sums("count")) == len(changes)
    assert len(grid.sums("level")) == BINS
    assert since <= grid.width * BINS
