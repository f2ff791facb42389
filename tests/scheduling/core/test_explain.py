"""Explaining asks the rules that decide: it must never say anything else than they do."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduling.core.admission import Backlog, BudgetRefusal, Ceiling, Facts, Quota, admit
from scheduling.core.placement import candidates
from scheduling.core.policy.cycle import run, waits
from scheduling.core.policy.explain import (
    Check,
    Misfit,
    Walked,
    ahead_of,
    check_of,
    misfits,
    next_rung,
    spoken,
    walked,
)
from scheduling.core.policy.settings import Policy
from scheduling.core.types import Reason
from tests.scheduling.core.pools import make_executor, make_job, make_live, make_state

REFUSAL = BudgetRefusal(
    scope="tenant", dimension="spend", limit=Decimal(1), spent=Decimal(0), held=Decimal(1),
    estimate=Decimal(1),
)  # fmt: skip
CEILING = Ceiling(dimension="spend", most=Decimal(1), estimate=Decimal(2))
SPEAKING = {
    Check.PERMISSION: {"permitted": False},
    Check.DEADLINE: {"deadline": 5.0},
    Check.EXPIRY: {"expires_at": 5.0},
    Check.SIZE: {"cost": 2},
    Check.PRICE: {"unpriced_model": "m"},
    Check.CEILINGS: {"ceilings": (CEILING,)},
    Check.CLASS_QUOTA: {"quota": Quota(class_name="c", used=1, most=1)},
    Check.BACKLOG: {"backlogs": (Backlog(scope="all", waiting=1, cap=1),)},
    Check.BUDGET: {"refusals": (REFUSAL,)},
    Check.CIRCUIT: {"circuit_until": 20.0},
    Check.NOT_BEFORE: {"not_before": 20.0},
    Check.HOLD: {"tenant_held": True},
    Check.DEPENDENCIES: {"open_dependencies": 1},
}


@pytest.mark.parametrize("check", SPEAKING)
def test_a_check_that_is_asked_alone_speaks_as_admission_does(check):
    facts = Facts(now=10.0, **SPEAKING[check])
    assert spoken(check, facts) == admit(facts)
    assert check_of(admit(facts).reason) is check
    assert [one for one in SPEAKING if spoken(one, facts)] == [check]


@given(st.sets(st.sampled_from(sorted(SPEAKING))))
def test_the_first_check_that_speaks_is_the_one_that_admission_names(checks):
    facts = Facts(now=10.0, **{k: v for one in checks for k, v in SPEAKING[one].items()})
    said = [answer for one in SPEAKING if (answer := spoken(one, facts)) is not None]
    assert len(said) == len(checks)
    assert (said[0] if said else admit(Facts(now=10.0))) == admit(facts)


def test_admission_gives_no_reason_of_other_checks():
    assert check_of("no_executor") is Check.OFFER
    assert check_of("shed") is Check.BACKLOG
    assert check_of("shed") is Check.BACKLOG
    assert check_of("in_order") is None
    assert check_of("from_a_later_version") is None


NAMES = st.sampled_from(["", "a", "b"])
LABELS = st.frozensets(st.sampled_from("ab"))


@given(
    kinds=st.frozensets(NAMES), models=st.frozensets(NAMES), region=NAMES, labels=LABELS,
    tenant=st.sampled_from([None, "a", "b"]), workspace=st.sampled_from([None, "a-1", "b-1"]),
    available=st.booleans(), resting=st.frozensets(NAMES), places=st.frozensets(st.sampled_from("xy")),
    asks=st.tuples(NAMES, NAMES, NAMES, LABELS),
    tools=LABELS, data_classes=LABELS, compute_class=NAMES, more=st.tuples(LABELS, NAMES, NAMES),
)  # fmt: skip
def test_an_executor_without_a_misfit_is_a_candidate_and_no_other_is(asks, more, places, **offers):
    names = ("kind", "model", "region", "labels", "tools", "data_class", "compute_class")
    job = make_job("j", **dict(zip(names, (*asks, *more), strict=True)), places=places)
    executor = make_executor(**offers)
    assert bool(candidates(job, [executor])) == (not misfits(job, executor))


@pytest.mark.parametrize(
    ("offers", "why"),
    [
        ({}, ()),
        ({"kinds": frozenset("x")}, (Misfit.KIND,)),
        ({"models": frozenset("x")}, (Misfit.MODEL,)),
        ({"region": "x"}, (Misfit.REGION,)),
        ({"labels": frozenset("x")}, (Misfit.LABELS,)),
        ({"tools": frozenset("x")}, (Misfit.TOOLS,)),
        ({"data_classes": frozenset("x")}, (Misfit.DATA_CLASS,)),
        ({"compute_class": "x"}, (Misfit.COMPUTE_CLASS,)),
        ({"tenant": "b"}, (Misfit.NOT_OPEN,)),
        ({"workspace": "a-2"}, (Misfit.NOT_OPEN,)),
        ({"available": False, "region": "x"}, (Misfit.REGION, Misfit.UNAVAILABLE)),
        ({"id": "y"}, (Misfit.FUNDS,)),
        ({"resting": frozenset("m")}, (Misfit.CIRCUIT,)),
        ({"resting": frozenset([""])}, (Misfit.CIRCUIT,)),
        ({"resting": frozenset("x")}, ()),
    ],
)
def test_each_misfit_is_named(offers, why):
    job = make_job(
        "j", kind="k", model="m", region="r", labels=frozenset("l"), tools=frozenset("t"),
        data_class="d", compute_class="c", places=frozenset("x"),
    )  # fmt: skip
    fits = {
        "kinds": frozenset("k"), "models": frozenset("m"), "region": "r",
        "labels": frozenset("lm"), "tenant": "a", "tools": frozenset("tu"),
        "data_classes": frozenset("de"), "compute_class": "c",
    }  # fmt: skip
    assert misfits(job, make_executor(**(fits | offers))) == why


def test_a_place_counts_own_jobs_and_others_apart():
    jobs = [make_job("a1"), make_job("b1", tenant="b"), make_job("c1", tenant="c"), make_job("a2")]
    state = make_state(jobs=jobs)
    ahead = ahead_of(state, jobs[3])
    assert (ahead.place, ahead.own, ahead.others, ahead.tenants) == (4, 1, 2, 2)
    assert (ahead.class_name, ahead.turn) == ("normal", 1)
    state.hold("a")
    assert ahead_of(state, jobs[3]) is None
    assert ahead_of(state, jobs[1]).place == 1


def test_a_job_gains_a_class_for_each_full_wait_from_the_last_placement_on():
    policy = Policy(age_after=100.0)
    jobs = [make_job("j1"), make_job("j2", class_name="batch"), make_job("j3", class_name="batch")]
    state = make_state(jobs=jobs, policy=policy)
    assert next_rung(state, jobs[0]) == ("critical", 100.0)
    assert next_rung(state, jobs[1]) == ("normal", 100.0)
    state.order.advance(150.0)
    assert state.order.stands_in("j2") == "normal"
    assert next_rung(state, jobs[1]) == ("critical", 200.0)
    state.order.advance(250.0)
    assert next_rung(state, jobs[1]) is None
    spot = next(spot for spot in state.order.walk_all() if spot.job.id == "j2")
    state.order.place(spot, 250.0)
    assert next_rung(state, jobs[2]) == ("normal", 350.0)


@pytest.mark.parametrize(
    "policy", [Policy(age_after=0.0), Policy(age_limit=1), Policy(age_limit=0)]
)
def test_who_does_not_climb_gains_no_class(policy):
    jobs = [make_job("j1"), make_job("j2"), make_job("j3", class_name="expedite")]
    state = make_state(jobs=jobs, policy=policy)
    assert next_rung(state, jobs[1]) is None
    assert next_rung(state, jobs[2]) is None


def test_what_may_start_starts_before_a_job_is_told_why_it_does_not():
    jobs = [make_job("j1", 4), make_job("j2", 4), make_job("j3")]
    assert walked(make_state(jobs=jobs), 0.0, jobs[0]) == Walked(reason=Reason.STARTS_NOW)
    head = walked(make_state(jobs=jobs), 0.0, jobs[1])
    assert head == Walked(reason=Reason.HEAD_WAITS_FOR_UNITS)
    behind = walked(make_state(jobs=jobs), 0.0, jobs[2])
    assert behind == Walked(reason=Reason.BEHIND_HEAD, first=(jobs[1],))


def test_only_those_ahead_that_wait_for_units_are_named():
    busy = make_executor("x", 1, ["m"])
    jobs = [make_job("j1", model="m"), make_job("j2", 9), make_job("j3", 5), make_job("j4", 2)]
    live = [make_live(make_job("j0", 2, model="m"))]
    state = make_state(6, jobs=jobs, live=live, executors=[busy, make_executor("y")])
    assert walked(state, 0.0, jobs[3]) == Walked(reason=Reason.BEHIND_HEAD, first=(jobs[2],))


costs = st.lists(st.tuples(st.integers(1, 8), st.sampled_from("abc")), min_size=1, max_size=8)


@given(costs, st.integers(0, 7))
def test_what_is_told_is_what_the_cycle_does_and_says(jobs, at):
    made = [make_job(f"j{n}", cost, tenant=tenant) for n, (cost, tenant) in enumerate(jobs)]
    job = made[at % len(made)]
    state, other = make_state(6, jobs=made), make_state(6, jobs=made)
    if job.id in state.never_fits:
        return
    placed = {one.spot.job.id for one in run(other, 0.0).placements}
    expected = Reason.STARTS_NOW if job.id in placed else waits(other, 0.0, len(made))[job.id]
    assert walked(state, 0.0, job).reason is expected


def test_a_limit_of_its_own_is_told_before_anything_else():
    jobs = [make_job(f"j{n}", limits=(("user", "u"),)) for n in range(2)]
    state = make_state(jobs=jobs, caps={("user", "u"): 1})
    assert walked(state, 0.0, jobs[1]).reason is Reason.OWN_LIMIT
    assert walked(make_state(jobs=[replace(jobs[0], cost=1)]), 0.0, jobs[0]).first == ()
