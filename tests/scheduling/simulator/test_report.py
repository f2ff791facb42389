"""The report: what it gathers from a log, what it says of it, and that it keeps to itself."""

import re

import pytest

from scheduling.core.types import Executor, Pool
from scheduling.simulator import decisions, watching
from scheduling.simulator.decisions import Decisions
from scheduling.simulator.report import Report
from scheduling.simulator.scenario import Do, Lever, Scenario, SimJob, Station, Tenant
from scheduling.simulator.spans import Spans
from scheduling.simulator.watching import Watch
from tests.scheduling.simulator.logs import Written, summary

SCENARIO = Scenario(
    name="two tenants",
    pools=(Pool(id="default", budget=2),),
    stations=(Station(executor=Executor(id="gpu-a", kinds=frozenset(), slots=2), pool="default"),),
    tenants=(Tenant(name="A"), Tenant(name="B", weight=2)),
)


def written(scenario: Scenario = SCENARIO) -> Written:
    return Written(Report(scenario))


class Watched(Written):
    """Tells events to a watch instead of a report."""

    def __init__(self, scenario: Scenario = SCENARIO) -> None:
        self.watch = Watch(scenario)
        super().__init__(self.watch)  # type: ignore[arg-type]

    def depth(self, tenant: str) -> float:
        return self.watch.grid.level(("depth", tenant))

    def use(self, tenant: str) -> float:
        return self.watch.grid.level(("use", tenant))


def test_depth_and_use_follow_a_job_through_its_life() -> None:
    log = Watched()
    log.queue(0, "A1", "A")
    assert (log.depth("A"), log.use("A")) == (1, 0)
    log.place(1, "A1", "A", cost=2)
    assert (log.depth("A"), log.use("A")) == (0, 2)
    log.tell(2, "preempted", job="A1", tenant="A", reason="preempted")
    log.tell(2, "requeued", job="A1", tenant="A", reason="preempted")
    assert (log.depth("A"), log.use("A")) == (1, 0)
    log.place(3, "A1", "A", cost=2)
    log.finish(4, "A1", "A")
    assert (log.depth("A"), log.use("A")) == (0, 0)


@pytest.mark.parametrize("end", ["failed", "canceled", "expired"])
def test_a_job_that_ends_while_it_waits_leaves_the_backlog(end: str) -> None:
    log = Watched()
    log.queue(0, "A1", "A")
    log.tell(1, end, job="A1", tenant="A", reason="canceled")
    assert log.depth("A") == 0


def test_a_deferred_job_is_not_in_the_backlog_until_it_is_let_in() -> None:
    log = Watched()
    log.tell(0, "deferred", job="A1", tenant="A", reason="budget")
    log.tell(0, "deferred", job="A2", tenant="A", reason="budget")
    assert log.depth("A") == 0
    log.queue(1, "A1", "A")
    assert log.depth("A") == 1
    log.tell(2, "canceled", job="A2", tenant="A", reason="canceled")
    assert log.depth("A") == 1


def test_a_job_that_was_refused_was_never_in_the_backlog() -> None:
    log = Watched()
    for event in ("denied", "shed"):
        log.tell(0, event, job="A1", tenant="A", reason=event)
    assert log.depth("A") == 0


def test_what_runs_at_the_end_is_drawn_to_the_end() -> None:
    log = Watched()
    log.queue(0, "A1", "A")
    log.place(1, "A1", "A")
    log.watch.close(5)
    (bar,) = log.watch.bars
    assert (bar.start, bar.end, bar.how) == (1, 5, "running")


def test_the_first_placements_of_a_long_run_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BARS", 2)
    log = Watched()
    for number in range(4):
        log.queue(number, f"A{number}", "A")
        log.place(number, f"A{number}", "A")
        log.finish(number + 1, f"A{number}", "A")
    assert [bar.job for bar in log.watch.bars] == ["A0", "A1"]
    assert (log.watch.placed, len(log.watch.waits["A", "normal"])) == (4, 4)


def test_two_tenants_served_by_weight_run_along_the_fair_line_with_an_index_of_one() -> None:
    log = Watched()
    for number in range(60):
        log.queue(0, f"J{number}", "AB"[number % 3 > 0])
    for number in range(30):
        log.place(number, f"J{number}", "AB"[number % 3 > 0])
        log.finish(number + 1, f"J{number}", "AB"[number % 3 > 0])
    log.watch.close(30)
    spans = Spans(log.watch)
    assert spans.served("A")[-1][1] == spans.served("B")[-1][1] == 10
    assert spans.ideal()[-1][1] == pytest.approx(10)
    assert all(index > 0.8 for _, index in spans.jain())


def test_a_tenant_that_has_nothing_to_run_is_owed_nothing_by_the_fair_line() -> None:
    log = Watched()
    log.queue(0, "A1", "A")
    log.place(1, "A1", "A")
    log.watch.close(2)
    assert Spans(log.watch).ideal()[-1][1] == 1
    assert Spans(log.watch).jain() == []


