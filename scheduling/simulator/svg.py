"""Charts as inline SVG that fits any width: places across are percents, heights are pixels.

Only curves are stretched (a nested picture without a fixed aspect, whose strokes keep their
width); text and bars keep their shape from a phone to a wall. Every name is escaped, and colours
are classes, so that the page's style sheet decides them in both themes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

PLOT_PX = 168
_AXIS_PX = 18
_NEXT = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A line of a chart: points of (share of the width, value)."""

    style: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A row of a box plot: from `low` to `high`, the middle half from `q1` to `q3`."""

    style: str
    name: str
    low: float
    q1: float
    middle: float
    q3: float
    high: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A rectangle across a row, in percents from the left."""

    style: str
    left: float
    width: float
    text: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A named strip of blocks; `lanes` of them one under the other, `px` high each."""

    name: str
    lanes: Sequence[Sequence[Block]]
    px: int = 14


def element(name: str, inside: object = "", **attributes: object) -> SafeString:
    """Return an element; names of attributes may be written with _ for -."""
    pairs = ((key.strip("_").replace("_", "-"), value) for key, value in attributes.items())
    told = format_html_join("", ' {}="{}"', pairs)
    return format_html("<{}{}>{}</{}>", name, told, inside, name)


def joined(parts: Iterable[str]) -> SafeString:
    """Return the parts one after the other, each escaped unless it is safe."""
    return mark_safe("".join(conditional_escape(part) for part in parts))  # noqa: S308 - escaped


def picture(inside: str, *, label: str, height: int) -> SafeString:
    """Return the drawing as one image with a name; a table beside it tells its numbers."""
    return element(
        "svg", inside, role="img", aria_label=label, width="100%", height=height, _class="chart"
    )


def ceiling(value: float) -> float:
    """Return a round number at or above a value, for the top of an axis."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in _NEXT if step * size >= value * (1 - 1e-9))


def curves(
    lines: Sequence[Curve], *, top: float, label: str, ticks: Sequence[tuple[float, str]]
) -> SafeString:
    """Return lines over time under a grid of four; `ticks` are (share of the width, text)."""
    paths = joined(_curve(line, top) for line in lines)
    return _plot(paths, top=top, label=label, ticks=ticks)


def stacked(
    layers: Sequence[Curve],
    *,
    top: float,
    label: str,
    ticks: Sequence[tuple[float, str]],
    lines: Sequence[Curve] = (),
) -> SafeString:
    """Return areas one upon the other, the first at the bottom, all with the same places across.

    `lines` are drawn over them.
    """
    drawn: list[SafeString] = []
    base = [0.0] * max((len(layer.points) for layer in layers), default=0)
    for layer in layers:
        places = [x for x, _ in layer.points]
        upper = [low + value for low, (_, value) in zip(base, layer.points, strict=True)]
        outline = [*zip(places, upper, strict=True)]
        outline += [*zip(reversed(places), reversed(base), strict=True)]
        points = _points(outline, top)
        drawn.append(element("polygon", points=points, _class=f"area {layer.style}"))
        base = upper
    drawn.extend(_curve(line, top) for line in lines)
    return _plot(joined(drawn), top=top, label=label, ticks=ticks)


def boxes(
    rows: Sequence[Box], *, top: float, label: str, ticks: Sequence[tuple[float, str]]
) -> SafeString:
    """Return box plots, one under the other, with their names above them."""
    height, parts = 38, []
    for number, row in enumerate(rows):
        parts.append(_box(row, number * height, top))
    bottom = len(rows) * height
    parts.append(_time_axis(ticks, bottom))
    return picture(joined(parts), label=label, height=bottom + _AXIS_PX)


def strips(
    rows: Sequence[Row], *, label: str, ticks: Sequence[tuple[float, str]] = ()
) -> SafeString:
    """Return rows of blocks, each under its name."""
    parts, y = [], 0
    for row in rows:
        parts.append(element("text", row.name, x=0, y=y + 13, _class="name"))
        y += 18
        for lane in row.lanes:
            parts.extend(_block(block, y, row.px) for block in lane)
            y += row.px + (2 if row.px > 8 else 1)
        y += 6
    if ticks:
        parts.append(_time_axis(ticks, y))
        y += _AXIS_PX
    return picture(joined(parts), label=label, height=y)


def _curve(line: Curve, top: float) -> SafeString:
    return element(
        "polyline",
        points=_points(line.points, top),
        _class=f"curve {line.style}",
        vector_effect="non-scaling-stroke",
    )


def _points(points: Iterable[tuple[float, float]], top: float) -> str:
    return " ".join(f"{1000 * x:.1f},{1000 - 1000 * y / top:.1f}" for x, y in points)


def _plot(inside: str, *, top: float, label: str, ticks: Sequence[tuple[float, str]]) -> SafeString:
    stretched = element(
        "svg",
        inside,
        viewBox="0 0 1000 1000",
        preserveAspectRatio="none",
        x=0,
        y=10,
        width="100%",
        height=PLOT_PX,
    )
    parts = [_levels(top), stretched, _time_axis(ticks, PLOT_PX + 10)]
    return picture(joined(parts), label=label, height=PLOT_PX + 10 + _AXIS_PX)


def _levels(top: float) -> SafeString:
    """Four lines across with their values above them."""
    parts = []
    for quarter in range(5):
        y = 10 + PLOT_PX - PLOT_PX * quarter / 4
        parts.append(element("line", x1=0, x2="100%", y1=y, y2=y, _class="level"))
        if quarter:
            parts.append(element("text", number(top * quarter / 4), x=0, y=y - 2, _class="tick"))
    return joined(parts)


def _time_axis(ticks: Sequence[tuple[float, str]], y: int) -> SafeString:
    return joined(
        element(
            "text",
            text,
            x=f"{100 * share:.2f}%",
            y=y + 13,
            text_anchor="start" if share < 0.02 else "end" if share > 0.9 else "middle",
            _class="tick",
        )
        for share, text in ticks
    )


def _box(row: Box, y: int, top: float) -> SafeString:
    def at(value: float) -> str:
        return f"{min(100.0, 100 * value / top):.2f}%"

    def wide(low: float, high: float) -> str:
        return f"{max(0.15, 100 * (high - low) / top):.2f}%"

    middle = y + 25
    return joined((
        element("text", row.name, x=0, y=y + 13, _class="name"),
        element("line", x1=at(row.low), x2=at(row.high), y1=middle, y2=middle, _class="whisker"),
        element(
            "rect", x=at(row.q1), width=wide(row.q1, row.q3), y=y + 19, height=12,
            _class=f"bar {row.style}",
        ),
        element(
            "line", x1=at(row.middle), x2=at(row.middle), y1=y + 17, y2=y + 33, _class="median"
        ),
        element("circle", cx=at(row.mean), cy=middle, r=3, _class="mean"),
    ))  # fmt: skip


def _block(block: Block, y: int, px: int) -> SafeString:
    rect = element(
        "rect",
        element("title", block.title) if block.title else "",
        x=f"{block.left:.3f}%",
        width=f"{max(0.06, block.width):.3f}%",
        y=y,
        height=px,
        _class=f"bar {block.style}",
    )
    if not block.text:
        return rect
    text = element("text", block.text, x=f"{block.left + 0.2:.3f}%", y=y + px - 3, _class="in")
    return joined((rect, text))


def number(value: float) -> str:
    """Return a number as people read it: at most four digits, thousands with commas."""
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
