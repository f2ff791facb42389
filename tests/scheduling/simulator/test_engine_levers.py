"""Levers that are pulled during a run."""

from scheduling.core.types import Pool
from scheduling.simulator.scenario import Do, Tenant, WorkflowRule
from tests.scheduling.simulator.scenes import facts, job, lever, played, scene, told


def test_a_held_tenants_jobs_wait_until_it_is_let_go():
    jobs = [job("a1", at=1), job("b1", "b", at=2)]
    levers = (
        lever(0, Do.TENANT_HOLD, tenant="a"),
        lever(100, Do.TENANT_UNHOLD, tenant="a"),
    )
    events, _ = played(scene(jobs, levers=levers))
    assert [(one["t"], one.get("job")) for one in events if one["event"] == "held"] == [
        (0.0, None),
        (1.0, "a1"),
    ]
    queued = next(one for one in events if one["event"] == "queued")
    assert queued["reason"] == "tenant_held"
    assert "eta_s" not in queued
    assert told(events, "placed") == [(2.0, "b1"), (100.0, "a1")]
    assert facts(events, "resumed") == {"tenant": "a", "jobs": 1}


def test_weight_zero_holds_a_tenant_from_the_start_and_a_weight_lets_it_go():
    levers = (lever(50, Do.TENANT_WEIGHT, tenant="a", value=2),)
    events, _ = played(scene([job("a1")], tenants=(Tenant(name="a", weight=0),), levers=levers))
    assert told(events, "placed") == [(50.0, "a1")]


def test_a_new_weight_acts_on_the_backlog():
    jobs = [job(f"{t}{n}", t, duration=10) for n in range(6) for t in "ab"]
    levers = (lever(5, Do.TENANT_WEIGHT, tenant="a", value=3),)
    events, _ = played(scene(jobs, levers=levers))
    assert [name[0] for _, name in told(events, "placed")[2:6]].count("a") == 3
    assert facts(events, "policy") == {"before": 1, "after": 3}


def test_the_dial_turned_down_stops_nothing_and_holds_starts_back():
    jobs = [job(f"a{n}", duration=10 + n) for n in range(3)] + [job("a3", at=1, duration=1)]
    levers = (
        lever(5, Do.POOL_BUDGET, pool="p", value=1),
        lever(50, Do.POOL_BUDGET, pool="p", value=4),
    )
    events, _ = played(scene(jobs, budget=3, levers=levers))
    assert told(events, "finished") == [(10.0, "a0"), (11.0, "a1"), (12.0, "a2"), (13.0, "a3")]
    assert facts(events, "policy") == {"before": 3, "after": 1, "in_use": 3}


def test_a_job_that_outgrew_its_pool_waits_for_the_dial():
    jobs = [job("run"), job("big", at=1, cost=2)]
    levers = (
        lever(5, Do.POOL_BUDGET, pool="p", value=1),
        lever(90, Do.POOL_BUDGET, pool="p", value=2),
    )
    events, _ = played(scene(jobs, pools=(Pool(id="p", budget=2),), budget=2, levers=levers))
    assert told(events, "placed") == [(0.0, "run"), (90.0, "big")]


def test_jobs_are_canceled_wherever_they_are():
    jobs = [job("runs"), job("waits"), job("never", "b", at=99)]
    levers = tuple(lever(10, Do.JOB_CANCEL, job=name) for name in ("runs", "waits", "unknown"))
    events, _ = played(scene(jobs, levers=levers))
    assert told(events, "canceled") == [(10.0, "runs"), (10.0, "waits")]
    assert facts(events, "canceled", "runs") == {"was": "live", "ran_s": 10.0}


def test_a_paused_job_is_passed_by_until_it_is_resumed():
    jobs = [job("run", duration=10), job("a1", at=1), job("a2", at=2)]
    levers = (lever(3, Do.JOB_PAUSE, job="a1"), lever(200, Do.JOB_RESUME, job="a1"))
    events, _ = played(scene(jobs, levers=levers))
    assert told(events, "held", "reason") == [(3.0, "a1", "job_paused")]
    assert told(events, "placed")[1:] == [(10.0, "a2"), (200.0, "a1")]
    assert told(events, "resumed", "eta_s") == [(200.0, "a1", 35.0)]


def test_a_prioritised_job_goes_first():
    jobs = [job("run", duration=10), job("a1", at=1), job("a2", at=2)]
    levers = (lever(3, Do.JOB_PRIORITISE, job="a2"),)
    events, _ = played(scene(jobs, levers=levers))
    assert told(events, "placed", "class")[1] == (10.0, "a2", "expedite")
    assert facts(events, "policy") == {"before": "normal", "after": "expedite"}


def test_a_workflows_new_cost_acts_on_what_waits_and_what_runs():
    jobs = [job(f"a{n}", workflow="w", duration=10) for n in range(4)]
    jobs += [job("own", workflow="w", cost=1, duration=10), job("later", at=30, workflow="w")]
    rules = (WorkflowRule(tenant="a", name="w", cost=1),)
    levers = (lever(5, Do.WORKFLOW_COST, tenant="a", workflow="w", value=2),)
    events, _ = played(scene(jobs, budget=2, workflows=rules, levers=levers))
    costs = {name: cost for _, name, cost in told(events, "placed", "cost")}
    assert costs == {"a0": 1, "a1": 1, "a2": 2, "a3": 2, "own": 1, "later": 2}
    assert facts(events, "policy") == {"cost": 2, "jobs": 4}
