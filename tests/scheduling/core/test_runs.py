"""A forecast as columns: waits, what is served in a window, groups, and Jain's index."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.eta.runs import grouped, jain, joined, mean_and_p95, run_of
from tests.scheduling.core.pools import make_job, make_live, make_state

NOW = 100.0


def one_unit(*jobs, **more):
    return make_state(1, jobs=jobs, **more)


def test_rows_stand_in_the_order_of_their_starts_with_waits_from_submission():
    state = one_unit(make_job("a1"), make_job("b1", tenant="b"), make_job("a2"))
    run = run_of(state, NOW)
    assert [job.id for job in run.jobs] == ["a1", "b1", "a2"]
    assert run.place.tolist() == [1, 2, 3]
    assert run.waits().tolist() == [100.0, 160.0, 220.0]
    assert run.clear_at == 280.0
    assert (run.kept_out, run.approximate) == (0, 0)


def test_a_job_that_gets_a_start_only_as_a_limit_frees_is_there():
    mine = (("user", "u"),)
    live = make_live(make_job("j0", limits=mine), started_at=NOW)
    state = make_state(2, jobs=[make_job("a1", limits=mine)], live=[live], caps={mine[0]: 1})
    assert [job.id for job in run_of(state, NOW).jobs] == ["a1"]


def test_jobs_without_a_start_are_counted():
    state = one_unit(make_job("a1"), make_job("b1", tenant="b"), make_job("big", cost=9))
    state.hold("b")
    run = run_of(state, NOW)
    assert ([job.id for job in run.jobs], run.kept_out) == (["a1"], 2)


def test_jobs_behind_the_exact_part_are_approximate():
    run = run_of(one_unit(*(make_job(f"a{n}") for n in range(5))), NOW, exact=2)
    assert (len(run.jobs), run.approximate) == (5, 3)


def test_measured_times_stand_before_the_estimates():
    run = run_of(one_unit(make_job("a1", workflow="w")), NOW, measured={"w": 7.0})
    assert run.finishes.tolist() == [107.0]


def test_unit_seconds_are_cut_at_the_end_of_the_window():
    run = run_of(make_state(2, jobs=[make_job("a1", cost=2), make_job("a2", cost=2)]), NOW)
    assert run.cost_s(NOW + 90.0).tolist() == [120.0, 60.0]
    assert run.cost_s(NOW).tolist() == [0.0, 0.0]


def test_late_are_those_done_after_their_deadline_alone():
    jobs = [make_job("a1", deadline=160.0), make_job("a2", deadline=219.0), make_job("a3")]
    assert run_of(one_unit(*jobs), NOW).late().tolist() == [False, True, False]


def test_an_empty_pool_is_a_run_of_nothing():
    run = run_of(make_state(1), NOW)
    assert (len(run.jobs), run.clear_at, run.by(lambda job: job.tenant)) == (0, None, {})


def test_runs_of_two_pools_join_with_the_later_clear_time_of_each_tenant():
    first = run_of(one_unit(make_job("a1"), make_job("b1", tenant="b")), NOW)
    second = run_of(one_unit(make_job("a2", expected_s=5.0)), NOW)
    run = joined([first, second])
    assert [job.id for job in run.jobs] == ["a1", "b1", "a2"]
    assert run.place.tolist() == [1, 2, 1]
    assert dict(run.tenants) == {"a": 160.0, "b": 220.0}
    assert joined([second, first]).tenants["a"] == 160.0
    assert joined([first]) is first


@given(st.lists(st.sampled_from("abc")))
def test_every_row_is_in_the_group_of_its_name(names):
    found = grouped(names)
    assert set(found) == set(names)
    assert sorted(row for rows in found.values() for row in rows.tolist()) == list(
        range(len(names))
    )
    assert all(names[row] == name for name, rows in found.items() for row in rows.tolist())


@given(st.lists(st.integers(0, 1000), min_size=1))
def test_the_95th_percentile_is_the_nearest_rank(values):
    mean, p95 = mean_and_p95(np.array(values, dtype=np.float64))
    assert mean == pytest.approx(sum(values) / len(values))
    assert sum(one <= p95 for one in values) >= 0.95 * len(values)
    assert sum(one < p95 for one in values) < 0.95 * len(values)


def test_there_is_no_mean_of_nothing():
    assert mean_and_p95(np.empty(0)) is None


def test_jains_index_is_one_for_equals_and_falls_to_one_nth():
    assert jain([2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert jain([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([5.0]) is None
    assert jain([0.0, 0.0]) is None
