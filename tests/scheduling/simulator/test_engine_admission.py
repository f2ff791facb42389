"""Admission in a run: budgets, backlogs, shedding, deadlines, what is deferred and comes back."""

from dataclasses import replace
from decimal import Decimal

import pytest

from scheduling.core.policy.settings import DEFAULT_CLASSES
from scheduling.simulator.scenario import BudgetRule, Do, ModelPrice, Prices, Tenant
from tests.scheduling.simulator.scenes import (
    NO_CAPS,
    facts,
    job,
    lever,
    played,
    policy,
    reviewer,
    scene,
    station,
    told,
)

PRICES = Prices(
    models={"m": ModelPrice(input=Decimal(3), output=Decimal(15))},
    unit_second=Decimal("0.001"),
    review_hour=Decimal(60),
)


def with_budget(dimension, limit, window="none"):
    rule = BudgetRule(dimension=dimension, limit=Decimal(limit), window=window)
    return {"tenants": (Tenant(name="a", budgets=(rule,)),)}


def test_a_job_above_its_pools_units_is_denied():
    events, _ = played(scene([job("big", cost=3)], budget=2))
    assert told(events, "denied", "reason") == [(0.0, "big", "never_fits")]
    assert facts(events, "denied")["need"] == 3
    assert facts(events, "denied")["most"] == 2


def test_a_job_that_no_executor_can_run_is_denied():
    jobs = [job("a1", model="none"), job("a2", region="mars"), job("a3", review_s=10.0)]
    events, _ = played(scene(jobs))
    assert [one[2] for one in told(events, "denied", "reason")] == ["no_executor"] * 3


def test_a_reviewer_runs_no_work():
    events, _ = played(scene([job("a1")], stations=(reviewer(),)))
    assert told(events, "denied", "reason") == [(0.0, "a1", "no_executor")]


def test_a_model_without_a_price_is_refused_where_others_have_one():
    stations = (station(slots=1, models=frozenset({"m", "x"})),)
    jobs = [job("a1", model="x"), job("a2", model="m")]
    events, _ = played(scene(jobs, prices=PRICES, stations=stations))
    assert told(events, "denied", "reason") == [(0.0, "a1", "unpriced_model")]
    assert facts(events, "denied")["model"] == "x"
    assert told(events, "finished") == [(60.0, "a2")]


def test_a_tenants_backlog_cap_denies_what_comes_on_top():
    jobs = [job(f"a{n}") for n in range(4)]
    tenants = (Tenant(name="a", backlog_cap=3),)
    events, _ = played(scene(jobs, tenants=tenants))
    assert told(events, "denied", "reason") == [(0.0, "a3", "backlog_full")]
    wanted = {"scope": "tenant", "waiting": 3, "limit": 3}
    assert wanted.items() <= facts(events, "denied").items()


def test_sheddable_work_is_shed_first_and_its_cost_avoided():
    caps = policy(backlog=replace(NO_CAPS, total=4, shed_share=0.5))
    jobs = [job(f"a{n}", class_name="normal") for n in range(3)]
    jobs += [job("b", class_name="batch", expected_s=100.0), job("c", class_name="normal")]
    events, summary = played(scene(jobs, policy=caps, prices=PRICES))
    assert told(events, "shed", "reason") == [(0.0, "b", "shed")]
    assert {"scope": "all", "waiting": 3, "limit": 2}.items() <= facts(events, "shed").items()
    assert summary["cost"]["avoided"] == "0.1"
    assert told(events, "denied") == []


def test_a_class_quota_denies_more():
    classes = tuple(
        replace(one, quota=1) if one.name == "expedite" else one for one in DEFAULT_CLASSES
    )
    jobs = [
        job("a1", class_name="expedite"),
        job("a2", class_name="expedite", at=1),
        job("a3", class_name="expedite", at=61),
        job("a4", at=61),
        job("a5", class_name="expedite", at=125),
    ]
    raised = lever(70, Do.JOB_PRIORITISE, job="a4", value="expedite")
    events, _ = played(scene(jobs, policy=policy(classes=classes), levers=(raised,)))
    denied = told(events, "denied", "reason")
    assert denied == [(1.0, "a2", "class_quota"), (125.0, "a5", "class_quota")]


