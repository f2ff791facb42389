"""Arrivals foreseen on real logs, where they are at hand."""

import pytest

from bench.data import data_folder
from bench.forecast import backtest, logs

WEEKS_LONG = ("KTH-SP2-1996-2", "LLNL-Atlas-2006-2", "NASA-iPSC-1993-3")

DATA = data_folder()
pytestmark = pytest.mark.skipif(DATA is None, reason="the logs are not here (TELEMACHUS_DATA)")


@pytest.fixture(scope="module")
def real_logs():
    return {name: rest for name, *rest in logs(DATA)}


@pytest.mark.parametrize("log", WEEKS_LONG)
def test_a_day_ahead_errs_less_than_the_same_hour_of_last_week(real_logs, log):
    counts, warm, ahead = real_logs[log]
    found = backtest(log, counts, warm=warm, ahead=ahead)
    assert found.mase < 0.9
    assert found.coverage == pytest.approx(0.8, abs=0.05)
