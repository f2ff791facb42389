"""Estimates of a run, their score, and the quick ways to them."""

from math import exp

import pytest

from scheduling.core.policy.settings import Backfill
from scheduling.simulator import foresight
from scheduling.simulator.drift import Drift, Pace
from scheduling.simulator.fluid import Fluid
from scheduling.simulator.plans import Busy, Planned, start_in_order, start_with_backfill
from scheduling.simulator.runs import Estimate
from scheduling.simulator.scenario import Do
from scheduling.simulator.scoring import Errors, Ranges
from tests.scheduling.simulator.scenes import job, lever, played, policy, scene, told


def test_an_exact_estimate_comes_true_where_nothing_unforeseen_happens():
    jobs = [job(f"a{n}", duration=20, expected_s=20, cost=1 + n % 2) for n in range(8)]
    events, summary = played(scene(jobs, budget=3))
    finished = {name: at for at, name in told(events, "finished")}
    assert {
        name: eta for _, name, eta in told(events, "queued", "eta_s")
    }.items() <= finished.items()
    assert summary["eta"]["mean_error_s"] == 0.0
    assert summary["eta"]["naive_mean_error_s"] > 0.0
    assert summary["eta"]["count"] == 8


def test_a_quick_estimate_is_near_the_exact_one(monkeypatch):
    jobs = [job(f"{t}{n}", t, duration=20, expected_s=20) for n in range(10) for t in "ab"]
    exact = told(played(scene(jobs, budget=2))[0], "queued", "eta_s", "place")
    monkeypatch.setattr(foresight, "EXACT", 0)
    planned = told(played(scene(jobs, budget=2))[0], "queued", "eta_s", "place")
    assert planned == exact
    monkeypatch.setattr(foresight, "PLANNED", 0)
    monkeypatch.setattr(foresight, "FIRST_PLANNED", 0.0)
    fluid = told(played(scene(jobs, budget=2))[0], "queued", "eta_s", "place")
    assert [one[2] for one in fluid] == pytest.approx([one[2] for one in exact], abs=20.0)
    assert [one[3] for one in fluid] == pytest.approx([one[3] for one in exact], abs=1)


def test_jobs_that_stand_in_no_line_have_no_estimate():
    levers = (lever(0, Do.TENANT_HOLD, tenant="a"),)
    events, summary = played(scene([job("a1")], levers=levers, until=10))
    assert told(events, "queued", "eta_s", "place") == [(0.0, "a1", None, None)]
    assert summary["eta"] == {"count": 0, "by_workflow": {}}


def test_the_score_is_told_by_workflow():
    jobs = [job(f"a{n}", workflow="w", duration=30) for n in range(3)] + [job("b1", "b")]
    _, summary = played(scene(jobs))
    assert summary["eta"]["by_workflow"]["a/w"]["count"] == 3
    assert list(summary["eta"]["by_workflow"]) == ["a/w"]
    assert summary["eta"]["count"] == 4


def test_run_times_are_learnt_for_estimates_and_never_for_the_order():
    jobs = [job(f"a{n}", at=n * 100, duration=30, expected_s=60) for n in range(4)]
    events, _ = played(scene(jobs, policy=policy(backfill=Backfill.EASY)))
    assert [eta for _, _, eta in told(events, "admitted", "eta_s")] == [60.0, 30.0, 30.0, 30.0]
    assert {charge for _, _, charge in told(events, "placed", "charge")} == {1}


def test_a_plan_in_order_lets_nobody_pass():
    live = [Busy(2, 100.0, 100.0)]
    jobs = [Planned(3, 10.0, 10.0), Planned(1, 10.0, 10.0)]
    assert start_in_order(jobs, 3, now=0.0, live=live) == 110.0


@pytest.mark.parametrize(
    ("last", "start"),
    [
        (Planned(1, 90.0, 90.0), 5.0),  # ends before the head starts
        (Planned(1, 50.0, 150.0), 110.0),  # by expectation it does not
        (Planned(2, 50.0, 50.0), 110.0),  # too wide
    ],
)
def test_a_plan_with_backfill_lets_the_last_pass_by_the_easy_rule(last, start):
    live = [Busy(2, 100.0, 100.0)]
    jobs = [Planned(3, 10.0, 10.0), last]
    assert start_with_backfill(jobs, 3, now=5.0, live=live) == start


def test_a_plan_lets_a_job_take_what_the_head_leaves_over():
    live = [Busy(3, 100.0, 100.0)]
    jobs = [Planned(3, 10.0, 10.0), Planned(1, 500.0, 500.0), Planned(1, 500.0, 500.0)]
    assert start_with_backfill(jobs[:2], 5, now=0.0, live=live) == 0.0
    assert start_with_backfill(jobs, 5, now=0.0, live=live) == 0.0


def test_a_plan_has_no_start_for_what_never_fits():
    assert start_with_backfill([Planned(9, 1.0, 1.0)], 3, now=0.0, live=[]) is None


def test_a_fluid_gives_others_their_weight_of_work_before_a_tenants_last_job():
    fluid = Fluid()
    fluid.add("a", 1, 10, 100.0)
    fluid.add("b", 2, 50, 500.0)
    fluid.add("c", 1, 2, 20.0)
    jobs, work = fluid.ahead("a")
    assert work == pytest.approx(100 + 200 + 20)
    assert jobs == 10 + 20 + 2 - 1
    assert fluid.own("b") == 50


def test_a_fluid_grows_with_its_tenants():
    fluid = Fluid()
    for n in range(40):
        fluid.add(f"t{n}", 1, 1, 10.0)
    assert fluid.ahead("t39") == (39, pytest.approx(400.0))


def test_the_guess_that_erred_least_is_believed():
    drift = Drift()
    first = drift.guess(100.0, 300.0, 10.0, 0.0)
    assert first.best_s == 100.0
    for n in range(5):
        drift.learn(drift.guess(100.0, 300.0, 10.0, n), n + 300.0)
    assert drift.guess(100.0, 300.0, 10.0, 9.0).best_s == 300.0


def test_a_pace_is_told_when_enough_were_placed():
    pace = Pace()
    for at in range(0, 45, 5):
        pace.placed(float(at))
    assert pace.wait_s(4, 45.0) is None
    pace.placed(45.0)
    assert pace.wait_s(4, 50.0) == 4 * 5.0


def test_ranges_follow_the_recent_ratios_and_errors_add_up():
    ranges, errors = Ranges(), Errors()
    assert ranges.around(100.0) == (50.0, 200.0)
    told_once = Estimate(at=0.0, finish_s=100.0, low_s=50.0, high_s=150.0, naive_s=10.0)
    for n in range(99):
        ranges.add(told_once, 100.0 + n)
        errors.add(told_once, 100.0 + n)
    low, high = ranges.around(100.0)
    assert low == 100.0  # a range holds its estimate
    missed, moved = (
        48,
        0.003 * (48 - 9.9),
    )  # the high side is moved out by what it was missed too often
    assert missed == sum(100 + n > 150 for n in range(99))
    assert high == pytest.approx(189.0 * exp(moved), rel=1e-3)
    assert errors.told()["mean_error_s"] == errors.told()["bias_s"] * -1 == 49.0
    assert errors.told()["hit_rate"] == pytest.approx(51 / 99, abs=1e-6)
