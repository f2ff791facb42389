"""The shapes of a forecast's charts: a line with its 80 % range over hours, as paths of an SVG.

The drawing is `WIDTH` by `HEIGHT`, stretched by the page to the room that there is; the first hour
begins at its left edge, the largest value (rounded up) is its top. Text stands beside it, unstretched.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import TypeAlias

WIDTH = 2400
HEIGHT = 1000
TICK_HOURS = 3
_STEPS = (1.0, 2.0, 4.0, 5.0, 10.0)

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What is expected, and the bounds of its 80 % range."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Two paths, the labels of the axis of values from the top down, where it begins, and the top."""

    band: str
    line: str
    labels: tuple[str, str, str]
    top: float


def steps(values: Sequence[Value]) -> Chart:
    """Draw values that hold for an hour each: a level a value."""
    top = _rounded_up(max(one.high for one in values))
    wide = WIDTH / len(values)

    def level(heights: Sequence[float]) -> list[Point]:
        edges = ((n * wide, (n + 1) * wide, height) for n, height in enumerate(heights))
        return [
            point for left, right, height in edges for point in ((left, height), (right, height))
        ]

    low, mean, high = (level(heights) for heights in _apart(values))
    return _chart(low, mean, high, top)


def slopes(first: Point, values: Sequence[Value]) -> Chart:
    """Draw values that stand at the end of an hour each, from `first` (hours past, value) on."""
    past, now = first
    top = _rounded_up(max(now, *(one.high for one in values)))
    wide = WIDTH / len(values)
    low, mean, high = (
        [(past * wide, now), *((n * wide, height) for n, height in enumerate(heights, 1))]
        for heights in _apart(values)
    )
    return _chart(low, mean, high, top)


def _apart(values: Sequence[Value]) -> Iterator[list[float]]:
    yield [one.low for one in values]
    yield [one.mean for one in values]
    yield [one.high for one in values]


def _chart(low: Sequence[Point], mean: Sequence[Point], high: Sequence[Point], top: float) -> Chart:
    band = _path([*high, *reversed(low)], top) + "Z"
    labels = (_label(top), _label(top / 2), "0")
    return Chart(band=band, line=_path(mean, top), labels=labels, top=top)


def _path(points: Sequence[Point], top: float) -> str:
    return "M" + "L".join(f"{x:.0f} {HEIGHT * (1 - value / top):.0f}" for x, value in points)


def _rounded_up(value: float) -> float:
    """Return the next number of one plain digit; at least one, so that nothing is a flat line."""
    if value <= 1:
        return 1.0
    size = 10.0 ** floor(log10(value))
    return next(step * size for step in _STEPS if step * size >= value)


def _label(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
