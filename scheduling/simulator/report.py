"""The report of a run: one HTML file with pictures and words that needs nothing beside it.

It has no script and no address of anything outside; it follows the reader's light or dark theme.
Events are taken one by one while the run is played, so a million jobs need little memory.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.template import Context, Engine
from django.utils.safestring import SafeString, mark_safe

from scheduling.simulator import figures, tallies
from scheduling.simulator.decisions import Decisions
from scheduling.simulator.figures import MOST_ROWS, Figure, Styles, Table, cut
from scheduling.simulator.scenario import Scenario
from scheduling.simulator.sentences import Event, span
from scheduling.simulator.spans import Spans
from scheduling.simulator.svg import number
from scheduling.simulator.watching import Watch

_TEMPLATES = Path(__file__).parent / "templates"
_TOKENS = Path(__file__).parents[2] / "static/css/tokens.css"


class Report:
    """Gathers a run's events; `html` draws them once it is over."""

    def __init__(self, scenario: Scenario) -> None:
        """Begin the report of a run of `scenario`."""
        self._scenario = scenario
        self._watch = Watch(scenario)
        self._decisions = Decisions()

    def take(self, event: Event) -> None:
        """Take the next event of the log; the summary line is left to `html`."""
        if event["event"] == "summary":
            return
        self._watch.take(event)
        self._decisions.take(event)

    def html(self, summary: Mapping[str, Any]) -> str:
        """Return the report as a whole page; call it once, after the last event."""
        self._watch.close(float(summary.get("makespan_s") or 0))
        spans = Spans(self._watch)
        styles = Styles(spans.tenants)
        page = {
            "name": self._scenario.name,
            "style": _style(),
            "headlines": _headlines(summary),
            "figures": self._figures(summary, spans, styles),
            "tables": _tables(summary),
            "counts": self._counts(),
            "lines": self._decisions.lines(),
            "left_out": self._left_out(),
            "patterns": [str(index) for index in range(figures.MOST_TENANTS)],
        }
        engine = Engine(dirs=[str(_TEMPLATES)])
        return engine.get_template("report.html").render(Context(page, use_tz=False))

    def _figures(
        self, summary: Mapping[str, Any], spans: Spans, styles: Styles
    ) -> list[Figure | None]:
        drawn: list[Figure | None] = []
        if self._scenario.compare == "naive":
            drawn.append(tallies.beside_naive(self._scenario, self._watch, styles))
        if self._watch.bars:
            drawn.append(tallies.lanes(self._watch, spans, styles))
        if spans.tenants:
            drawn.extend(figures.over_time(spans, styles))
        if self._watch.waits:
            drawn.append(tallies.waits(self._watch, styles))
        drawn += [tallies.costs(self._watch, summary), tallies.honesty(summary)]
        return [one for one in drawn if one is not None]

    def _counts(self) -> Table:
        return Table(
            caption="Decisions by kind and reason",
            head=("Event", "Reason", "Count"),
            rows=[
                (event, reason or "none", f"{many:,}")
                for (event, reason), many in sorted(self._decisions.counts.items())
            ],
        )

    def _left_out(self) -> str:
        left = self._decisions.total - len(self._decisions.lines())
        return f"{left:,}" if left else ""


def _style() -> SafeString:
    """The colours of the boards and the report's own rules; the font is the reader's own."""
    tokens = re.sub(r"@font-face\s*{[^}]*}|@layer [^{;]*;", "", _TOKENS.read_text())
    return mark_safe(tokens + (_TEMPLATES / "report.css").read_text())  # noqa: S308 - own files


def _headlines(summary: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(name, value, note) of the key figures."""
    rows = summary.get("tenants", {}).values()
    jobs, done = (sum(row.get(key, 0) for row in rows) for key in ("jobs", "done"))
    eta, cost = summary.get("eta") or {}, summary.get("cost") or {}
    hits = eta.get("hit_rate")
    return [
        ("Jobs done", f"{done:,}", f"of {jobs:,}"),
        ("Makespan", span(summary.get("makespan_s") or 0), "to the last end"),
        ("Utilisation", _percent(summary.get("utilisation")), "of the budget"),
        ("Jain's index", _figure(summary.get("jain")), "1 is equal per weight"),
        (
            "Bounded slowdown",
            _figure(summary.get("mean_bounded_slowdown")),
            f"at most {_figure(summary.get('max_bounded_slowdown'))}",
        ),
        ("Incurred, USD", _dollars(cost.get("incurred")), f"{_dollars(cost.get('wasted'))} wasted"),
        (
            "ETA error",
            span(eta["mean_error_s"]) if eta.get("mean_error_s") is not None else "none",
            f"{_percent(hits)} within the range" if hits is not None else "no ETA came true",
        ),
    ]


def _figure(value: float | None) -> str:
    return "none" if value is None else number(round(value, 4))


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"


def _dollars(amount: str | None) -> str:
    return f"{float(amount or 0):,.2f}"


_COLUMNS = (
    ("jobs", "Jobs", number),
    ("done", "Done", number),
    ("mean_wait_s", "Mean wait", span),
    ("p95_wait_s", "95th percentile", span),
    ("served", "Served", number),
    ("share", "Share", _percent),
    ("share_per_weight", "Share per weight", _figure),
)


def _tables(summary: Mapping[str, Any]) -> list[Table]:
    """The fairness analysis in numbers: by tenant, class and workflow."""
    parts = (("tenants", "Tenant"), ("classes", "Class"), ("workflows", "Workflow"))
    return [_by(name, summary[part]) for part, name in parts if summary.get(part)]


def _by(name: str, rows: Mapping[str, Mapping[str, Any]]) -> Table:
    first = next(iter(rows.values()))
    shown = [column for column in _COLUMNS if column[0] in first]
    caption = cut(f"By {name.lower()}", len(rows))
    return Table(
        caption=caption,
        head=(name, *(title for _, title, _ in shown)),
        rows=[
            (key or "none", *(_cell(write, row.get(column)) for column, _, write in shown))
            for key, row in list(rows.items())[:MOST_ROWS]
        ],
    )


def _cell(write: Any, value: float | None) -> str:  # noqa: ANN401 - any writer of a number
    return "none" if value is None else str(write(value))
