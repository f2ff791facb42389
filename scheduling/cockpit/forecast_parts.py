"""The parts of the forecast page: key figures, charts, rows, sentences, from what the caller is told.

A bar is as long as its figure beside the largest of its column, in hundredths.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from billing.services.overview import BudgetRow
from scheduling.cockpit.chart import TICK_HOURS, Chart, Value, slopes, steps
from scheduling.cockpit.figures import amount, moment, number, share, signed, span
from scheduling.core.eta.arrivals import HOUR_S
from scheduling.selectors.foresight.budgets import BudgetAhead
from scheduling.selectors.foresight.history import Runs
from scheduling.selectors.foresight.honesty import Honesty
from scheduling.selectors.foresight.outlook import GroupAhead, HourAhead, PoolAhead
from scheduling.selectors.foresight.told import Foretold

LONG = "more than a week"
WINDOWS = {"none": "in all", "hour": "hour", "day": "day", "week": "week", "month": "month"}
BASES = {
    "week": "the pattern of its week",
    "day": "the pattern of its day",
    "mean": "its mean an hour",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart with the sentence that says what it shows."""

    chart: Chart
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A range and a mark in it, in hundredths of the width."""

    start: float
    wide: float
    mark: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group: what is told of it, with bars of its arrivals and its run times (None: no run yet)."""

    row: GroupAhead
    tenant: str
    basis: str
    figures: Mapping[str, SafeString]
    comes: Bar
    takes: Bar | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """A score, with the lengths of our error and the naive formula's."""

    name: str
    tenant: str
    figures: Mapping[str, SafeString]
    ours: float
    naive: float


def shown(found: Foretold) -> dict[str, Any]:
    """Return the parts of the forecast, by the names that the page has for them."""
    ahead = found.ahead
    budgets = [_budget(one, found.name_of(one.row)) for one in found.budgets]
    return {
        "said": ahead.said,
        "jobs": number(ahead.jobs),
        "counted_at": moment(ahead.history_at),
        "tiles": _tiles(ahead),
        "arrivals": _arrivals(ahead.hours),
        "depth": _depth(ahead),
        "ticks": [
            moment(ahead.hours[0].starts_at + n * HOUR_S, "clock")
            for n in range(0, len(ahead.hours) + 1, TICK_HOURS)
        ],
        "hours": [_hour(one) for one in ahead.hours],
        "advice": list(_advice(found)),
        "groups": _groups(ahead.groups, found.tenants),
        "groups_left_out": ahead.groups_left_out,
        "ending": [one for one in budgets if one["ends"]],
        "lasting": [one for one in budgets if not one["ends"]],
        "budgets_left_out": found.budgets_left_out,
    }


def shown_scores(rows: Sequence[Honesty], tenants: Mapping[str, str]) -> list[ScoreRow]:
    """Return the scores: that of all first, then those of the workflows, the most scored first."""
    errors = [error for one in rows for error in (one.score.mean_error_s, one.naive_error_s)]
    longest = max(errors, default=0.0) or 1.0
    ranked = sorted(rows, key=lambda one: (one.workflow != "", -one.score.count, one.workflow))
    return [_score(one, tenants, longest) for one in ranked]


def _tiles(ahead: PoolAhead) -> list[tuple[str, SafeString, SafeString | str]]:
    """Return the key figures: a name, the figure, and what stands below it."""
    few, mean, many = ahead.clear_s
    between = format_html("80 % range: {} to {}", span(few, LONG), span(many, LONG))
    return [
        ("Waiting now", number(ahead.backlog), "jobs that could start"),
        ("All clear in, while more comes", span(mean, LONG), between),
        ("A run takes on average", span(ahead.run_s), "from dispatch to settlement"),
        ("Units for work", number(ahead.advice.units_now), "the pool's budget less its reserve"),
    ]


def _arrivals(hours: Sequence[HourAhead]) -> Picture:
    chart = steps(
        [Value(low=one.arrivals_low, mean=one.arrivals, high=one.arrivals_high) for one in hours]
    )
    most = max(hours, key=lambda one: one.arrivals)
    says = (
        f"Jobs that come in each of the next {len(hours)} hours: most in the hour from "
        f"{_clock(most)}, {_likely(most.arrivals, most.arrivals_low, most.arrivals_high)}."
    )
    return Picture(chart=chart, says=says)


def _depth(ahead: PoolAhead) -> Picture:
    hours = ahead.hours
    past = (ahead.at - hours[0].starts_at) / HOUR_S
    chart = slopes(
        (past, float(ahead.backlog)),
        [Value(low=one.depth_low, mean=one.depth, high=one.depth_high) for one in hours],
    )
    most = max(hours, key=lambda one: one.depth)
    says = (
        f"Jobs that wait, {ahead.backlog} now: most at the end of the hour from {_clock(most)}, "
        f"{_likely(most.depth, most.depth_low, most.depth_high)}."
    )
    return Picture(chart=chart, says=says)


