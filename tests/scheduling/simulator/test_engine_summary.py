"""What a run comes to: units offered and used, shares and classes, also of one that is cut off."""

from decimal import Decimal

from scheduling.core.policy.settings import ShareBy
from scheduling.simulator.scenario import Do, Prices
from tests.scheduling.simulator.scenes import job, lever, played, policy, scene

UNIT_PRICE = Prices(unit_second=Decimal("0.001"))


def test_a_dial_that_is_turned_after_the_last_end_offers_nothing():
    late = (lever(1000, Do.POOL_BUDGET, pool="p", value=2),)
    _, summary = played(scene([job("a1", duration=100)], levers=late, prices=UNIT_PRICE))
    assert (summary["makespan_s"], summary["utilisation"]) == (100.0, 1.0)
    assert summary["cost"]["unallocated"] == "0"


def test_the_units_offered_follow_the_dial():
    dial = (
        lever(20, Do.POOL_BUDGET, pool="p", value=4),
        lever(60, Do.POOL_BUDGET, pool="p", value=1),
    )
    _, summary = played(scene([job("a1", duration=100)], levers=dial, prices=UNIT_PRICE))
    assert summary["utilisation"] == 0.454545  # 100 of 20 + 4 x 40 + 40 = 220
    assert summary["cost"]["unallocated"] == "0.12"


def test_what_runs_where_a_run_is_cut_off_counts_as_far_as_it_came():
    jobs = [job("a1", duration=1000, cost=9), job("a2", duration=100)]
    _, summary = played(scene(jobs, 10, until=100.0, prices=UNIT_PRICE))
    assert (summary["makespan_s"], summary["utilisation"]) == (100.0, 1.0)
    assert summary["tenants"]["a"]["served"] == 1000.0
    assert summary["cost"]["unallocated"] == "0"


def test_a_run_that_ends_before_its_end_is_not_drawn_out():
    _, summary = played(scene([job("a1", duration=100)], until=500.0))
    assert (summary["makespan_s"], summary["utilisation"]) == (100.0, 1.0)


def test_a_charge_of_before_the_common_backlog_is_not_corrected_in_it():
    jobs = [job("a1", duration=10, expected_s=1000.0)]
    jobs += [job(f"a{n}", at=1, duration=10, expected_s=10.0) for n in range(2, 6)]
    jobs += [job(f"b{n}", "b", at=5, duration=10, expected_s=10.0) for n in range(5)]
    _, summary = played(scene(jobs, policy=policy(share_by=ShareBy.COST_TIME)))
    # a owes 1,000 for a1 and is refunded 990 at 10, when both wait. What counts in the common time
    # are the placements from 10 on: a was lifted at 1, so that refund is void and b goes first.
    shares = {name: one["share"] for name, one in summary["tenants"].items()}
    assert summary["jain_over"] == "backlogged"
    assert shares == {"a": 0.0, "b": 1.0}


def test_a_charge_of_the_common_backlog_is_corrected_when_that_is_over():
    jobs = [job(name, "b", duration=10, expected_s=10.0) for name in ("b1", "b2")]
    jobs.insert(1, job("a1", duration=10, expected_s=30.0))
    _, summary = played(scene(jobs, 2, policy=policy(share_by=ShareBy.COST_TIME)))
    # b1 is charged 10 and a1 30 while both wait; as a1 has taken 10 nothing waits any more.
    shares = {name: one["share"] for name, one in summary["tenants"].items()}
    assert shares == {"a": 0.5, "b": 0.5}


def test_a_job_is_counted_in_the_class_that_it_was_given():
    jobs = [job("a1", duration=10), job("a2", duration=10)]
    lifted = (lever(1, Do.JOB_PRIORITISE, job="a2"),)
    _, summary = played(scene(jobs, levers=lifted))
    counted = {name: (one["jobs"], one["done"]) for name, one in summary["classes"].items()}
    assert counted == {"normal": (1, 1), "expedite": (1, 1)}