def test_utilisation_is_measured_against_the_dial_as_it_stood() -> None:
    dial = Lever(at=5.0, do=Do.POOL_BUDGET, pool="default", value=1)
    log = Watched(Scenario(pools=SCENARIO.pools, stations=SCENARIO.stations, levers=(dial,)))
    log.queue(0, "A1", "A")
    log.place(0, "A1", "A")
    log.finish(10, "A1", "A")
    log.watch.close(10)
    shares = [share for _, share in Spans(log.watch).utilisation("default")]
    assert (shares[0], shares[-1]) == (pytest.approx(50), pytest.approx(100))


def test_a_weight_of_zero_is_a_hold_and_keeps_the_weight() -> None:
    levers = (
        Lever(at=1.0, do=Do.TENANT_WEIGHT, tenant="B", value=0),
        Lever(at=2.0, do=Do.TENANT_WEIGHT, tenant="B", value=4),
    )
    log = Watched(Scenario(tenants=SCENARIO.tenants, levers=levers))
    seen = []
    for t in (0.5, 1.5, 2.5):
        log.queue(t, f"B{t}", "B")
        seen.append(log.watch.grid.level(("weight", "B")))
    assert seen == [2, 2, 4]


def test_the_log_keeps_the_first_decisions_and_the_first_of_every_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decisions, "KEPT", 5)
    monkeypatch.setattr(decisions, "KEPT_OF_EACH", 2)
    log = Decisions()
    for seq in range(20):
        log.take({"seq": seq, "t": 1.0, "event": "queued", "job": "J", "reason": "in_order"})
    for seq in range(20, 24):
        log.take({"seq": seq, "t": 2.0, "event": "shed", "job": "J", "reason": "shed"})
    log.take({"seq": 24, "t": 3.0, "event": "placed", "job": "J", "reason": "placed"})
    log.take({"seq": 25, "t": 3.0, "event": "placed", "job": "J", "reason": "backfilled"})
    assert [line.seq for line in log.lines()] == [0, 1, 2, 3, 4, 20, 21, 25]
    assert log.total == 25
    assert log.counts["queued", "in_order"] == 20


def test_every_figure_of_a_run_is_in_the_report_and_names_are_escaped() -> None:
    log = written()
    job = "<script>alert(1)</script>"
    log.queue(0, job, 'B"><b>', facts={"head": "<img src=x>"})
    log.place(1, job, 'B"><b>')
    log.finish(2, job, 'B"><b>', waited_s=1.0, wasted="0.25")
    eta = {
        "count": 1, "mean_error_s": 2.0, "bias_s": -1.0, "hit_rate": 1.0,
        "naive_mean_error_s": 4.0, "by_workflow": {"coding": {"count": 1, "mean_error_s": 2.0}},
    }  # fmt: skip
    row = {"jobs": 1, "done": 1, "mean_wait_s": 1.0, "p95_wait_s": None}
    page = log.report.html(
        summary(tenants={"A": row}, eta=eta, cost={"incurred": "0.5", "wasted": "0.25"})
    )
    for name in ("lanes", "use", "utilisation", "shares", "jain", "depth", "waits", "costs", "eta"):
        assert f'id="h-{name}"' in page
    assert "<script" not in page
    assert "<img" not in page
    assert "<b>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; of B&quot;&gt;&lt;b&gt; waits." in page
    assert "0.25" in page


def test_the_report_asks_for_nothing_outside_itself() -> None:
    log = written()
    log.queue(0, "A1", "A")
    page = log.report.html(summary())
    addresses = re.findall(r"""(?:src|href)=|url\(([^)]*)\)|@import|https?:""", page)
    assert addresses
    assert all(address.startswith("#") for address in addresses)


def test_an_empty_run_has_a_report() -> None:
    page = written(Scenario()).report.html(summary(makespan_s=0.0))
    assert "Nothing had to wait" in page


def test_the_naive_rules_are_drawn_where_the_scenario_asks_for_it() -> None:
    jobs = [SimJob(id=f"A{n}", tenant="A") for n in range(3)]
    scenario = Scenario(
        pools=SCENARIO.pools, tenants=SCENARIO.tenants, arrivals=lambda: iter(jobs), compare="naive"
    )
    log = written(scenario)
    log.queue(0, "A0", "A")
    log.place(0, "A0", "A")
    page = log.report.html(summary())
    for rule in ("First in line: A 3", "Proportional rounding", "Stateless interleave", "this run"):
        assert rule in page


def test_many_tenants_share_the_last_style() -> None:
    log = written(Scenario(pools=SCENARIO.pools))
    for number in range(30):
        log.queue(number, f"J{number}", f"tenant {number}")
        log.place(number, f"J{number}", f"tenant {number}")
        log.finish(number + 2, f"J{number}", f"tenant {number}")
    assert "23 others" in log.report.html(summary())
