"""When jobs that open circuits strand look for a stand-in, and when nobody looks."""

from decimal import Decimal

import pytest

from scheduling.core.policy.settings import Candidate, Fallback
from scheduling.core.policy.state import PoolState
from scheduling.simulator.scenario import BudgetRule, Do, ModelPrice, Prices, Tenant
from tests.scheduling.simulator.scenes import job, lever, played, policy, scene, station, told

LISTS = (Fallback(model="m", candidates=(Candidate(model="m2"),)),)


def two_models(jobs, budget=1, slots=1, **more):
    stations = (
        station("x", slots, models=frozenset({"m"})),
        station("y", slots, models=frozenset({"m2"})),
    )
    return scene(jobs, budget, **{"policy": policy(fallback=LISTS), "stations": stations} | more)


def limited(at, executor, seconds):
    return lever(at, Do.RATE_LIMITED, executor=executor, value=seconds)


@pytest.fixture
def walks(monkeypatch):
    """The numbers of jobs that were looked through, a walk each."""
    found = []
    real = PoolState.stranded

    def counted(state, models):
        found.append(len(state.order))
        return real(state, models)

    monkeypatch.setattr(PoolState, "stranded", counted)
    return found


def test_nobody_looks_while_every_circuit_is_closed(walks):
    jobs = [job("f", duration=1, model="m", fails=1)]
    jobs += [job(f"a{n}", duration=1, model="m") for n in range(50)]
    _, summary = played(
        scene(
            jobs,
            policy=policy(fallback=LISTS),
            stations=(station(slots=1, models=frozenset({"m", "m2"})),),
        )
    )
    assert summary["counts"]["finished"] == 51
    assert walks == []


def test_all_that_wait_are_looked_through_once_for_a_circuit_and_newcomers_alone(walks):
    jobs = [job("run", "b", duration=300, model="m2")]
    jobs += [job(f"a{n}", duration=1, model="m") for n in range(300)]
    jobs += [job(f"b{n}", "b", at=10 + n, duration=1, model="m") for n in range(50)]
    events, _ = played(two_models(jobs, levers=(limited(5, "x", 200.0),)))
    switched = told(events, "requeued")
    assert [at for at, _ in switched[:300]] == [5.0] * 300
    assert switched[300:] == [(10.0 + n, f"b{n}") for n in range(50)]
    assert walks == [300]  # as it opens; as it may be tried it is open no more


def test_a_stranded_job_moves_when_the_circuit_of_its_stand_in_may_be_tried():
    levers = (limited(30, "y", 40.0), limited(35, "x", 500.0))
    events, _ = played(two_models([job("a1", at=40, duration=10, model="m")], levers=levers))
    assert told(events, "requeued") == [(70.0, "a1")]
    assert told(events, "placed", "executor") == [(70.0, "a1", "y")]


def test_a_stranded_job_moves_when_the_executor_of_its_stand_in_is_up():
    levers = (
        lever(0, Do.EXECUTOR_DOWN, executor="y"),
        limited(1, "x", 500.0),
        lever(50, Do.EXECUTOR_UP, executor="y"),
    )
    events, _ = played(two_models([job("a1", at=2, duration=10, model="m")], levers=levers))
    assert told(events, "placed", "executor") == [(50.0, "a1", "y")]


def test_a_stranded_job_of_a_held_tenant_moves_as_that_is_let_go():
    levers = (
        lever(0, Do.TENANT_HOLD, tenant="a"),
        limited(1, "x", 500.0),
        lever(50, Do.TENANT_UNHOLD, tenant="a"),
    )
    events, _ = played(two_models([job("a1", at=2, duration=10, model="m")], levers=levers))
    assert told(events, "placed", "executor") == [(50.0, "a1", "y")]


def test_a_stranded_job_moves_as_its_budget_has_room_for_the_stand_in():
    prices = Prices(models={"m": ModelPrice(input=Decimal(1)), "m2": ModelPrice(input=Decimal(9))})
    rule = BudgetRule(dimension="spend", limit=Decimal(10))
    jobs = [
        job("run", duration=50, model="m2", tokens_in=200_000),  # holds 1.8
        job("a1", at=2, duration=10, model="m", tokens_in=1_000_000),  # 1, and 9 for m2
    ]
    levers = (limited(1, "x", 500.0), lever(20, Do.JOB_CANCEL, job="run"))
    tenants = (Tenant(name="a", budgets=(rule,)),)
    events, _ = played(two_models(jobs, 2, levers=levers, prices=prices, tenants=tenants))
    assert told(events, "requeued") == [(20.0, "a1")]


def test_a_stranded_job_moves_as_a_limit_of_its_own_has_room():
    jobs = [job("run", duration=50, model="m2"), job("a1", at=2, duration=10, model="m")]
    tenants = (Tenant(name="a", max_running=1),)
    events, _ = played(two_models(jobs, 2, levers=(limited(1, "x", 500.0),), tenants=tenants))
    assert told(events, "placed", "executor")[1:] == [(50.0, "a1", "y")]


def test_looking_in_vain_moves_no_tenant_in_the_order():
    jobs = [job(f"c{n}", "c", duration=10) for n in range(12)]
    jobs.append(job("s0", "s", at=1, duration=10, model="m"))
    jobs += [job(f"s{n}", "s", at=79, duration=10, model="m") for n in (1, 2)]
    stations = (
        station("x", 1, models=frozenset({"m"})),
        station("y", 1, models=frozenset({"other"})),
    )
    events, _ = played(two_models(jobs, stations=stations, levers=(limited(0, "x", 75.0),)))
    # Eight of c were placed while s could not be; s waited all the time, so its three come first.
    assert told(events, "placed")[8:12] == [
        (80.0, "s0"),
        (90.0, "s1"),
        (100.0, "s2"),
        (110.0, "c8"),
    ]
