"""Arrivals, placements and ends: who runs when, by hand-computed times."""

import pytest

from scheduling.core.policy.settings import Backfill, ShareBy
from scheduling.core.types import ClassRule, Pool
from scheduling.simulator.scenario import Do, Tenant, WorkflowRule
from tests.scheduling.simulator.scenes import (
    facts,
    job,
    lever,
    played,
    policy,
    scene,
    station,
    told,
)


def test_jobs_of_one_tenant_run_one_after_another():
    events, summary = played(scene([job("a1", duration=10), job("a2", at=1, duration=5)]))
    assert told(events, "placed") == [(0.0, "a1"), (10.0, "a2")]
    assert told(events, "finished", "waited_s", "ran_s") == [
        (10.0, "a1", 0.0, 10.0),
        (15.0, "a2", 9.0, 5.0),
    ]
    assert summary["makespan_s"] == 15.0
    assert summary["utilisation"] == 1.0
    assert summary["tenants"]["a"]["mean_wait_s"] == 4.5
    assert summary["counts"] == {
        "admitted": 1, "queued": 1, "placed": 2, "started": 2, "finished": 2,
    }  # fmt: skip


def test_an_event_has_the_keys_of_the_contract():
    events, _ = played(scene([job("a1"), job("a2")]))
    assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
    assert events[0] == {
        "seq": 1, "t": 0.0, "event": "admitted", "job": "a1", "tenant": "a",
        "reason": "starts_now", "policy": 1, "place": 1, "eta_s": 60.0,
        "facts": {"need": 1, "free": 1},
    }  # fmt: skip
    assert events[1]["event"] == "queued"
    assert (events[1]["place"], events[1]["eta_s"]) == (2, 120.0)
    placed = next(one for one in events if one["event"] == "placed")
    assert placed == {
        "seq": 3, "t": 0.0, "event": "placed", "job": "a1", "tenant": "a", "reason": "placed",
        "policy": 1, "executor": "x", "turn": 0, "class": "normal", "cost": 1, "charge": 1,
        "free_before": 1, "free_after": 0,
    }  # fmt: skip


def test_the_seven_charts_come_in_their_order():
    charts = [("A", "1"), ("B", "1"), ("C", "2"), ("D", "1"), ("E", "2"), ("F", "3"), ("G", "1")]
    waiting = [job(name, tenant, at=at) for at, (name, tenant) in enumerate(charts, start=1)]
    weights = (Tenant(name="x"), Tenant(name="1", weight=2), Tenant(name="2"), Tenant(name="3"))
    turns = policy(share_by=ShareBy.TURNS)
    events, _ = played(
        scene([job("first", "x", duration=100), *waiting], tenants=weights, policy=turns)
    )
    assert "".join(name for _, name in told(events, "placed")[1:]) == "ABCFDEG"


def test_a_thousand_older_jobs_do_not_starve_a_hundred_newer():
    jobs = [job(f"a{n}", "a") for n in range(1000)] + [job(f"b{n}", "b", at=1) for n in range(100)]
    events, summary = played(scene(jobs))
    first = [name for _, name in told(events, "placed")[:200]]
    assert sum(name.startswith("b") for name in first) == pytest.approx(100, abs=1)
    assert summary["jain"] > 0.999


def test_ends_of_an_instant_come_before_its_arrivals():
    events, _ = played(scene([job("a1", duration=10), job("b1", "b", at=10)]))
    assert [one["event"] for one in events if one["t"] == 10.0] == [
        "finished", "admitted", "placed", "started",
    ]  # fmt: skip


def test_work_of_no_duration_ends_at_the_instant_of_its_start():
    events, _ = played(scene([job("a1", duration=0), job("a2", duration=0)]))
    assert told(events, "finished") == [(0.0, "a1"), (0.0, "a2")]


def test_until_is_inclusive_and_ends_the_run():
    events, summary = played(scene([job("a1", duration=10), job("a2", duration=1)], until=10))
    assert told(events, "finished") == [(10.0, "a1")]
    assert summary["tenants"]["a"]["jobs"] == 2
    assert summary["tenants"]["a"]["done"] == 1


def test_backfill_lets_a_short_job_pass_and_keeps_the_heads_start():
    jobs = [
        job("run", duration=100, cost=2, expected_s=100),
        job("head", at=1, duration=10, cost=3, expected_s=10),
        job("long", at=2, duration=200, cost=1, expected_s=200),
        job("short", at=3, duration=50, cost=1, expected_s=50),
    ]
    events, _ = played(scene(jobs, budget=3, policy=policy(backfill=Backfill.EASY)))
    assert told(events, "placed", "reason")[:3] == [
        (0.0, "run", "placed"),
        (3.0, "short", "backfilled"),
        (100.0, "head", "placed"),
    ]


def test_an_incident_uses_the_reserve():
    jobs = [job("n1"), job("n2"), job("fire", "b", at=1, class_name="incident")]
    events, _ = played(scene(jobs, pools=(Pool(id="p", budget=2, reserve=1),), budget=2))
    assert told(events, "placed") == [(0.0, "n1"), (1.0, "fire"), (60.0, "n2")]