def _likely(mean: float, low: float, high: float) -> str:
    return f"{mean:.1f}, with 80 % likelihood between {low:.1f} and {high:.1f}"


def _clock(hour: HourAhead) -> str:
    return f"{int(hour.starts_at % 86_400 // HOUR_S):02d}:00 UTC"


def _hour(one: HourAhead) -> dict[str, SafeString]:
    names = ("arrivals", "arrivals_low", "arrivals_high", "depth", "depth_low", "depth_high")
    told = {name: number(getattr(one, name)) for name in names}
    return told | {"at": moment(one.starts_at), "wait": span(one.wait_s, "without end")}


def _advice(found: Foretold) -> Iterable[SafeString]:
    """Tell the units for the target wait, then those for the outage."""
    advice, asked = found.ahead.advice, found.asked
    yield format_html(
        "For a mean wait of {} at most: {} as expected, {} if many jobs come. There are {} now.",
        span(asked.target_wait_s),
        _units(advice.units),
        _units(advice.units_high),
        number(advice.units_now),
    )
    kept = (
        format_html("a recovery reserve of {} more", number(advice.reserve))
        if advice.reserve
        else format_html("{} more: the pool has them", number(advice.reserve))
    )
    yield format_html(
        "To catch up within {} after an outage of {} at the busiest hour: {}, so {}.",
        span(asked.recover_s),
        span(asked.outage_s),
        _units(advice.units_recover),
        kept,
    )


def _units(units: int | None) -> SafeString:
    if units is None:
        return SafeString("no number of units would do")
    return format_html("{} unit{}", number(units), "" if units == 1 else "s")


def _groups(groups: Sequence[GroupAhead], tenants: Mapping[str, str]) -> list[GroupRow]:
    most = max((one.arrivals_high for one in groups), default=0.0)
    slowest = max((one.runs.p90_s for one in groups if one.runs), default=0.0)
    return [
        GroupRow(
            row=one,
            tenant=tenants.get(one.tenant, one.tenant),
            basis=BASES[one.basis],
            figures=_group(one),
            comes=_bar(one.arrivals_low, one.arrivals, one.arrivals_high, most),
            takes=_bar(one.runs.p10_s, one.runs.p50_s, one.runs.p90_s, slowest)
            if one.runs
            else None,
        )
        for one in groups
    ]


def _group(one: GroupAhead) -> dict[str, SafeString]:
    names = ("seen", "arrivals", "arrivals_low", "arrivals_high")
    told = {name: number(getattr(one, name)) for name in names}
    return told | (_runs(one.runs) if one.runs else {})


def _runs(runs: Runs) -> dict[str, SafeString]:
    spans = {name: span(getattr(runs, name)) for name in ("mean_s", "p10_s", "p50_s", "p90_s")}
    return spans | {"count": number(runs.count), "cost": number(runs.cost)}


def _bar(low: float, mark: float, high: float, largest: float) -> Bar:
    part = 100 / largest if largest > 0 else 0.0
    start, end = low * part, high * part
    return Bar(
        start=round(start, 1), wide=round(max(0.5, end - start), 1), mark=round(mark * part, 1)
    )


def _budget(one: BudgetAhead, name: str) -> dict[str, Any]:
    row = one.row
    return {
        "row": row,
        "of": _owner(row, name),
        "what": "US dollars" if row.dimension == "spend" else row.dimension.replace("_", " "),
        "window": WINDOWS.get(row.window, row.window),
        "left": amount(row.left),
        "per_hour": amount(one.per_hour),
        "ends": one.exhausted_at is not None,
        "ends_at": moment(one.exhausted_at),
        "window_end": moment(row.window_end),
    }


def _owner(row: BudgetRow, name: str) -> str:
    if row.scope == "tenant":
        return "the tenant"
    return f"{row.scope} {name}" if name else f"each {row.scope}"


def _score(one: Honesty, tenants: Mapping[str, str], longest: float) -> ScoreRow:
    score = one.score
    return ScoreRow(
        name=one.workflow or "All together",
        tenant=tenants.get(one.tenant, one.tenant),
        figures={
            "count": number(score.count),
            "error": span(score.mean_error_s),
            "bias": signed(score.bias_s),
            "hits": share(score.hit_rate),
            "naive": span(one.naive_error_s),
        },
        ours=round(100 * score.mean_error_s / longest, 1),
        naive=round(100 * one.naive_error_s / longest, 1),
    )
