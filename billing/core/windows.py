"""Budget windows, derived from time alone: no job ever resets a budget.

Theory. A window is the calendar hour, day, week or month of the budget's zone that contains an
instant, as a half-open interval [start, end) of instants. The anchor is the day that begins a week
(1 Monday to 7) or a month (1 to 28, the days that each month has). Its bounds are wall
clock times turned into instants by the zone's rules, so a day may last 23 or 25 hours. A wall time
that happens twice means the first, so an hour that the clock repeats is one window of two hours; a
wall time that never happens means the jump. Thus the windows of a kind follow each other without a
gap or an overlap. "none" is one window without an end.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """[start, end) in UTC; `end` None never comes."""

    start: datetime
    end: datetime | None

    def contains(self, at: datetime) -> bool:
        """Say whether the instant is in the window."""
        return self.start <= at and (self.end is None or at < self.end)


def window(kind: str, zone: ZoneInfo, now: datetime, anchor: int = 1) -> Window:
    """Return the window of a kind that contains `now` (aware).

    Raises `ValueError` for an unknown kind or a naive time.
    """
    if now.tzinfo is None:
        raise ValueError("a window needs an aware time: give `now` a zone")
    if kind == "none":
        return Window(start=EPOCH, end=None)
    wall = now.astimezone(zone).replace(tzinfo=None, fold=0)
    first, following = _wall_bounds(kind, wall, anchor)
    return Window(start=_instant(first, zone), end=_instant(following, zone))


def _wall_bounds(kind: str, wall: datetime, anchor: int) -> tuple[datetime, datetime]:
    """Return the wall clock times at which the window of `wall` starts and the next one does."""
    hour = wall.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    if kind == "hour":
        return hour, hour + timedelta(hours=1)
    if kind == "day":
        return day, day + timedelta(days=1)
    if kind == "week":
        first = day - timedelta(days=(day.isoweekday() - anchor) % 7)
        return first, first + timedelta(days=7)
    if kind == "month":
        month = day if day.day >= anchor else day - timedelta(days=day.day)
        first = month.replace(day=anchor)
        return first, (first.replace(day=1) + timedelta(days=31)).replace(day=anchor)
    message = f"unknown window {kind!r}: use none, hour, day, week or month"
    raise ValueError(message)


def _instant(wall: datetime, zone: ZoneInfo) -> datetime:
    return wall.replace(tzinfo=zone).astimezone(UTC)
