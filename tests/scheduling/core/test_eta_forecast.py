import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduling.core.eta.calibration import naive_s
from scheduling.core.eta.forecast import Eta, forecast
from scheduling.core.policy.cycle import cycle
from scheduling.core.policy.settings import Backfill, Policy
from scheduling.core.types import Pool
from tests.scheduling.core.pools import make_executor, make_job, make_live, make_state

NOW = 1000.0


def running(name="old", cost=1, left=600.0, **changes):
    return make_live(make_job(name, cost, expected_s=left, **changes), started_at=NOW)


def finishes(found):
    return dict(zip(found.job_ids, found.finishes, strict=True))


def one_lane():
    jobs = [make_job("B", expected_s=1200), make_job("C", expected_s=3600)]
    return make_state(1, jobs=jobs, live=[running()])


def test_jobs_behind_a_running_one_finish_one_after_the_other():
    found = forecast(one_lane(), NOW)
    assert finishes(found) == {"B": NOW + 1800, "C": NOW + 5400}
    assert found.clear_at == found.tenants["a"] == NOW + 5400


def test_a_job_of_two_units_waits_until_both_are_free_together():
    jobs = [make_job("B", 1, expected_s=1200), make_job("C", 2, expected_s=100)]
    found = forecast(make_state(2, jobs=jobs, live=[running()]), NOW)
    assert finishes(found) == {"B": NOW + 1200, "C": NOW + 1300}


def test_time_that_passes_without_an_event_leaves_the_finish_where_it_was():
    later = finishes(forecast(one_lane(), NOW + 100))
    assert later["B"] == NOW + 1800
    assert later["B"] - (NOW + 100) == 1700


def test_an_overdue_job_is_flagged_and_expected_to_end_now():
    found = forecast(one_lane(), NOW + 700)
    assert (found.running["old"].finish, found.running["old"].overdue) == (NOW + 700, True)
    assert not forecast(one_lane(), NOW).running["old"].overdue
    assert finishes(found)["B"] == NOW + 1900


def test_a_dial_below_use_holds_starts_back_until_enough_has_drained():
    live = [running("o1", 2, 10.0), running("o2", 2, 20.0), running("o3", 1, 30.0)]
    state = make_state(5, jobs=[make_job("B", expected_s=5)], live=live)
    state.set_pool(Pool(id="p", budget=2))
    assert finishes(forecast(state, NOW)) == {"B": NOW + 25}


def test_forecasting_changes_nothing():
    state = one_lane()
    forecast(state, NOW)
    assert (len(state.order), list(state.live), state.use.total) == (2, ["old"], 1)
    assert state.order.memory(("normal", "a", None)).turn == 0


def test_own_limits_slots_and_backfill_count_in_the_exact_part():
    own = {"limits": (("user", "u"),)}
    jobs = [make_job("a", **own), make_job("b", **own), make_job("c")]
    state = make_state(9, jobs=jobs, caps={("user", "u"): 1})
    assert finishes(forecast(state, NOW)) == {"a": NOW + 60, "c": NOW + 60, "b": NOW + 120}
    state = make_state(9, jobs=jobs, executors=[make_executor("x", 1)])
    assert finishes(forecast(state, NOW))["c"] == NOW + 180
    policy = Policy(backfill=Backfill.EASY)
    jobs = [make_job("head", 2), make_job("short", expected_s=500)]
    found = forecast(make_state(2, jobs=jobs, live=[running()], policy=policy), NOW)
    assert found.job_ids == ["short", "head"]
    assert found.starts == [NOW, NOW + 600]


def test_jobs_that_are_held_or_cannot_start_have_no_eta():
    jobs = [make_job("a"), make_job("b", tenant="b"), make_job("c", model="none"), make_job("d", 9)]
    state = make_state(6, jobs=jobs)
    state.hold("b")
    assert finishes(forecast(state, NOW)) == {"a": NOW + 60}


def test_an_idle_pool_has_no_clear_time():
    found = forecast(make_state(6), NOW)
    assert (found.clear_at, found.tenants, list(found.etas())) == (None, {}, [])


def test_a_tenants_clear_time_is_the_latest_of_its_jobs_running_ones_too():
    jobs = [make_job("b", tenant="b", expected_s=5)]
    found = forecast(make_state(6, jobs=jobs, live=[running(left=50.0)]), NOW)
    assert found.tenants == {"a": NOW + 50, "b": NOW + 5}
    assert found.clear_at == NOW + 50


