"""The pictures of a report that have no time axis or one of their own: lanes, waits, costs, ETAs."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from scheduling.simulator.figures import MOST_ROWS, Figure, Key, Styles, Table, cut
from scheduling.simulator.naive import RULES, placements
from scheduling.simulator.scenario import Scenario
from scheduling.simulator.sentences import clock, span
from scheduling.simulator.spans import Spans
from scheduling.simulator.svg import Block, Box, Row, boxes, ceiling, strips
from scheduling.simulator.watching import AMOUNTS, BARS, FIRST_PLACED, Bar, Watch

_MOST_LANES = 120
_MOST_BOXES = 24


def lanes(watch: Watch, spans: Spans, styles: Styles) -> Figure:
    """Draw who held which executor when; of a long run its first placements."""
    whole = watch.placed <= BARS
    bars = sorted(watch.bars, key=lambda bar: (bar.start, bar.job))
    length = spans.length if whole else max(bar.start for bar in bars) or 1.0
    rows: list[Row] = []
    drawn, left_out = 0, ""
    for name in sorted({bar.executor for bar in bars}):
        slots = _slots([bar for bar in bars if bar.executor == name])
        if drawn + len(slots) > _MOST_LANES and rows:
            left_out = f" Executors from {name} on have no room here."
            break
        drawn += len(slots)
        rows.append(_lane(name, slots, length, styles))
    part = "" if whole else f" Only the first {BARS:,} of {watch.placed:,} placements are drawn."
    ticks = spans.ticks() if whole else [(0.0, "0"), (1.0, span(length))]
    return Figure(
        id="lanes",
        title="Who ran where and when",
        says="A bar is a stay of a job on an executor; a dashed edge says that it ended without "
        f"finishing (it gave way, failed, was lost or canceled).{part}{left_out}",
        svg=strips(rows, label="Jobs on executors over time", ticks=ticks),
        keys=styles.keys(),
        table=Table(
            caption="Stays on executors" + ("" if len(bars) <= 100 else " (the first 100)"),
            head=("Job", "Tenant", "Executor", "From", "To", "Ended as"),
            rows=[
                (bar.job, bar.tenant, bar.executor, clock(bar.start), clock(bar.end), bar.how)
                for bar in bars[:100]
            ],
        ),
    )


def _slots(bars: Sequence[Bar]) -> list[list[Bar]]:
    """Put bars that overlap one under the other, each in the first row that is free."""
    slots: list[list[Bar]] = []
    for bar in bars:
        free = next((slot for slot in slots if slot[-1].end <= bar.start), None)
        if free is None:
            slots.append([bar])
        else:
            free.append(bar)
    return slots


def _lane(name: str, slots: Sequence[Sequence[Bar]], length: float, styles: Styles) -> Row:
    px = 14 if len(slots) <= 16 else 5
    return Row(
        name=name, px=px, lanes=[[_stay(bar, length, styles, px) for bar in slot] for slot in slots]
    )


def _stay(bar: Bar, length: float, styles: Styles, px: int) -> Block:
    left = 100 * bar.start / length
    width = min(100 - left, 100 * (bar.end - bar.start) / length)
    cut = "" if bar.how in {"finished", "step_done", "running"} else " cut"
    return Block(
        style=styles.of(bar.tenant) + cut,
        left=left,
        width=width,
        text=bar.job if px > 8 and width > 0.62 * len(bar.job) + 0.5 else "",
        title=f"{bar.job} of {bar.tenant}: {clock(bar.start)} to {clock(bar.end)}, {bar.how}",
    )


def waits(watch: Watch, styles: Styles) -> Figure:
    """Draw the waits of the ended jobs of each tenant and class."""
    rows = []
    for (tenant, class_name), values in sorted(watch.waits.items()):
        ordered = sorted(values)
        rows.append((
            Box(
                style=styles.of(tenant),
                name=f"{tenant}, {class_name or 'no class'} ({len(ordered):,} jobs)",
                low=_quantile(ordered, 0.05),
                q1=_quantile(ordered, 0.25),
                middle=_quantile(ordered, 0.5),
                q3=_quantile(ordered, 0.75),
                high=_quantile(ordered, 0.95),
                mean=sum(ordered) / len(ordered),
            ),
            tenant,
            class_name,
            len(ordered),
        ))  # fmt: skip
    drawn = [row[0] for row in rows[:_MOST_BOXES]]
    top = ceiling(max([box.high for box in drawn] + [box.mean for box in drawn], default=1.0))
    return Figure(
        id="waits",
        title="Waits by tenant and class",
        says="The line runs from the 5th to the 95th percentile, the box holds the middle half, "
        "the bar in it is the median, the dot the mean."
        + (f" The first {_MOST_BOXES} of {len(rows):,}." if len(rows) > _MOST_BOXES else ""),
        svg=boxes(
            drawn,
            top=top,
            label="Waiting times by tenant and class",
            ticks=[(part / 4, span(top * part / 4) if part else "0") for part in range(5)],
        ),
        table=Table(
            caption=cut("Waits", len(rows)),
            head=("Tenant", "Class", "Jobs", "Mean", "Median", "95th percentile"),
            rows=[
                (tenant, name, f"{many:,}", span(box.mean), span(box.middle), span(box.high))
                for box, tenant, name, many in rows[:MOST_ROWS]
            ],
        ),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank quantile: a value that was measured."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def costs(watch: Watch, summary: Mapping[str, Any]) -> Figure:
    """Draw the five amounts of money, in all and by tenant."""
    whole = {kind: Decimal(summary.get("cost", {}).get(kind) or 0) for kind in AMOUNTS}
    by_tenant = sorted(watch.money.items())
    largest = max(whole.values()) or Decimal(1)
    rows = [
        Row(
            name=f"{kind}: {_money(amount)} USD",
            lanes=[[Block(style=f"k{index}", left=0, width=float(100 * amount / largest))]],
        )
        for index, (kind, amount) in enumerate(whole.items())
    ]
    return Figure(
        id="costs",
        title="Costs by amount",
        says="Reserved is what jobs that have not ended hold, incurred what all work cost, wasted "
        "the part of it that failed, was lost or gave way, avoided what was turned away before it "
        "cost anything, unallocated the capacity that stood idle.",
        svg=strips(rows, label="Costs by amount in USD"),
        table=Table(
            caption=cut("Costs by tenant, USD", len(by_tenant)),
            head=("Tenant", *AMOUNTS),
            rows=[
                *(
                    (name, *(_money(sums.get(kind, Decimal(0))) for kind in AMOUNTS))
                    for name, sums in by_tenant[:MOST_ROWS]
                ),
                ("all", *(_money(amount) for amount in whole.values())),
            ],
        ),
    )


def _money(amount: Decimal) -> str:
    return f"{amount:,.4f}".rstrip("0").rstrip(".") if amount else "0"


def honesty(summary: Mapping[str, Any]) -> Figure | None:
    """Draw the mean error of the ETAs beside that of the naive formula; None without an ETA."""
    eta = summary.get("eta") or {}
    if not eta.get("count"):
        return None
    ours, naive = float(eta["mean_error_s"]), float(eta.get("naive_mean_error_s") or 0)
    largest = max(ours, naive) or 1.0
    rows = [
        Row(name=f"{name}: {span(error)}", lanes=[[Block(style=style, left=0, width=100 * error / largest)]])
        for name, error, style in (("Fast-forward of the order", ours, "k1"), ("Naive", naive, "k4"))
    ]  # fmt: skip
    by_workflow = sorted((eta.get("by_workflow") or {}).items())
    scores = [("all", eta), *by_workflow[:MOST_ROWS]]
    return Figure(
        id="eta",
        title="Were the ETAs honest?",
        says="The mean error of the first ETA of each job, beside the formula waiting jobs x "
        "average time / capacity. The hit rate is how often what came true lay within the 80 % "
        "range; a bias above 0 says that jobs ended later than they were told.",
        svg=strips(rows, label="Mean error of ETAs and of the naive formula"),
        table=Table(
            caption=cut("ETAs by workflow", len(by_workflow)),
            head=("Workflow", "ETAs", "Mean error", "Bias", "Within the 80 % range", "Naive error"),
            rows=[(name or "none", *_score(score)) for name, score in scores],
        ),
    )


def _score(score: Mapping[str, Any]) -> tuple[str, ...]:
    bias, hits = score.get("bias_s"), score.get("hit_rate")
    return (
        f"{score.get('count', 0):,}",
        _span_or_none(score.get("mean_error_s")),
        "none" if bias is None else ("-" if bias < 0 else "") + span(abs(bias)),
        "none" if hits is None else f"{100 * hits:.1f} %",
        _span_or_none(score.get("naive_mean_error_s")),
    )


def _span_or_none(seconds: float | None) -> str:
    return "none" if seconds is None else span(seconds)


def beside_naive(scenario: Scenario, watch: Watch, styles: Styles) -> Figure:
    """Draw whom each naive rule places first, beside whom the fair order does."""
    runs = {name: placements(scenario, rule, most=FIRST_PLACED) for name, rule in RULES.items()}
    runs["Fair order with memory (this run)"] = watch.first_placed
    tenants = sorted({name for run in runs.values() for name in run} | {*styles.shown})
    return Figure(
        id="naive",
        title=f"The first {FIRST_PLACED} placements under naive rules and ours",
        says="Each cell is one placement, from left to right. First in line serves whoever has the "
        "most waiting; in proportional rounding the small tenant's part of the free slots rounds "
        "to 0; a stateless interleave forgets whom it served last. The fair order remembers.",
        svg=strips(
            [_run(name, run, tenants, styles) for name, run in runs.items()],
            label="Whose jobs the first placements are, by rule",
        ),
        keys=[Key(style=styles.of(name), name=name) for name in tenants],
        table=Table(
            caption=f"Placements among the first {FIRST_PLACED}",
            head=("Rule", *tenants),
            rows=[
                (name, *(f"{run.count(tenant):,}" for tenant in tenants))
                for name, run in runs.items()
            ],
        ),
    )


def _run(name: str, run: Sequence[str], tenants: Sequence[str], styles: Styles) -> Row:
    counts = ", ".join(f"{tenant} {run.count(tenant)}" for tenant in tenants)
    cell = 100 / max(1, len(run))
    blocks = [
        Block(style=f"{styles.of(tenant)} cell", left=index * cell, width=cell * 0.9)
        for index, tenant in enumerate(run)
    ]
    return Row(name=f"{name}: {counts}", lanes=[blocks], px=22)
