"""When deferred jobs are judged anew, and that none of them is forgotten or asked for ever."""

from collections import Counter
from decimal import Decimal

from scheduling.core.policy.settings import Candidate, Fallback
from scheduling.simulator.scenario import BudgetRule, Do, ModelPrice, Prices, Tenant, WorkflowRule
from tests.scheduling.simulator.scenes import job, lever, played, policy, scene, station, told

HOUR = 3600.0


def with_budget(limit, window="hour", dimension="tokens"):
    rule = BudgetRule(dimension=dimension, limit=Decimal(limit), window=window)
    return {"tenants": (Tenant(name="a", budgets=(rule,)),)}


def test_a_run_ends_though_a_hold_that_nobody_releases_keeps_a_job_out():
    jobs = [job("a1", tokens_in=100), job("a2", at=1, tokens_in=100)]
    down = (lever(0, Do.EXECUTOR_DOWN, executor="x"),)
    events, summary = played(scene(jobs, levers=down, **with_budget(100)))
    assert told(events, "deferred") == [(1.0, "a2")]
    assert summary["counts"] == {"policy": 1, "queued": 1, "deferred": 1}


def test_what_a_step_has_spent_is_free_again_in_the_next_window():
    jobs = [
        job("a1", tokens_in=100, duration=20, steps=2),
        job("a2", at=1, tokens_in=50, duration=10),
    ]
    paused = (lever(5, Do.JOB_PAUSE, job="a1"),)
    events, _ = played(scene(jobs, levers=paused, **with_budget(100)))
    assert told(events, "placed") == [(0.0, "a1"), (HOUR, "a2")]


def test_a_stand_in_that_costs_less_lets_a_deferred_job_in():
    lists = (Fallback(model="m", candidates=(Candidate(model="m2"),)),)
    prices = Prices(models={"m": ModelPrice(input=Decimal(9)), "m2": ModelPrice(input=Decimal(1))})
    jobs = [
        job("run", "b", duration=100, model="m2"),
        job("a1", duration=10, model="m", tokens_in=1_000_000),
        job("a2", at=1, duration=10, model="m2", tokens_in=2_000_000),
    ]
    given = {
        "policy": policy(fallback=lists),
        "prices": prices,
        "stations": (station("x", models=frozenset({"m"})), station("y", models=frozenset({"m2"}))),
        "levers": (lever(5, Do.RATE_LIMITED, executor="x"),),
    }
    events, _ = played(scene(jobs, **given, **with_budget(10, "hour", "spend")))
    assert told(events, "deferred") == [(1.0, "a2")]  # 9 are held and 2 asked for
    assert told(events, "requeued", "reason") == [(5.0, "a1", "fallback")]  # for 1
    assert told(events, "queued") == [(0.0, "a1"), (5.0, "a2")]


def test_a_workflow_that_costs_less_is_judged_anew():
    prices = Prices(unit_second=Decimal(1))
    rules = (WorkflowRule(tenant="a", name="w", cost=2, expected_s=40.0),)
    jobs = [
        job("a1", cost=1, expected_s=60.0),
        job("a2", at=1, workflow="w", duration=40),
    ]
    levers = (
        lever(0, Do.EXECUTOR_DOWN, executor="x"),
        lever(7, Do.WORKFLOW_COST, tenant="a", workflow="w", value=1),
    )
    given = {"workflows": rules, "levers": levers, "prices": prices}
    events, _ = played(scene(jobs, 2, **given, **with_budget(100, "hour", "spend")))
    assert told(events, "deferred") == [(1.0, "a2")]  # 60 are held and 2 x 40 asked for
    assert told(events, "queued") == [(0.0, "a1"), (7.0, "a2")]  # 60 and 1 x 40 are 100


def test_all_jobs_return_when_their_circuit_may_be_tried():
    jobs = [job(f"a{n}", at=1, duration=1, model="m") for n in range(700)]
    limited = (lever(0, Do.RATE_LIMITED, executor="x", value=30.0),)
    stations = (station(slots=5, models=frozenset({"m"})),)
    _, summary = played(scene(jobs, 5, levers=limited, stations=stations))
    assert summary["counts"]["finished"] == 700
    assert summary["makespan_s"] == 171.0  # the probe from 30 to 31, then 699 in 140 fives


def test_jobs_of_a_closed_circuit_hide_none_of_another():
    jobs = [job(f"m{n}", at=1, duration=1, model="m") for n in range(250)]
    jobs.append(job("k", at=1, duration=1, model="k"))
    limited = (
        lever(0, Do.RATE_LIMITED, executor="x", value=2000.0),
        lever(0, Do.RATE_LIMITED, executor="y", value=30.0),
    )
    stations = (
        station("x", 5, models=frozenset({"m"})),
        station("y", 5, models=frozenset({"k"})),
    )
    events, _ = played(scene(jobs, 5, levers=limited, stations=stations))
    assert told(events, "placed")[0] == (30.0, "k")


def test_all_that_a_new_window_has_room_for_come_in_as_it_begins():
    jobs = [job("first", duration=1, tokens_in=500)]
    jobs += [job(f"a{n}", at=10, tokens_in=1) for n in range(500)]
    events, _ = played(scene(jobs, 500, **with_budget(500)))
    assert Counter(at for at, _ in told(events, "placed")) == {0.0: 1, HOUR: 500}


def test_after_many_refusals_in_a_row_the_rest_waits_for_the_next_change():
    jobs = [job("a", tokens_in=60), job("b", tokens_in=20), job("c", tokens_in=5)]
    jobs += [job(f"big{n}", at=1, tokens_in=60) for n in range(200)]
    jobs.append(job("small", at=2, tokens_in=30))
    stops = ((5, "b"), (6, "big0"), (7, "c"))
    levers = tuple(lever(at, Do.JOB_CANCEL, job=name) for at, name in stops)
    events, _ = played(scene(jobs, 3, levers=levers, until=10.0, **with_budget(100)))
    # Of 100, 65 are held from 5 on, but 200 refused ones stand before it; at 7 one less.
    assert told(events, "admitted")[3:] == [(7.0, "small")]


def test_a_job_canceled_with_the_one_it_comes_after_is_not_judged_again():
    jobs = [
        job("first", tokens_in=60),
        job("a1", tokens_in=60),
        job("a2", tokens_in=60, after=("a1",)),
    ]
    events, _ = played(scene(jobs, 2, **with_budget(100, "none")))
    assert told(events, "denied") == [(60.0, "a1")]
    assert told(events, "canceled", "reason") == [(60.0, "a2", "dependency")]


def test_a_release_that_an_arrival_brings_lets_a_deferred_job_in_at_once():
    jobs = [
        job("a1", tokens_in=100, after=("b1",)),
        job("a2", at=1, tokens_in=100, duration=5),
        job("b1", "b", at=10, cost=9),
    ]
    events, _ = played(scene(jobs, **with_budget(100)))
    assert told(events, "denied") == [(10.0, "b1")]
    assert told(events, "canceled") == [(10.0, "a1")]
    assert told(events, "placed") == [(10.0, "a2")]
