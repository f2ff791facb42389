"""Answers that are known from elsewhere: each within its tolerance of what others published."""

import pytest

from bench.data import data_folder
from bench.known import kth_figures, newer_among_the_first, seven_charts, vtc_figures

DATA = data_folder()
needs_data = pytest.mark.skipif(DATA is None, reason="the traces are not here (TELEMACHUS_DATA)")


def test_the_seven_charts_of_the_worked_example_stand_in_their_order():
    assert seven_charts() == "ABCFDEG"


def test_a_hundred_newer_jobs_are_half_of_the_first_two_hundred():
    assert 99 <= newer_among_the_first() <= 101


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("expected", "mean", "most"), [("requested", 92.577, 14805.2), ("runtime", 71.722, 10017.2)]
)
def test_easy_backfilling_of_the_kth_log_has_the_published_slowdown(expected, mean, most):
    figures = list(kth_figures(DATA, expected, mean, most))
    assert all(figure.holds for figure in figures), figures


@needs_data
@pytest.mark.parametrize(
    ("suite", "scheduler", "weights"),
    [
        ("overload", "VTC", {"1": 1, "2": 1}),
        ("overload-weighted", "WVTC", {"1": 1, "2": 2, "3": 3, "4": 4}),
    ],
)
def test_clients_are_served_as_the_token_counter_was_measured_to(suite, scheduler, weights):
    figures = list(vtc_figures(DATA, suite, scheduler, weights))
    assert len(figures) == len(weights)
    assert all(figure.holds for figure in figures), figures