def test_jobs_behind_the_exact_part_are_laid_into_lanes_and_marked():
    found = forecast(one_lane(), NOW, exact=1)
    assert list(found.etas()) == [
        ("B", Eta(start=NOW + 600, finish=NOW + 1800, approximate=False)),
        ("C", Eta(start=NOW + 1800, finish=NOW + 5400, approximate=True)),
    ]
    assert next(forecast(one_lane(), NOW, exact=0).etas())[1].approximate


def test_an_order_that_the_caller_has_already_is_not_walked_again():
    state = one_lane()
    queue = [spot.job for spot in state.order.walk_all()]
    assert forecast(state, NOW, exact=1, queue=queue) == forecast(state, NOW, exact=1)


def test_a_queue_in_any_order_comes_with_its_rows_in_order():
    jobs = [make_job(f"j{n}", n % 2 + 1, expected_s=10.0 + n, tenant="ab"[n % 2]) for n in range(6)]
    state = make_state(3, jobs=jobs)
    expected = forecast(state, NOW, exact=2)
    row = {job.id: number for number, job in enumerate(reversed(jobs))}
    places = np.array([row[spot.job.id] for spot in state.order.walk_all()])
    found = forecast(state, NOW, exact=2, queue=jobs[::-1], places=places)
    assert list(found.etas()) == list(expected.etas())
    assert found.tenants == expected.tenants
    starts, finishes, approximate = found.spread()
    spread = zip(jobs[::-1], starts, finishes, approximate, strict=True)
    assert {job.id: Eta(start=s, finish=f, approximate=a) for job, s, f, a in spread} == dict(
        expected.etas()
    )


def test_jobs_without_an_eta_are_spread_as_nan():
    jobs = [make_job("a", model="none"), make_job("b"), make_job("c", model="none"), make_job("d")]
    starts, finishes, approximate = forecast(make_state(1, jobs=jobs), NOW, exact=2).spread()
    assert np.array_equal(starts, [math.nan, NOW, math.nan, NOW + 60], equal_nan=True)
    assert np.array_equal(finishes, [math.nan, NOW + 60, math.nan, NOW + 120], equal_nan=True)
    assert approximate.tolist() == [False, False, False, True]


def test_an_executor_of_one_tenant_serves_only_that_tenants_jobs_in_the_lanes():
    own = make_executor("own", 9, models=frozenset({"m"}), tenant="b")
    jobs = [make_job("a", model="m"), make_job("b", model="m", tenant="b")]
    state = make_state(6, jobs=jobs, executors=[own])
    assert forecast(state, NOW, exact=0).job_ids == ["b"]


@pytest.mark.parametrize("backfill", list(Backfill))
@pytest.mark.parametrize("exact", [0, 9])
def test_measured_run_times_stand_before_what_was_expected(backfill, exact):
    jobs = [make_job("a", workflow="slow"), make_job("b", workflow="slow"), make_job("c")]
    live = [make_live(make_job("old", workflow="slow"), started_at=NOW)]
    state = make_state(1, jobs=jobs, live=live, policy=Policy(backfill=backfill))
    found = forecast(state, NOW, exact=exact, measured={"slow": 100.0})
    assert found.starts == [NOW + 100, NOW + 200, NOW + 300]
    assert (found.running["old"].finish, found.clear_at) == (NOW + 100, NOW + 360)


def test_backfill_looks_at_measured_run_times():
    policy = Policy(backfill=Backfill.EASY)
    jobs = [make_job("head", 2), make_job("short", expected_s=5000, workflow="w")]
    state = make_state(2, jobs=jobs, live=[running()], policy=policy)
    assert forecast(state, NOW).job_ids == ["head", "short"]
    assert forecast(state, NOW, measured={"w": 500.0}).job_ids == ["short", "head"]


def test_lanes_leave_out_jobs_that_no_executor_may_run_and_narrow_to_the_slots():
    jobs = [make_job("a"), make_job("b", model="none"), make_job("c"), make_job("d")]
    state = make_state(6, jobs=jobs, executors=[make_executor("x", 1)])
    found = forecast(state, NOW, exact=0)
    assert finishes(found) == {"a": NOW + 60, "c": NOW + 120, "d": NOW + 180}


