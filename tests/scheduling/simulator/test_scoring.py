"""The range of an estimate in a run is that of the core over the last outcomes."""

from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.eta.calibration import calibrated
from scheduling.simulator.runs import Estimate
from scheduling.simulator.scoring import LAST_CHECKED, Ranges


def estimate(finish_s):
    return Estimate(at=0.0, finish_s=finish_s, low_s=0.0, high_s=0.0, naive_s=0.0)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)), max_size=60), st.integers(0, 30))
def test_the_range_is_that_of_the_last_ratios(outcomes, repeat):
    ranges, ratios = Ranges(), []
    for finish_s, actual_s in outcomes * repeat:
        ranges.add(estimate(finish_s), actual_s)
        if finish_s > 0 and 0 < actual_s / finish_s < float("inf"):
            ratios.append(actual_s / finish_s)
    expected = calibrated(ratios[-LAST_CHECKED:])
    assert ranges.around(100.0) == expected.around(100.0, 0.0, slack_s=0.0)
