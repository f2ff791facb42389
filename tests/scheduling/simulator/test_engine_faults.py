"""Failing tries, circuits, fallback, lost workers, preemption and reviews in a run."""

from decimal import Decimal

import pytest

from scheduling.core.breaker import BreakerSettings
from scheduling.core.policy.settings import Candidate, Fallback, OnLost, Preemption
from scheduling.core.retry import RetrySettings
from scheduling.simulator.scenario import BudgetRule, Do, ModelPrice, Prices, Tenant
from tests.scheduling.simulator.scenes import (
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

UNIT_PRICE = Prices(unit_second=Decimal("0.01"))


def models(name, *offered, slots=10):
    return station(name, slots, models=frozenset(offered))


def test_a_failed_try_is_retried_after_its_backoff_and_what_it_used_is_wasted():
    retry = policy(retry=RetrySettings(base_s=8.0))
    events, summary = played(
        scene([job("a1", duration=10, fails=1)], policy=retry, prices=UNIT_PRICE)
    )
    assert told(events, "retried", "reason") == [(10.0, "a1", "retry_wait")]
    until = facts(events, "retried")["not_before"]
    assert 14.0 <= until < 18.0
    assert told(events, "placed")[1][0] == pytest.approx(until, abs=1e-5)
    assert summary["cost"]["incurred"] == summary["cost"]["wasted"] == "0.1"


def test_the_last_try_fails_for_good():
    events, _ = played(scene([job("a1", duration=10, fails=9, max_attempts=2)]))
    assert len(told(events, "retried")) == 1
    assert [one[2:] for one in told(events, "failed", "reason", "class")] == [
        ("attempts_exhausted", "normal")
    ]
    assert facts(events, "failed")["tries"] == 2


def test_what_must_not_run_twice_is_not_retried():
    events, _ = played(scene([job("a1", duration=10, fails=1, idempotent=False)]))
    assert told(events, "failed", "reason") == [(10.0, "a1", "execution_error")]


def test_a_retry_that_could_not_end_before_its_deadline_is_not_made():
    events, _ = played(scene([job("a1", duration=10, expected_s=10, fails=1, deadline=15.0)]))
    assert told(events, "failed", "reason") == [(10.0, "a1", "deadline")]


def test_a_providers_retry_budget_holds_retries_back():
    tight = policy(retry=RetrySettings(base_s=1.0, budget_ratio=0.0, budget_floor=1))
    jobs = [job(f"a{n}", duration=10, fails=1) for n in range(2)]
    events, _ = played(scene(jobs, budget=2, policy=tight))
    again = [at for at, _ in told(events, "placed")[2:]]
    assert again[1] == pytest.approx(again[0] + 60.0, abs=1e-5)


def test_failures_in_a_row_open_a_circuit_and_a_probe_closes_it():
    cooled = policy(
        breaker=BreakerSettings(threshold=2, cooldown_s=30.0), retry=RetrySettings(base_s=1.0)
    )
    jobs = [job("a1", duration=10, fails=2), job("b1", "b", at=25, duration=10)]
    events, _ = played(scene(jobs, budget=2, policy=cooled))
    opened = next(one for one in events if one["event"] == "circuit_opened")
    assert opened["facts"] == {
        "executor": "x",
        "model": "",
        "until": pytest.approx(opened["t"] + 30.0),
    }
    assert told(events, "deferred", "reason") == [(25.0, "b1", "circuit_open")]
    until = opened["t"] + 30.0
    placed = told(events, "placed")
    probe, after = (at for at, _ in placed[-2:])
    assert [name for _, name in placed] == ["a1", "a1", "b1", "a1"]
    assert probe == pytest.approx(until, abs=1e-5)
    closed = next(one for one in events if one["event"] == "circuit_closed")
    assert closed["t"] == after == pytest.approx(until + 10.0, abs=1e-5)


def test_a_rate_limit_fails_the_last_call_and_rests_the_executor():
    jobs = [job("a1", duration=50), job("a2", at=5, duration=50), job("b1", "b", at=20, duration=5)]
    told_to_wait = (lever(10, Do.RATE_LIMITED, executor="x", value=100.0),)
    events, _ = played(scene(jobs, budget=3, levers=told_to_wait))
    assert told(events, "retried", "reason") == [(10.0, "a2", "retry_wait")]
    assert facts(events, "circuit_opened") == {"executor": "x", "model": "", "until": 110.0}
    assert facts(events, "retried")["not_before"] >= 110.0
    assert told(events, "finished")[0] == (50.0, "a1")
    assert facts(events, "deferred", "b1")["until"] == 110.0


def test_a_model_that_fails_is_replaced_by_the_first_that_may_stand_in():
    lists = (Fallback(model="m", candidates=(Candidate(model="no"), Candidate(model="m2"))),)
    stations = (models("x", "m"), models("y", "m2"))
    jobs = [job("a1", duration=10, fails=1, model="m")]
    events, _ = played(scene(jobs, policy=policy(fallback=lists), stations=stations))
    assert told(events, "requeued", "reason") == [(10.0, "a1", "fallback")]
    found = facts(events, "requeued")
    assert (found["model_from"], found["model_to"]) == ("m", "m2")
    assert found["passed"] == [{"model": "no", "reason": "no_executor"}]
    assert told(events, "placed", "executor") == [(0.0, "a1", "x"), (10.0, "a1", "y")]


def test_a_stand_in_that_the_budget_cannot_pay_is_passed_over():
    lists = (Fallback(model="m", candidates=(Candidate(model="dear"),)),)
    prices = Prices(
        models={"m": ModelPrice(input=Decimal(1)), "dear": ModelPrice(input=Decimal(9))}
    )
    rule = BudgetRule(dimension="spend", limit=Decimal(5))
    events, _ = played(
        scene(
            [job("a1", duration=10, fails=1, model="m", tokens_in=1_000_000)],
            policy=policy(fallback=lists),
            prices=prices,
            stations=(models("x", "m", "dear"),),
            tenants=(Tenant(name="a", budgets=(rule,)),),
        )
    )
    assert told(events, "requeued") == []
    assert len(told(events, "retried")) == 1
    assert told(events, "placed", "executor")[-1][2] == "x"


def test_a_queued_job_whose_circuits_are_open_looks_for_a_stand_in():
    lists = (Fallback(model="m", candidates=(Candidate(model="m2"),)),)
    stations = (models("x", "m", slots=1), models("y", "m2", slots=1))
    jobs = [job("run", duration=100, model="m"), job("waits", at=1, duration=10, model="m")]
    limited = (lever(5, Do.RATE_LIMITED, executor="x"),)
    events, _ = played(
        scene(jobs, budget=3, policy=policy(fallback=lists), stations=stations, levers=limited)
    )
    assert told(events, "requeued", "reason") == [
        (5.0, "run", "fallback"),
        (5.0, "waits", "fallback"),
    ]
    assert told(events, "placed", "executor")[1:] == [(5.0, "run", "y"), (105.0, "waits", "y")]


def test_an_executor_that_is_down_gets_nothing_and_what_runs_there_runs_on():
    jobs = [job("a1", duration=30), job("a2", at=1, duration=10)]
    levers = (lever(5, Do.EXECUTOR_DOWN, executor="x"), lever(50, Do.EXECUTOR_UP, executor="x"))
    events, _ = played(scene(jobs, levers=levers))
    assert told(events, "finished") == [(30.0, "a1"), (60.0, "a2")]
    assert [one["do"] for one in events if one["event"] == "policy"] == [
        "executor_down",
        "executor_up",
    ]


def test_a_lost_worker_takes_its_jobs_and_they_wait_again_by_the_policy():
    jobs = [job("a1", duration=30), job("a2", duration=30, idempotent=False)]
    lost = (lever(10, Do.WORKER_LOST, executor="x"),)
    events, summary = played(scene(jobs, budget=2, levers=lost, prices=UNIT_PRICE))
    assert told(events, "lost", "reason") == [
        (10.0, "a1", "worker_lost"),
        (10.0, "a2", "worker_lost"),
    ]
    assert told(events, "requeued", "reason") == [(10.0, "a1", "worker_lost")]
    assert told(events, "failed", "reason") == [(10.0, "a2", "worker_lost")]
    assert told(events, "finished") == [(40.0, "a1")]
    assert summary["cost"]["wasted"] == "0.2"


def test_a_policy_may_fail_all_lost_work():
    lost = (lever(10, Do.WORKER_LOST, job="a1"),)
    strict = policy(on_lost_idempotent=OnLost.FAIL)
    events, _ = played(scene([job("a1")], levers=lost, policy=strict))
    assert told(events, "failed", "reason") == [(10.0, "a1", "worker_lost")]


def test_a_checkpointing_job_makes_room_for_a_higher_class_and_loses_nothing():
    jobs = [
        job("low", duration=100, checkpoints=True),
        job("fire", "b", at=20, class_name="incident"),
    ]
    preempts = policy(preemption=Preemption(enabled=True, min_run_s=10.0))
    events, summary = played(scene(jobs, policy=preempts, prices=UNIT_PRICE))
    assert told(events, "preempted", "reason") == [(20.0, "low", "preempted")]
    found = facts(events, "preempted")
    assert (found["victim_of"], found["executor"], found["lost_s"]) == ("fire", "x", 0.0)
    assert told(events, "placed") == [(0.0, "low"), (20.0, "fire"), (80.0, "low")]
    assert told(events, "finished", "ran_s") == [(80.0, "fire", 60.0), (160.0, "low", 100.0)]
    assert summary["cost"]["wasted"] == "0"


def test_work_without_a_checkpoint_begins_anew_and_is_not_preempted_before_its_time():
    jobs = [job("low", duration=100), job("fire", "b", at=20, class_name="incident")]
    preempts = policy(preemption=Preemption(enabled=True, min_run_s=30.0))
    events, summary = played(scene(jobs, policy=preempts, prices=UNIT_PRICE))
    assert told(events, "placed") == [(0.0, "low"), (30.0, "fire"), (90.0, "low")]
    assert told(events, "finished")[-1] == (190.0, "low")
    assert summary["cost"]["wasted"] == "0.3"


@pytest.mark.parametrize("begin", [0.0, 0.1, 0.3, 0.7])
def test_work_is_preempted_as_its_least_run_is_over_wherever_that_is_rounded(begin):
    jobs = [
        job("low", at=begin, duration=1000, class_name="batch", checkpoints=True),
        job("high", at=begin + 5, duration=10, class_name="critical"),
    ]
    preempts = policy(preemption=Preemption(enabled=True, min_run_s=60.0))
    events, _ = played(scene(jobs, policy=preempts))
    assert told(events, "preempted") == [(round(begin + 60, 6), "low")]


def test_what_must_not_run_twice_is_never_preempted():
    jobs = [
        job("low", duration=100, idempotent=False),
        job("fire", "b", at=20, class_name="incident"),
    ]
    preempts = policy(preemption=Preemption(enabled=True, min_run_s=0.0))
    events, _ = played(scene(jobs, policy=preempts))
    assert told(events, "placed") == [(0.0, "low"), (100.0, "fire")]


def test_work_of_steps_yields_at_the_end_of_its_step():
    jobs = [job("flow", duration=100, steps=2), job("fire", "b", at=20, class_name="incident")]
    preempts = policy(preemption=Preemption(enabled=True, min_run_s=0.0))
    events, _ = played(scene(jobs, policy=preempts))
    assert told(events, "placed") == [(0.0, "flow"), (50.0, "fire"), (110.0, "flow")]
    assert told(events, "preempted") == []


def test_work_is_reviewed_when_a_reviewer_is_free():
    jobs = [job(name, duration=10, review_s=20.0) for name in ("a1", "a2")]
    events, _ = played(scene(jobs, budget=2, stations=(station(slots=2), reviewer())))
    assert told(events, "step_done", "reason") == [(10.0, "a1", "review"), (10.0, "a2", "review")]
    assert told(events, "reviewed", "reason") == [
        (30.0, "a1", "accepted"),
        (50.0, "a2", "accepted"),
    ]
    assert told(events, "finished", "ran_s", "waited_s") == [
        (30.0, "a1", 30.0, 0.0),
        (50.0, "a2", 30.0, 20.0),
    ]


def test_a_review_goes_on_while_all_units_are_taken():
    jobs = [job("a1", duration=10, review_s=20.0), job("b1", "b", at=1, duration=100)]
    events, _ = played(scene(jobs, stations=(station(slots=1), reviewer())))
    assert told(events, "reviewed") == [(30.0, "a1")]
    assert told(events, "finished")[-1] == (110.0, "b1")


def test_a_review_that_was_paused_tells_its_own_place():
    jobs = [
        job("a1", duration=10, review_s=10.0),
        job("b1", "b", duration=5, review_s=30.0),
    ]
    levers = (
        lever(1, Do.JOB_PRIORITISE, job="a1"),
        lever(12, Do.JOB_PAUSE, job="a1"),
        lever(13, Do.JOB_RESUME, job="a1"),
    )
    stations = (station(slots=2), reviewer())
    events, _ = played(scene(jobs, 2, stations=stations, levers=levers))
    assert told(events, "resumed", "place") == [(13.0, "a1", 1)]
    assert told(events, "reviewed") == [(35.0, "b1"), (45.0, "a1")]
