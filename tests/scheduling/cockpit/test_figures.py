"""Figures in words and the shapes of charts."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from scheduling.cockpit.chart import Value, slopes, steps
from scheduling.cockpit.figures import NONE, amount, moment, number, share, signed, span


@pytest.mark.parametrize(
    ("figure", "exact", "words"),
    [
        (number(1204), "1204", "1,204"),
        (number(3.04), "3.04", "3"),
        (number(3.06), "3.06", "3.1"),
        (number(123.4), "123.4", "123"),
        (span(0.35), "0.35", "0.3 s"),
        (span(9.96), "9.96", "10 s"),
        (span(37.4444), "37.444", "37 s"),
        (span(59.7), "59.7", "1 m"),
        (span(92), "92", "1 m 32 s"),
        (span(3900), "3900", "1 h 05 m"),
        (span(180_000), "180000", "2 d 02 h"),
        (signed(-4.5), "-4.5", "\N{MINUS SIGN}4.5 s"),
        (signed(4.5), "4.5", "+4.5 s"),
        (signed(0.01), "0.01", "0 s"),
        (share(0.805), "0.805", "80.5 %"),
        (amount(Decimal("1234.500000")), "1234.5", "1,234.5"),
        (amount(Decimal(1000)), "1000", "1,000"),
    ],
)
def test_a_figure_is_short_to_read_and_has_the_exact_value_beside_it(
    figure: str, exact: str, words: str
) -> None:
    assert figure == f'<data value="{exact}">{words}</data>'


def test_what_there_is_not_is_a_dash_or_the_words_for_it() -> None:
    assert number(None) == span(None) == moment(None) == NONE
    assert span(None, "more than a week") == "more than a week"


def test_a_moment_is_in_utc_until_the_pages_switch_turns_it() -> None:
    at = datetime(2026, 11, 30, 14, 5, tzinfo=UTC)
    assert "2026-11-30 14:05 UTC</time>" in moment(at)
    assert moment(at.timestamp(), "clock").endswith(">14:05</time>")
    assert 'datetime="2026-11-30T14:05:00Z"' in moment(at.timestamp())


def test_values_of_an_hour_are_steps_below_a_rounded_top() -> None:
    found = steps([Value(low=1, mean=2, high=3), Value(low=0, mean=4, high=7)])
    assert (found.top, found.labels) == (10, ("10", "5", "0"))
    assert found.line == "M0 800L1200 800L1200 600L2400 600"
    assert found.band == (
        "M0 700L1200 700L1200 300L2400 300L2400 1000L1200 1000L1200 900L0 900Z"
    )  # fmt: skip


def test_values_at_the_end_of_an_hour_begin_where_the_present_stands() -> None:
    found = slopes((0.25, 20.0), [Value(low=0, mean=10, high=15), Value(low=0, mean=0, high=5)])
    assert (found.top, found.labels) == (20, ("20", "10", "0"))
    assert found.line == "M300 0L1200 500L2400 1000"
    assert found.band == "M300 0L1200 250L2400 750L2400 1000L1200 1000L300 0Z"


@pytest.mark.parametrize(
    ("most", "labels"),
    [(0, ("1", "0.5", "0")), (1, ("1", "0.5", "0")), (1.2, ("2", "1", "0")),
     (4.5, ("5", "2.5", "0")), (1000, ("1,000", "500", "0")), (1001, ("2,000", "1,000", "0"))],
)  # fmt: skip
def test_the_axis_ends_at_a_round_number(most: float, labels: tuple[str, str, str]) -> None:
    assert steps([Value(low=0, mean=most, high=most)]).labels == labels
