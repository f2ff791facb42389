"""The pictures of a report: each a title, what it shows in words, an SVG, its key and its table."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from scheduling.simulator.sentences import span
from scheduling.simulator.spans import Spans
from scheduling.simulator.svg import Curve, ceiling, curves, number, stacked

MOST_TENANTS = 8
_ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An entry of a picture's key."""

    style: str
    name: str
    line: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table whose cells are text; the first of a row is its header."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


MOST_ROWS = 200


def cut(caption: str, rows: int) -> str:
    """Return a table's caption, which says so where only the first `MOST_ROWS` are shown."""
    return caption if rows <= MOST_ROWS else f"{caption} (the first {MOST_ROWS} of {rows:,})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A picture with its words."""

    id: str
    title: str
    says: str
    svg: SafeString
    keys: Sequence[Key] = ()
    table: Table | None = None


class Styles:
    """Which of the eight styles (hue, pattern, dash) each of the most served tenants has."""

    def __init__(self, tenants: Sequence[str]) -> None:
        """Give the first of `tenants` a style of their own; the others share the last."""
        own = MOST_TENANTS if len(tenants) <= MOST_TENANTS else MOST_TENANTS - 1
        self.shown = tuple(tenants[:own])
        self.others = tuple(tenants[own:])
        self._styles = {name: f"s{index}" for index, name in enumerate(self.shown)}

    def of(self, tenant: str) -> str:
        """Return the class of a tenant's marks."""
        return self._styles.get(tenant, "other")

    def keys(self, *, line: bool = False) -> tuple[Key, ...]:
        """Return the key of all tenants."""
        shown = [Key(style=self.of(name), name=name, line=line) for name in self.shown]
        if self.others and not line:
            shown.append(Key(style="other", name=f"{len(self.others)} others"))
        return tuple(shown)


def over_time(spans: Spans, styles: Styles) -> tuple[Figure, ...]:
    """Return the pictures that run along the time."""
    return (
        _in_use(spans, styles),
        _utilisation(spans),
        _shares(spans, styles),
        _jain(spans),
        _depth(spans, styles),
    )


def _in_use(spans: Spans, styles: Styles) -> Figure:
    layers = _layers(spans, styles, "use")
    budgets = [spans.level("budget", pool) for pool in spans.pools]
    total = _sum(budgets) if budgets else []
    top = ceiling(max([y for _, y in total] + [y for _, y in _sum([c.points for c in layers])]))
    svg = stacked(
        layers,
        top=top,
        label="Units in use over time by tenant, stacked, under the budget",
        ticks=spans.ticks(),
        lines=[Curve(style="ideal", points=total)] if total else [],
    )
    return Figure(
        id="use",
        title="Units in use by tenant",
        says="What each tenant's running jobs take of the capacity; the dashed line is the budget.",
        svg=svg,
        keys=(*styles.keys(), Key(style="ideal", name="budget", line=True)),
        table=_table("Units in use", layers, styles),
    )


def _depth(spans: Spans, styles: Styles) -> Figure:
    layers = _layers(spans, styles, "depth")
    top = ceiling(max(y for _, y in _sum([layer.points for layer in layers])))
    return Figure(
        id="depth",
        title="Jobs that wait, by tenant",
        says="The backlog over time: held and paused jobs are in it, deferred ones are not.",
        svg=stacked(
            layers, top=top, label="Waiting jobs over time by tenant, stacked", ticks=spans.ticks()
        ),
        keys=styles.keys(),
        table=_table("Waiting jobs", layers, styles),
    )


def _utilisation(spans: Spans) -> Figure:
    pools = spans.pools[:MOST_TENANTS]
    lines = [Curve(style=f"s{i}", points=spans.utilisation(pool)) for i, pool in enumerate(pools)]
    top = max([100.0] + [y for line in lines for _, y in line.points])
    return Figure(
        id="utilisation",
        title="Utilisation by pool, percent",
        says="How much of each pool's budget is in use. Above 100 the dial was turned down on work "
        "that runs.",
        svg=curves(
            lines,
            top=100.0 if top <= 100 + 1e-6 else ceiling(top),
            label="Share of the budget in use over time by pool",
            ticks=spans.ticks(),
        ),
        keys=[Key(style=f"s{i}", name=pool, line=True) for i, pool in enumerate(pools)],
        table=_rows("Utilisation, percent", pools, lines),
    )


def _shares(spans: Spans, styles: Styles) -> Figure:
    lines = [Curve(style=styles.of(name), points=spans.served(name)) for name in styles.shown]
    ideal = Curve(style="ideal", points=spans.ideal())
    top = ceiling(max(y for line in (*lines, ideal) for _, y in line.points))
    return Figure(
        id="shares",
        title="Served per weight",
        says="What each tenant has been served so far (in the policy's charge) divided by its "
        "weight. A tenant that always waits runs along the dashed line; one that had nothing to "
        "run falls behind it and is owed nothing for that. Classes come before shares: a tenant "
        "whose work stands in a lower class waits for the higher ones, whatever its weight.",
        svg=curves(
            [*lines, ideal],
            top=top,
            label="Charge served per weight over time by tenant, with the fair line",
            ticks=spans.ticks(),
        ),
        keys=(*styles.keys(line=True), Key(style="ideal", name="fair line", line=True)),
        table=_rows("Served per weight", [*styles.shown, "fair line"], [*lines, ideal]),
    )


def _jain(spans: Spans) -> Figure:
    points = spans.jain()
    line = Curve(style="s0", points=points)
    least = f" Its least was {min(y for _, y in points):.3f}." if points else ""
    return Figure(
        id="jain",
        title="Jain's index over time",
        says="How equal the charge served per weight was among tenants that waited all through a "
        "stretch of the run: 1 is equal. Short stretches hold few placements and swing more. No "
        f"line: fewer than two tenants waited.{least}",
        svg=curves([line], top=1.0, label="Jain's index over time", ticks=spans.ticks()),
        table=Table(
            caption="Jain's index",
            head=("Time", "Index"),
            rows=[(span(x * spans.length), f"{y:.3f}") for x, y in points],
        ),
    )


def _layers(spans: Spans, styles: Styles, kind: str) -> list[Curve]:
    layers = [Curve(style=styles.of(name), points=spans.level(kind, name)) for name in styles.shown]
    if styles.others:
        rest = _sum([spans.level(kind, name) for name in styles.others])
        layers.append(Curve(style="other", points=rest))
    return layers


def _sum(many: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Add curves that have the same places across."""
    return [
        (points[0][0], sum(max(0.0, y) for _, y in points)) for points in zip(*many, strict=True)
    ]


def _table(caption: str, layers: Sequence[Curve], styles: Styles) -> Table:
    names = [*styles.shown, *(["others"] if styles.others else [])]
    return _rows(caption, names, layers)


def _rows(caption: str, names: Sequence[str], lines: Sequence[Curve]) -> Table:
    """Some moments of each line, as shares of the run's time."""
    shown = [
        (
            f"{100 * lines[0].points[at][0]:.0f} %",
            *(number(round(line.points[at][1], 3)) for line in lines),
        )
        for at in _moments(len(lines[0].points) if lines else 0)
    ]
    return Table(caption=caption, head=("Part of the run", *names), rows=shown)


def _moments(count: int) -> list[int]:
    """Some evenly spread indexes, the last one in."""
    return sorted({(count - 1) * step // _ROWS for step in range(_ROWS + 1)} if count else set())
