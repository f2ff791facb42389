"""Two runs of one backlog: a like draft moves nothing, and what differs is told of each job."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduling.core.eta.runs import run_of
from scheduling.core.eta.trial import MOVERS_MOST, compare
from tests.scheduling.core.pools import make_job, make_state

NOW = 0.0
WEIGHTS = {"a": 1, "b": 1}


def backlog(share="cost", count=4):
    """Tenant a waits with jobs of cost 2, b with jobs of cost 1; charges as the share says."""
    jobs = []
    for n in range(count):
        for tenant, cost in (("a", 2), ("b", 1)):
            one = make_job(f"{tenant}{n}", cost, tenant=tenant)
            jobs.append(replace(one, charge=1 if share == "turns" else cost))
    return jobs


def run(jobs, budget=2, **more):
    return run_of(make_state(budget, jobs=jobs, **more), NOW)


def beside(found, name):
    return next(one for one in found if one.name == name)


def test_a_draft_that_orders_alike_moves_nothing():
    jobs = backlog()
    found = compare((run(jobs), run(jobs)), weights=WEIGHTS)
    assert (found.jobs, found.unmoved) == (8, 8)
    assert (found.earlier.jobs, found.later.jobs, found.gained, found.lost) == (0, 0, 0, 0)
    assert found.movers == ()
    assert all(one.before == one.after for one in (*found.tenants, *found.classes))


def test_moved_jobs_are_told_with_their_places_and_starts():
    jobs = [make_job("a1"), make_job("a2")]
    urgent = [jobs[0], replace(jobs[1], class_name="expedite")]
    found = compare((run(jobs, 1), run(urgent, 1)), weights=WEIGHTS)
    assert (found.earlier.jobs, found.earlier.mean_s, found.earlier.most_s) == (1, 60.0, 60.0)
    assert (found.later.jobs, found.later.mean_s) == (1, 60.0)
    earlier = next(one for one in found.movers if one.job.id == "a2")
    assert earlier.class_names == ("normal", "expedite")
    assert (earlier.places, earlier.starts, earlier.by_s) == ((2, 1), (60.0, 0.0), -60.0)
    assert [one.name for one in found.classes] == ["expedite", "normal"]
    assert beside(found.classes, "expedite").before.mean_wait_s is None
    assert beside(found.classes, "expedite").before.clear_at is None


def test_only_the_furthest_movers_are_told():
    jobs = [make_job(f"a{n}") for n in range(MOVERS_MOST + 9)]
    found = compare((run(jobs, 1), run(jobs, 2)), weights=WEIGHTS)
    assert len(found.movers) == MOVERS_MOST
    distances = [abs(one.by_s) for one in found.movers]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] == found.earlier.most_s


def test_a_draft_that_holds_takes_the_starts_of_a_tenant():
    jobs = backlog()
    state = make_state(2, jobs=jobs)
    state.hold("b")
    found = compare((run(jobs), run_of(state, NOW)), weights=WEIGHTS)
    assert (found.jobs, found.lost, found.gained) == (8, 4, 0)
    assert beside(found.tenants, "b").after.jobs == 0
    assert beside(found.tenants, "b").after.mean_wait_s is None
    back = compare((run_of(state, NOW), run(jobs)), weights=WEIGHTS)
    assert (back.lost, back.gained) == (0, 4)


def test_shares_follow_what_the_fair_order_counts():
    many = 200
    costs, turns = run(backlog("cost", many), 4), run(backlog("turns", many), 4)
    found = compare((costs, turns), weights=WEIGHTS)
    a = beside(found.tenants, "a")
    assert a.before.cost_share == pytest.approx(1 / 2, abs=0.02)
    assert a.after.cost_share == pytest.approx(2 / 3, abs=0.02)
    assert a.after.charge_share == pytest.approx(1 / 2, abs=0.02)
    assert found.fairness == (pytest.approx(1, abs=0.01), pytest.approx(1, abs=0.01))
    assert found.window_s == 3600.0


def test_fairness_needs_two_tenants_that_wait_all_the_while():
    jobs = [make_job(f"a{n}") for n in range(99)] + [make_job("b1", tenant="b")]
    found = compare((run(jobs),) * 2, weights=WEIGHTS)
    assert found.fairness == (None, None)


def test_the_window_ends_when_the_first_tenant_of_weight_has_no_job_left_to_start():
    jobs = [make_job(f"{who}{n}", tenant=who) for who in "ab" for n in range(4)]
    few = make_job("c1", tenant="c", expected_s=1.0)
    assert compare((run([*jobs, few]),) * 2, weights=WEIGHTS).window_s == 180.0
    assert compare((run(jobs, 8),) * 2, weights=WEIGHTS).window_s == 60.0


def test_missed_deadlines_are_counted_and_those_that_change_are_named():
    jobs = [make_job("a1"), make_job("a2", deadline=100.0)]
    urgent = [jobs[0], replace(jobs[1], class_name="expedite")]
    slow, fast = run(jobs, 1), run(urgent, 1)
    found = compare((slow, fast), weights=WEIGHTS).missed
    assert (found.before, found.after, found.newly) == (1, 0, ())
    assert [one.job.id for one in found.saved] == ["a2"]
    found = compare((fast, slow), weights=WEIGHTS).missed
    assert (found.after, [one.job.id for one in found.newly]) == (1, ["a2"])


def test_the_spend_counts_what_starts_in_the_window():
    jobs = [make_job(f"a{n}", expected_s=2000.0) for n in range(4)]
    spend = {job.id: Decimal("1.5") for job in jobs[:3]}
    found = compare((run(jobs, 1), run(jobs, 4)), weights=WEIGHTS, spend=spend)
    assert found.everything.before.spend == Decimal("3.0")
    assert found.everything.after.spend == Decimal("4.5")
    assert beside(found.tenants, "a").after.spend == Decimal("4.5")


def test_nothing_beside_nothing_is_nothing():
    found = compare((run([]), run([])), weights={})
    assert (found.jobs, found.tenants, found.window_s) == (0, (), 3600.0)
    assert found.everything.before.charge_share == 0.0


JOBS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.integers(1, 3)), max_size=12
)


@settings(deadline=None, max_examples=60)
@given(JOBS, st.integers(3, 6))
def test_every_job_is_counted_once_and_shares_sum_to_one(drawn, budget):
    before = [make_job(f"j{n}", cost, tenant=who) for n, (who, cost, _) in enumerate(drawn)]
    after = [replace(one, charge=charge) for one, (_, _, charge) in zip(before, drawn, strict=True)]
    weights = dict.fromkeys("abc", 1)
    found = compare((run(before, budget), run(after, budget)), weights=weights)
    assert found.earlier.jobs + found.later.jobs + found.unmoved == len(drawn) == found.jobs
    for side in ("before", "after"):
        parts = [getattr(one, side) for one in found.tenants]
        assert sum(one.jobs for one in parts) == len(drawn)
        for share in ("charge_share", "cost_share"):
            assert sum(getattr(one, share) for one in parts) == pytest.approx(int(bool(drawn)))