def test_a_waiting_job_ages_into_a_higher_class():
    jobs = [job(f"c{n}", "c", at=n, class_name="critical", duration=30) for n in range(9)]
    jobs += [job("old", "b", at=0.5)]
    events, _ = played(scene(jobs, policy=policy(age_after=50.0)))
    assert told(events, "placed", "class")[:4] == [
        (0.0, "c0", "critical"),
        (30.0, "c1", "critical"),
        (60.0, "old", "critical"),
        (120.0, "c2", "critical"),
    ]


def test_aging_lets_a_small_job_pass_a_head_while_nothing_else_happens():
    jobs = [
        job("run", duration=1000),
        job("head", at=1, cost=2, class_name="normal"),
        job("small", "b", at=2, class_name="batch", duration=10),
    ]
    small_ages = (
        ClassRule(name="high"), ClassRule(name="normal"), ClassRule(name="batch", ages_to="high"),
    )  # fmt: skip
    events, _ = played(scene(jobs, budget=2, policy=policy(age_after=50.0, classes=small_ages)))
    assert told(events, "placed")[:2] == [(0.0, "run"), (52.0, "small")]


def test_concurrency_keys_keep_two_jobs_apart():
    jobs = [job("a1", keys=("repo",)), job("b1", "b", keys=("repo",)), job("c1", "c")]
    events, _ = played(scene(jobs, budget=3))
    assert told(events, "placed") == [(0.0, "a1"), (0.0, "c1"), (60.0, "b1")]


def test_a_tenants_running_cap_holds():
    tenants = (Tenant(name="a", max_running=1), Tenant(name="b"))
    events, _ = played(scene([job("a1"), job("a2"), job("b1", "b")], budget=3, tenants=tenants))
    assert told(events, "placed") == [(0.0, "a1"), (0.0, "b1"), (60.0, "a2")]


def test_a_rate_window_spaces_requests():
    calls = [job(f"a{n}", duration=1) for n in range(3)]
    events, _ = played(scene(calls, budget=3, stations=(station(slots=3, rates=(2, None)),)))
    assert [at for at, _ in told(events, "placed")] == [0.0, 0.0, 60.0]


def test_a_workflow_gives_cost_and_expectation_where_a_job_names_none():
    rules = (WorkflowRule(tenant="a", name="w", cost=2, expected_s=40.0),)
    jobs = [job("a1", workflow="w"), job("a2", workflow="w", cost=1), job("a3", workflow="w")]
    events, summary = played(scene(jobs, budget=3, workflows=rules))
    assert told(events, "placed", "cost") == [(0.0, "a1", 2), (0.0, "a2", 1), (60.0, "a3", 2)]
    assert events[0]["eta_s"] == 40.0
    assert summary["workflows"]["a/w"]["done"] == 3


def test_steps_are_placed_one_at_a_time_and_keep_their_submission():
    jobs = [job("flow", duration=30, steps=3), job("b1", "b", at=1, duration=5)]
    events, _ = played(scene(jobs))
    assert told(events, "placed") == [(0.0, "flow"), (10.0, "b1"), (15.0, "flow"), (25.0, "flow")]
    assert told(events, "step_done", "reason") == [
        (10.0, "flow", "step_done"),
        (25.0, "flow", "step_done"),
    ]
    assert told(events, "finished", "ran_s")[-1] == (35.0, "flow", 30.0)


def test_shares_by_cost_and_time_are_corrected_by_what_came_true():
    by_time = policy(share_by=ShareBy.COST_TIME)
    jobs = [job(f"a{n}", "a", duration=100, expected_s=10) for n in range(20)]
    jobs += [job(f"b{n}", "b", duration=10, expected_s=10) for n in range(100)]
    _, summary = played(scene(jobs, policy=by_time, until=1000))
    served = {name: one["served"] for name, one in summary["tenants"].items()}
    assert served["a"] == pytest.approx(served["b"], abs=120)


def test_what_comes_after_a_job_waits_for_it_and_falls_with_it():
    jobs = [
        job("a1", duration=10),
        job("a2", after=("a1",), duration=5),
        job("b1", "b", at=1, after=("a3",)),
        job("c1", "c", at=1, after=("b1",)),
        job("a3", at=2, duration=10),
    ]
    cancel = (lever(3, Do.JOB_CANCEL, job="a3"),)
    events, _ = played(scene(jobs, budget=2, levers=cancel))
    assert facts(events, "queued", "a2") == {"after": ["a1"], "open": 1}
    assert told(events, "placed")[-1] == (10.0, "a2")
    assert told(events, "canceled", "reason") == [
        (3.0, "a3", "canceled"),
        (3.0, "b1", "dependency"),
        (3.0, "c1", "dependency"),
    ]


@pytest.mark.parametrize("age_after", [0.0, 30.0])
def test_a_rate_window_opens_on_time_though_a_job_that_had_aged_was_placed(age_after):
    jobs = [job(f"a{n}", duration=1000, class_name="batch") for n in range(4)]
    stations = (station(slots=5, rates=(1, None)),)
    aging = policy(age_after=age_after)
    events, _ = played(scene(jobs, 5, stations=stations, policy=aging))
    assert [at for at, _ in told(events, "placed")] == [0.0, 60.0, 120.0, 180.0]
