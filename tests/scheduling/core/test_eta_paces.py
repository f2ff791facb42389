import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.eta.forecast import forecast
from scheduling.core.eta.paces import LAST_OF_ALL, LAST_RUNS, Paces
from scheduling.core.policy.settings import Backfill, Policy
from scheduling.core.types import REVIEWS
from tests.scheduling.core.pools import make_job, make_live, make_state

NOW = 1000.0


def learnt(*runs, workflow="w"):
    paces = Paces()
    for expected_s, ran_s in runs:
        paces.learn(workflow, expected_s, ran_s)
    return paces


def live_job(*, expected_s=100.0, started_at=NOW, workflow="w", class_name="normal"):
    job = make_job("live", expected_s=expected_s, workflow=workflow, class_name=class_name)
    return make_live(job, started_at=started_at)


def test_estimates_stand_as_they_are_while_nothing_was_measured():
    paces = Paces()
    assert paces.run_s(make_job("j", expected_s=70.0)) == 70.0
    assert paces.end(live_job(), NOW + 30) == NOW + 100
    assert paces.end(live_job(), NOW + 130) == NOW + 130


def test_an_estimate_is_put_right_by_the_ratio_of_the_sums():
    paces = learnt((100.0, 50.0), (300.0, 50.0))
    assert paces.run_s(make_job("j", expected_s=80.0, workflow="w")) == 80 * 100 / 400


@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(0, 1e6)), min_size=1, max_size=250))
def test_only_the_last_runs_speak_however_many_there_were(runs):
    paces = learnt(*runs)
    for workflow, most in (("w", LAST_RUNS), ("new", LAST_OF_ALL)):
        expected = sum(one for one, _ in runs[-most:])
        ran = sum(one for _, one in runs[-most:])
        job = make_job("j", expected_s=1.0, workflow=workflow)
        assert paces.run_s(job) == pytest.approx(ran / expected, rel=1e-6, abs=1e-6)


def test_one_huge_run_leaves_nothing_behind_once_it_is_too_old():
    paces = learnt((1e17, 1e17), *[(0.001, 0.002)] * LAST_OF_ALL)
    for workflow in ("w", "new"):
        job = make_job("j", expected_s=10.0, workflow=workflow)
        assert paces.run_s(job) == pytest.approx(20.0)


def test_a_workflow_that_never_ran_goes_by_all_that_did():
    paces = learnt((100.0, 50.0))
    paces.learn("other", 100.0, 150.0)
    assert paces.run_s(make_job("j", expected_s=10.0, workflow="new")) == 10.0
    assert paces.run_s(make_job("j", expected_s=10.0, workflow="w")) == 5.0


def test_a_run_that_has_outlived_the_short_ones_goes_by_the_long_ones():
    paces = learnt((100.0, 10.0), (100.0, 90.0))
    assert paces.end(live_job(), NOW) == NOW + 50
    assert paces.end(live_job(), NOW + 10) == NOW + 90
    assert paces.end(live_job(), NOW + 95) == NOW + 100
    assert paces.end(live_job(), NOW + 120) == NOW + 120


def test_a_review_goes_by_its_own_estimate():
    paces = learnt((100.0, 1.0))
    review = make_job("r", expected_s=900.0, workflow="w", class_name=REVIEWS.name)
    assert paces.run_s(review) == 900.0


def test_what_says_nothing_is_not_counted():
    paces = learnt((0.0, 5.0), (10.0, -1.0))
    assert paces.run_s(make_job("j", expected_s=10.0, workflow="w")) == 10.0
    assert paces.end(live_job(expected_s=0.0), NOW + 3) == NOW + 3


def test_only_the_last_runs_speak():
    paces = learnt(*[(10.0, 10.0)] * LAST_OF_ALL, *[(10.0, 20.0)] * LAST_RUNS)
    assert paces.run_s(make_job("j", expected_s=10.0, workflow="w")) == 20.0
    assert 10.0 < paces.run_s(make_job("j", expected_s=10.0, workflow="new")) < 20.0


RUNS = st.lists(st.tuples(st.floats(0.1, 1e4), st.floats(0, 1e4)), max_size=40)


@given(RUNS, st.floats(0, 1e5), st.floats(0.1, 1e4))
def test_no_run_is_foreseen_to_end_in_the_past(runs, elapsed, expected_s):
    paces = learnt(*runs)
    now = NOW + elapsed
    live = live_job(expected_s=expected_s)
    assert paces.end(live, now) >= now
    assert paces.run_s(live) >= 0


@given(RUNS.filter(bool), st.floats(0.1, 1e4))
def test_a_run_that_begins_ends_after_its_run_time(runs, expected_s):
    paces, live = learnt(*[run for run in runs if run[1] > 0.01]), live_job(expected_s=expected_s)
    assert paces.end(live, NOW) - NOW == pytest.approx(paces.run_s(live))


@given(st.floats(0.1, 10.0))
def test_where_all_runs_keep_one_pace_it_is_found(pace):
    dice = random.Random(1)
    paces = learnt(*[(expected, expected * pace) for expected in dice.choices(range(1, 99), k=20)])
    assert paces.run_s(make_job("j", expected_s=50.0, workflow="w")) == pytest.approx(50 * pace)


@pytest.mark.parametrize("exact", [0, 10])
def test_the_forecast_puts_its_estimates_right_by_the_paces(exact):
    jobs = [make_job(f"j{n}", expected_s=100.0, workflow="w") for n in range(2)]
    state = make_state(1, jobs=jobs, live=[live_job(started_at=NOW)])
    found = forecast(state, NOW, exact=exact, measured=learnt((100.0, 50.0)))
    assert found.starts == [NOW + 50, NOW + 100]
    assert found.finishes == [NOW + 100, NOW + 150]
    assert found.running["live"].finish == NOW + 50


def test_backfill_is_foreseen_by_what_the_cycle_goes_by():
    """It passes the head by its stated time, though it is known to take far longer."""
    live = make_live(make_job("live", 1, expected_s=100.0, workflow="v"), started_at=NOW)
    jobs = [
        make_job("wide", 2, expected_s=10.0, workflow="v"),
        make_job("short", 1, expected_s=50.0, workflow="w"),
    ]
    policy = Policy(backfill=Backfill.EASY)
    paces = learnt((10.0, 100.0))
    paces.learn("v", 100.0, 100.0)
    found = forecast(make_state(2, jobs=jobs, live=[live], policy=policy), NOW, measured=paces)
    assert found.job_ids == ["short", "wide"]
    assert found.starts == [NOW, NOW + 500]


def test_measured_durations_change_no_order():
    """They adapt the estimates; who goes first is the policy's to say."""
    jobs = [
        make_job(f"{name}{n}", tenant=name, workflow=name, class_name=class_name)
        for n in range(3)
        for name, class_name in (("a", "normal"), ("b", "batch"), ("c", "critical"))
    ]
    paces = learnt((60.0, 1.0), workflow="a")
    paces.learn("c", 60.0, 6000.0)
    by_estimates = forecast(make_state(1, jobs=jobs, policy=Policy(age_after=0)), NOW)
    by_paces = forecast(make_state(1, jobs=jobs, policy=Policy(age_after=0)), NOW, measured=paces)
    assert by_paces.job_ids == by_estimates.job_ids
    assert by_paces.finishes != by_estimates.finishes
