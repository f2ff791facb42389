"""A trial's result as what its page shows: for all pools and each, tables of figures in pairs.

A bar is as long as its figure beside the largest of its column, in hundredths.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Told: TypeAlias = Mapping[str, Any]
Pair: TypeAlias = Sequence[Any]
SHOWN_MOST = 50
"""The tenants that a page shows; the API tells all."""
NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One figure in both runs: as text, and as bars of 0 to 100 (None: no bars)."""

    before: str
    after: str
    bars: tuple[float, float] | None = None

    @property
    def differs(self) -> bool:
        """Whether the two read differently."""
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of a name and cells, under heads."""

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """A job that moves: what it is and how, as text."""

    job: str
    of: str
    class_name: Cell
    place: Cell
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """All pools, or one: sentences, tables and lists of jobs."""

    title: str
    sentences: Sequence[str]
    tables: Sequence[Table]
    lists: Sequence[tuple[str, Sequence[Mover]]]


def sections_of(result: Told) -> list[Section]:
    """Return the sections of a result: one for all, then one a pool if there are several."""
    if not result.get("all"):
        return []
    pools = result["pools"]
    each = [_section(f"Pool {name}", told) for name, told in pools.items()]
    return [_section("All pools", result["all"]), *(each if len(each) > 1 else [])]


def _section(title: str, told: Told) -> Section:
    missed = told["deadlines_missed"]
    lists = [
        ("Jobs that move furthest", told["movers"]),
        ("Deadlines newly missed", missed["newly"]),
        ("Deadlines saved", missed["saved"]),
    ]
    return Section(
        title=title,
        sentences=list(_sentences(told)),
        tables=[_overall(told), *_groups(told)],
        lists=[(name, [_mover(one) for one in jobs]) for name, jobs in lists if jobs],
    )


def _sentences(told: Told) -> list[str]:
    moved, without = told["moved"], told["without_start"]
    earlier, later = moved["earlier"], moved["later"]
    said = [
        f"{told['jobs']:,} jobs wait. {earlier['jobs']:,} would start earlier, by "
        f"{duration(earlier['mean_s'])} on average; {later['jobs']:,} later, by "
        f"{duration(later['mean_s'])}; {moved['unmoved']:,} as before."
    ]
    if any(without):
        said.append(f"Without a start in sight: {without[0]:,} now, {without[1]:,} then.")
    if any(told["approximate"]):
        said.append("Starts behind the first thousands are approximate.")
    return said


def _overall(told: Told) -> Table:
    """The figures of the whole, one a row."""
    missed, fair = told["deadlines_missed"]["jobs"], told["fairness"]
    figures: list[tuple[str, Pair, Callable[[Any], str]]] = [
        ("Mean wait", told["mean_wait_s"], duration),
        ("95 % wait", told["p95_wait_s"], duration),
        ("Clear in", told["clear_s"], duration),
        ("Deadlines missed", missed, str),
        ("USD in the next hour", told["spend_per_hour"], str),
        ("Fairness (1 is even)", fair, _plain),
    ]
    rows = [(name, [_cell(pair, words, _most([pair]))]) for name, pair, words in figures]
    return Table(title="In all", heads=["Figure", "In force / tried"], rows=rows)


def _groups(told: Told) -> list[Table]:
    tenants, shown = told["tenants"], told["tenants"][:SHOWN_MOST]
    left = len(tenants) - len(shown) + told["tenants_left_out"]
    note = f"{left:,} tenants with fewer jobs are not shown; the API tells of them." if left else ""
    named = [(f"{one['tenant']} (weight {one['weight']})", one) for one in shown]
    classes = [(one["class"], one) for one in told["classes"]]
    window = f"Shares are those of the next {duration(told['window_s'])}."
    return [
        _table("Tenants", [*_COLUMNS, _CLEAR], named, f"{window} {note}".strip()),
        _table("Classes", _COLUMNS, classes, window),
    ]


def _table(
    title: str, columns: Sequence["_Column"], named: Sequence[tuple[str, Told]], note: str
) -> Table:
    most = [_most([one[key] for _, one in named]) for _, key, _, _ in columns]
    rows = [
        (
            name,
            [
                _cell(one[key], words, largest if has_bars else None)
                for (_, key, words, has_bars), largest in zip(columns, most, strict=True)
            ],
        )
        for name, one in named
    ]
    heads = ["Name", *(head for head, _, _, _ in columns)]
    return Table(title=title, heads=heads, rows=rows, note=note)


def _cell(pair: Pair, words: Callable[[Any], str], largest: float | None) -> Cell:
    before, after = (NONE if one is None else words(one) for one in pair)
    bars = None
    if largest:
        first, second = (100 * float(one or 0) / largest for one in pair)
        bars = round(first, 1), round(second, 1)
    return Cell(before=before, after=after, bars=bars)


def _most(pairs: Sequence[Pair]) -> float:
    return max((float(one or 0) for pair in pairs for one in pair), default=0.0)


def _mover(told: Told) -> Mover:
    seconds = told["by_s"]
    classes, places = told["class"], told["place"]
    return Mover(
        job=told["job"],
        of=f"{told['tenant']} / {told['workflow']}",
        class_name=Cell(before=classes[0], after=classes[1]),
        place=Cell(before=str(places[0]), after=str(places[1])),
        by=f"{duration(abs(seconds))} {'later' if seconds > 0 else 'earlier'}",
    )


def duration(seconds: float) -> str:
    """Return seconds in the two largest units that they fill."""
    whole = round(seconds)
    for size, unit, below, small in _UNITS:
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}{f' {rest} {small}' if rest else ''}"
    return f"{whole} s"


def _plain(value: float) -> str:
    return f"{value:.3f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
_Column: TypeAlias = tuple[str, str, Callable[[Any], str], bool]
"""A column's head, its figure, how that is said, and whether bars stand beside it."""
_COLUMNS: list[_Column] = [
    ("Waiting with a start", "waiting", str, False),
    ("Mean wait", "mean_wait_s", duration, True),
    ("95 % wait", "p95_wait_s", duration, False),
    ("Share of capacity", "cost_share", _percent, True),
    ("Share of charge", "charge_share", _percent, False),
    ("USD in the next hour", "spend_per_hour", str, False),
]
_CLEAR: _Column = ("Clear in", "clear_s", duration, True)