def test_a_budget_without_a_window_denies_what_it_cannot_ever_cover():
    jobs = [job(f"a{n}", tokens_in=60) for n in range(2)]
    events, _ = played(scene(jobs, budget=2, **with_budget("tokens", 100)))
    assert told(events, "deferred", "reason") == [(0.0, "a1", "budget")]
    assert told(events, "denied", "reason") == [(60.0, "a1", "budget")]
    wanted = {"dimension": "tokens", "limit": "100", "need": "60", "spent": "60", "held": "0"}
    assert wanted.items() <= facts(events, "denied").items()


def test_a_deferred_job_returns_when_a_release_makes_room():
    jobs = [job("a1", tokens_in=60), job("a2", tokens_in=60)]
    stop = (lever(10, Do.JOB_CANCEL, job="a1"),)
    events, _ = played(scene(jobs, budget=2, levers=stop, **with_budget("tokens", 100)))
    assert facts(events, "deferred")["held"] == "60"
    assert told(events, "admitted") == [(0.0, "a1"), (10.0, "a2")]
    assert told(events, "finished") == [(70.0, "a2")]


def test_a_deferred_job_returns_in_the_next_window():
    jobs = [job("a1", tokens_in=60, duration=10), job("a2", at=1, tokens_in=60, duration=10)]
    events, _ = played(scene(jobs, budget=2, **with_budget("tokens", 100, "hour")))
    assert told(events, "deferred", "reason") == [(1.0, "a2", "budget")]
    assert facts(events, "deferred")["until"] == 3600.0
    assert told(events, "finished", "waited_s") == [(10.0, "a1", 0.0), (3610.0, "a2", 3599.0)]


@pytest.mark.parametrize(
    ("dimension", "limit"),
    [("spend", "0.1"), ("attempts", "1"), ("wall_seconds", "100"), ("review_minutes", "15")],
)
def test_every_dimension_that_a_scenario_has_numbers_for_is_kept(dimension, limit):
    jobs = [job(f"a{n}", review_s=600.0, expected_s=60.0) for n in range(2)]
    prices = Prices(unit_second=Decimal("0.001"))
    stations = (station(slots=2), reviewer(slots=2))
    events, _ = played(
        scene(jobs, budget=2, prices=prices, stations=stations, **with_budget(dimension, limit))
    )
    assert told(events, "deferred", "reason") == [(0.0, "a1", "budget")]


def test_the_marks_of_a_budget_are_told_as_they_are_reached():
    jobs = [job(f"a{n}", at=n * 100, tokens_in=50) for n in range(2)]
    events, _ = played(scene(jobs, **with_budget("tokens", 100)))
    marks = [(one["t"], one["facts"]["mark"]) for one in events if one["event"] == "budget_crossed"]
    assert marks == [(60.0, 50), (160.0, 80), (160.0, 100)]


def test_a_deadline_that_has_passed_is_denied_and_one_that_passes_expires():
    jobs = [
        job("run"),
        job("late", at=5, deadline=4.0),
        job("waits", at=5, deadline=30.0),
        job("runs", "b", at=6, deadline=70.0),
    ]
    events, _ = played(scene(jobs))
    assert told(events, "denied", "reason") == [(5.0, "late", "deadline")]
    assert told(events, "expired", "reason") == [(30.0, "waits", "deadline")]
    assert facts(events, "expired") == {"deadline": 30.0}
    assert told(events, "finished")[-1] == (120.0, "runs")


def test_the_five_amounts_add_up():
    jobs = [job("a1", model="m", tokens_in=1_000_000, tokens_out=100_000, cost=2, review_s=1800.0)]
    stations = (station(slots=4, models=frozenset({"m"})), reviewer())
    _, summary = played(scene(jobs, budget=4, prices=PRICES, stations=stations))
    assert summary["cost"] == {
        "reserved": "0",
        "incurred": "34.62",  # 3 + 1.5 tokens, 0.12 capacity, 30 review
        "wasted": "0",
        "avoided": "0",
        "unallocated": "0.12",
    }


def test_what_is_held_at_the_end_of_a_run_is_reserved():
    prices = Prices(unit_second=Decimal("0.01"))
    _, summary = played(scene([job("a1"), job("a2")], prices=prices, until=0))
    assert summary["cost"]["reserved"] == "1.2"
