"""Windows follow the calendar of a zone, without gaps."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.core.windows import EPOCH, Window, window

SINGAPORE = ZoneInfo("Asia/Singapore")
NEW_YORK = ZoneInfo("America/New_York")
LOS_ANGELES = ZoneInfo("America/Los_Angeles")
ODD = [  # half-hour shifts, a skipped day, midnights that repeat or never happen
    "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "America/Havana",
    "Asia/Kathmandu", "Europe/Lisbon", "America/New_York", "UTC",
]  # fmt: skip


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime.combine(date(year, month, day), time(hour, minute), UTC)


def test_a_day_in_singapore_starts_at_its_own_midnight():
    found = window("day", SINGAPORE, at(2026, 8, 19, 16))
    assert found.start == datetime(2026, 8, 20, tzinfo=SINGAPORE)
    assert found.end == datetime(2026, 8, 21, tzinfo=SINGAPORE)


def test_the_last_microsecond_belongs_to_the_day_before():
    found = window("day", SINGAPORE, at(2026, 8, 19, 16) - timedelta(microseconds=1))
    assert found.start == datetime(2026, 8, 19, tzinfo=SINGAPORE)
    assert found.end == datetime(2026, 8, 20, tzinfo=SINGAPORE)


def test_a_day_in_los_angeles_starts_exactly_at_its_midnight():
    assert window("day", LOS_ANGELES, at(2026, 8, 19, 7)).start == at(2026, 8, 19, 7)


@pytest.mark.parametrize("year", [2027, 2028])
def test_a_month_is_a_calendar_month(year):
    found = window("month", ZoneInfo("UTC"), at(year, 2, 14))
    assert found == Window(start=at(year, 2, 1), end=at(year, 3, 1))


def test_december_ends_in_the_next_year():
    assert window("month", ZoneInfo("UTC"), at(2026, 12, 31, 23)).end == at(2027, 1, 1)


def test_a_week_starts_on_monday():
    found = window("week", ZoneInfo("UTC"), at(2026, 8, 23, 23))
    assert found == Window(start=at(2026, 8, 17), end=at(2026, 8, 24))


@pytest.mark.parametrize(
    ("anchor", "day", "first"), [(7, 23, 23), (7, 22, 16), (3, 19, 19), (3, 18, 12)]
)
def test_a_week_starts_on_its_anchor(anchor, day, first):
    found = window("week", ZoneInfo("UTC"), at(2026, 8, day, 5), anchor)
    assert found == Window(start=at(2026, 8, first), end=at(2026, 8, first) + timedelta(days=7))


@pytest.mark.parametrize(
    ("now", "start", "end"),
    [
        (at(2026, 8, 15), at(2026, 8, 15), at(2026, 9, 15)),
        (at(2026, 8, 14, 23), at(2026, 7, 15), at(2026, 8, 15)),
        (at(2027, 1, 3), at(2026, 12, 15), at(2027, 1, 15)),
    ],
)
def test_a_month_starts_on_its_anchor(now, start, end):
    assert window("month", ZoneInfo("UTC"), now, 15) == Window(start=start, end=end)


def test_a_month_from_the_28th_holds_in_february():
    found = window("month", ZoneInfo("UTC"), at(2027, 3, 1), 28)
    assert found == Window(start=at(2027, 2, 28), end=at(2027, 3, 28))


def test_no_window_never_ends():
    assert window("none", NEW_YORK, at(2026, 8, 23)) == Window(start=EPOCH, end=None)


@pytest.mark.parametrize(("day", "hours"), [(date(2026, 3, 8), 23), (date(2026, 11, 1), 25)])
def test_a_day_is_longer_or_shorter_when_the_clock_changes(day, hours):
    found = window("day", NEW_YORK, datetime.combine(day, time(12), NEW_YORK))
    assert found.end is not None
    assert found.end - found.start == timedelta(hours=hours)


def test_the_hour_that_the_clock_repeats_is_one_window():
    found = window("hour", NEW_YORK, at(2026, 11, 1, 6, 30))
    assert found == Window(start=at(2026, 11, 1, 5), end=at(2026, 11, 1, 7))


@given(
    st.sampled_from(["hour", "day", "week", "month"]),
    st.sampled_from(ODD),
    st.integers(1_230_768_000, 1_893_456_000),  # 2009 to 2030
    st.integers(1, 28),
)
def test_windows_follow_each_other_without_gap_or_overlap(kind, zone, epoch_s, day):
    now, anchor = datetime.fromtimestamp(epoch_s, UTC), min(day, 7) if kind == "week" else day
    found = window(kind, ZoneInfo(zone), now, anchor)
    assert found.end is not None
    assert found.start <= now < found.end
    assert window(kind, ZoneInfo(zone), found.start, anchor) == found
    assert window(kind, ZoneInfo(zone), found.end, anchor).start == found.end
    assert window(kind, ZoneInfo(zone), found.end - timedelta(microseconds=1), anchor) == found


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="unknown window 'year'"):
        window("year", NEW_YORK, at(2026, 1, 1))


def test_a_naive_time_is_refused():
    with pytest.raises(ValueError, match="needs an aware time"):
        window("day", NEW_YORK, datetime(2026, 1, 1))  # noqa: DTZ001