@pytest.mark.parametrize("exact", [0, 1])
def test_a_pool_without_slots_or_without_units_gives_no_time(exact):
    jobs = [make_job("a"), make_job("b")]
    no_slots = make_state(2, jobs=jobs, executors=[make_executor("x", 0)])
    assert forecast(no_slots, NOW, exact=exact).job_ids == []
    no_units = make_state(2, jobs=jobs)
    no_units.pool = Pool(id="p", budget=2, reserve=2)
    assert forecast(no_units, NOW, exact=exact).job_ids == []


def test_reserve_users_stand_in_the_reserve_before_they_narrow_the_lanes():
    fire = make_live(make_job("fire", 3, expected_s=50), class_name="incident", started_at=NOW)
    jobs = [make_job(f"j{index}", expected_s=10) for index in range(3)]
    state = make_state(4, 2, jobs=jobs, live=[fire])
    assert finishes(forecast(state, NOW, exact=0)) == {
        "j0": NOW + 10,
        "j1": NOW + 20,
        "j2": NOW + 30,
    }
    assert finishes(forecast(state, NOW)) == finishes(forecast(state, NOW, exact=0))


def test_what_reserve_users_hold_beyond_the_reserve_is_taken_from_the_lanes_once():
    live = [
        make_live(make_job(f"fire{end}", 2, expected_s=end), class_name="incident", started_at=NOW)
        for end in (30.0, 50.0)
    ]
    state = make_state(4, 2, jobs=[make_job("a", 2)], live=live)
    assert forecast(state, NOW, exact=0).starts == forecast(state, NOW).starts == [NOW + 30]


def test_all_that_ends_at_one_instant_ends_before_the_next_cycle():
    own = {"limits": (("user", "u"),)}
    live = [running("o1", 2, 10.0), running("o2", 1, 10.0, **own)]
    jobs = [make_job("mine", 2, **own), make_job("other", 2)]
    state = make_state(3, jobs=jobs, live=live, caps={("user", "u"): 1})
    assert forecast(state, NOW).job_ids == ["mine", "other"]


@st.composite
def plain_pools(draw):
    """Pools where units alone bind: no limits, ample slots, no reserve."""
    budget = draw(st.integers(2, 6))
    jobs = [
        make_job(
            f"j{index}",
            draw(st.integers(1, budget)),
            tenant=draw(st.sampled_from("ab")),
            submitted_at=float(draw(st.integers(0, 3))),
            expected_s=float(draw(st.integers(1, 9))),
        )
        for index in range(draw(st.integers(1, 12)))
    ]
    live = [running(left=float(draw(st.integers(1, 9)))) for _ in range(draw(st.integers(0, 1)))]
    return make_state(budget, jobs=jobs, live=live)


@given(plain_pools(), st.integers(0, 12))
def test_where_units_alone_bind_lanes_and_the_exact_part_agree(state, exact):
    whole, mixed = forecast(state, NOW), forecast(state, NOW, exact=exact)
    assert finishes(whole) == finishes(mixed)
    assert mixed.exact == min(exact, len(whole.job_ids))


@given(plain_pools())
def test_a_forecast_comes_true_when_nothing_else_happens(state):
    found, clock, starts = forecast(state, NOW), NOW, {}
    while True:
        starts |= {one.spot.job.id: clock for one in cycle(state, clock)}
        if not state.live:
            break
        clock = min(live.started_at + live.expected_s for live in state.live.values())
        for live in list(state.live.values()):
            if live.started_at + live.expected_s == clock:
                state.end(live.job_id)
    assert dict(zip(found.job_ids, found.starts, strict=True)) == starts
    assert found.clear_at == max(clock, NOW)


def test_the_naive_formula_is_wrong_where_costs_and_times_differ():
    jobs = [make_job(f"l{n}", 5, expected_s=1000.0) for n in range(10)]
    jobs += [make_job(f"s{n}", 1, expected_s=10.0) for n in range(90)]
    state = make_state(10, jobs=jobs)
    average = sum(job.expected_s for job in jobs) / len(jobs)
    actual = forecast(state, NOW).clear_at - NOW
    assert actual > 4 * naive_s(len(jobs), average, 10)


def test_a_renamed_copy_of_a_job_is_forecast_alike():
    job = make_job("a", 2)
    first = forecast(make_state(4, jobs=[job]), NOW)
    second = forecast(make_state(4, jobs=[replace(job, id="b")]), NOW)
    assert first.starts == second.starts
