"""Rate windows: what counts, when they open, and what the walk makes of them."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.capacity.walk import Skip, Walk
from scheduling.core.eta.forecast import forecast
from scheduling.core.policy.cycle import cycle, run, waits
from scheduling.core.policy.limits import KEY_CAP, Limits
from scheduling.core.policy.windows import SPAN_S, Dispatched, Rate, Window
from scheduling.core.types import GLOBAL, Reason
from tests.scheduling.core.pools import make_executor, make_job, make_live, make_state

A, B = ("tenant", "a"), ("tenant", "b")
P, Q = ("provider", "p"), ("provider", "q")


def executors(slots=9):
    return [make_executor("x", slots, ["m"], provider="p")]


def two_providers(slots=9):
    return [*executors(slots), make_executor("y", slots, ["m", "n"], provider="q")]


def rated(rates, budget=99, *, jobs=(), caps=None, live=(), **changes):
    changes.setdefault("executors", executors())
    state = make_state(budget, jobs=(), live=live, caps=caps, **changes)
    state.limits.set_rates(rates)
    for job in jobs:
        state.wait(job)
    return state


def placed(state, now=0.0):
    return [one.spot.job.id for one in cycle(state, now)]


def jobs(names, **changes):
    return [make_job(name, **changes) for name in names]


def test_a_dispatch_leaves_the_window_after_a_minute_to_the_instant():
    window = Window(Rate(requests=1))
    window.add(10.0, 5)
    assert not window.has_room(1, 69.9)
    assert window.opens_at(1, 20.0) == 70.0
    assert window.used(69.9) == (1, 5)
    assert window.has_room(1, 70.0)
    assert window.used(70.0) == (0, 0)


def test_tokens_may_fill_the_window_to_the_last_and_no_further():
    window = Window(Rate(tokens=10), [(0.0, 4)])
    assert window.has_room(6, 1.0)
    assert not window.has_room(7, 1.0)


def test_a_job_above_the_rate_has_the_window_to_itself():
    window = Window(Rate(tokens=10))
    assert window.has_room(50, 0.0)
    window.add(0.0, 50)
    assert not window.has_room(1, 59.0)
    assert window.opens_at(1, 59.0) == 60.0


def test_a_window_opens_when_enough_of_what_it_counts_has_left():
    window = Window(Rate(requests=3, tokens=10), [(0.0, 4), (5.0, 4), (9.0, 2)])
    assert window.opens_at(1, 10.0) == 60.0
    assert window.opens_at(5, 10.0) == 65.0
    assert Window(Rate()).opens_at(5, 10.0) == 10.0


def test_what_is_taken_back_counts_no_more_and_once_only():
    window = Window(Rate(requests=2), [(0.0, 3)])
    window.add(1.0, 4)
    copy = window.copy()
    window.take_back(1.0, 4)
    window.take_back(1.0, 4)
    assert window.used(2.0) == (1, 3)
    assert copy.used(2.0) == (2, 7)


@given(
    st.lists(st.tuples(st.floats(0, 40), st.integers(0, 30)), max_size=40),
    st.integers(1, 4),
    st.integers(1, 50),
)
def test_no_minute_wherever_it_begins_holds_more_than_the_rate(asked, requests, tokens):
    window, done, now = Window(Rate(requests=requests, tokens=tokens)), [], 0.0
    for step, amount in asked:
        now += step
        opens_at = window.opens_at(amount, now)
        assert (opens_at == now) == window.has_room(amount, now)
        window.add(opens_at, amount)
        done.append((opens_at, amount))
        now = opens_at
    for begins, _ in done:
        held = [amount for at, amount in done if begins <= at < begins + SPAN_S]
        assert len(held) <= requests
        assert sum(held) <= tokens or sum(one > 0 for one in held) == 1


def test_a_tenants_full_window_delays_its_own_jobs_alone():
    state = rated(
        {A: Rate(requests=2)},
        jobs=[*jobs(["a1", "a2", "a3"]), *jobs(["b1", "b2", "b3"], tenant="b")],
    )
    assert sorted(placed(state)) == ["a1", "a2", "b1", "b2", "b3"]
    assert waits(state, 1.0, 9) == {"a3": Reason.RATE_WINDOW}
    assert state.opens_at == state.limits.opens_at() == 60.0
    assert placed(state, 59.9) == []
    assert placed(state, 60.0) == ["a3"]
    assert state.opens_at == inf


def test_a_small_job_does_not_take_what_its_tenants_large_one_waits_for():
    state = rated({A: Rate(tokens=10)}, jobs=[make_job("a1", tokens=6), make_job("a2", tokens=8)])
    state.wait(make_job("a3", tokens=1))
    assert placed(state) == ["a1"]
    assert placed(state, 30.0) == []
    assert placed(state, 60.0) == ["a2", "a3"]


def test_before_a_cycle_those_behind_in_a_closed_window_are_told_so():
    state = rated({A: Rate(tokens=10)}, jobs=[make_job("a2", tokens=8), make_job("a3", tokens=1)])
    state.limits.spend([A], 6, 0.0)
    assert waits(state, 1.0, 9) == {"a2": Reason.RATE_WINDOW, "a3": Reason.RATE_WINDOW}


def test_a_providers_full_window_is_closed_to_those_behind():
    state = rated({P: Rate(tokens=10)}, jobs=[make_job("b1", tenant="b", tokens=1)])
    state.wait(make_job("a1", tokens=8, submitted_at=-1.0))
    state.limits.spend([P], 6, 0.0)
    assert waits(state, 1.0, 9) == {"a1": Reason.RATE_WINDOW, "b1": Reason.RATE_WINDOW}
    assert placed(state, 1.0) == []
    assert (state.opens_at, state.limits.opens_at()) == (60.0, inf)
    assert placed(state, 60.0) == ["a1", "b1"]


def test_a_full_window_sends_a_job_to_another_provider_that_may_run_it():
    state = rated({P: Rate(requests=1)}, executors=two_providers(), jobs=jobs("abc", model="m"))
    found = {one.spot.job.id: one.executor for one in cycle(state, 0.0)}
    assert found == {"a": "x", "b": "y", "c": "y"}


def test_a_closed_provider_leaves_the_others_open():
    state = rated({P: Rate(requests=1)}, executors=two_providers(1))
    state.limits.spend([P], 0, 0.0)
    state.executors["y"] = make_executor("y", 9, ["n"], provider="q")
    state.set_executors(state.executors)
    for job in (make_job("a", model="m"), make_job("b", model="m"), make_job("c", model="n")):
        state.wait(job)
    assert placed(state, 1.0) == ["c"]


def test_a_job_whose_executors_are_busy_or_closed_closes_both():
    full = [make_executor("x", 9, ["m"], provider="p"), make_executor("y", 1, ["m"], provider="q")]
    state = rated({P: Rate(tokens=10)}, executors=full)
    state.start(make_live(make_job("old"), executor="y"))
    state.limits.spend([P], 6, 0.0)
    walk = Walk(state.room(1.0))
    large, small = make_job("a", model="m", tokens=8), make_job("b", model="m", tokens=1)
    for job in (large, small):
        answer = walk.test(job, uses_reserve=False, candidates=state.candidates(job))
        assert answer == Skip(Reason.EXECUTOR_BUSY)
    assert walk.closed_providers == {"p"}


def test_a_providers_running_limit_counts_what_runs_there_and_is_shared():
    state = rated({}, caps={P: 2}, jobs=jobs("abc"))
    assert placed(state) == ["a", "b"]
    assert waits(state, 1.0, 9) == {"c": Reason.SHARED_LIMIT}
    assert state.limits.counts == {P: 2}
    state.end("a")
    assert placed(state, 1.0) == ["c"]


def test_nothing_is_looked_at_once_all_that_may_run_is_taken(monkeypatch):
    state = rated({}, caps={GLOBAL: 1}, jobs=jobs("abcd", shared=(GLOBAL,)))
    asked = []
    test = Walk.test

    def count(walk, job, **more):
        asked.append(job.id)
        return test(walk, job, **more)

    monkeypatch.setattr(Walk, "test", count)
    assert placed(state) == ["a"]
    assert asked == ["a"]
    state.end("a")
    state.limits.set_caps({("pool", "p"): 1})
    state.limits.set_rates({P: Rate(requests=1)})
    state.limits.spend([P], 0, 0.0)
    asked.clear()
    assert placed(state, 1.0) == []
    assert asked == ["b"]


def test_a_full_pool_limit_starts_nothing_and_the_jobs_are_told():
    pool = ("pool", "p")
    state = rated({}, caps={pool: 1}, jobs=jobs("ab", shared=(pool,)))
    assert placed(state) == ["a"]
    assert waits(state, 1.0, 9) == {"b": Reason.SHARED_LIMIT}


def test_a_placement_that_is_undone_leaves_no_trace_in_the_windows():
    state = rated({A: Rate(requests=1), P: Rate(tokens=10)}, jobs=[make_job("a", tokens=4)])
    placement = cycle(state, 0.0)[0]
    assert [state.limits.windows[key].used(0.0) for key in (A, P)] == [(1, 4), (1, 4)]
    state.undo(placement)
    state.undo(placement)
    assert [state.limits.windows[key].used(0.0) for key in (A, P)] == [(0, 0), (0, 0)]
    other = rated({B: Rate(requests=1)}, jobs=[make_job("a", tokens=4)])
    other.undo(cycle(other, 0.0)[0])
    assert other.limits.windows[B].used(0.0) == (0, 0)


def test_new_rates_begin_with_what_was_dispatched_and_open_what_was_shut():
    state = rated({A: Rate(requests=1)}, jobs=jobs(["a1", "a2", "a3"]))
    assert placed(state) == ["a1"]
    recent = [Dispatched(0.0, "a", "p", 7)]
    state.limits.set_rates({A: Rate(requests=2), Q: Rate(requests=1)}, recent)
    assert state.limits.windows[A].used(1.0) == (1, 7)
    assert placed(state, 1.0) == ["a2"]


def test_a_copy_keeps_the_windows_and_goes_its_own_way():
    state = rated({A: Rate(requests=1)}, jobs=jobs(["a1", "a2"]))
    assert placed(state) == ["a1"]
    copy = state.first(9)
    assert waits(copy, 1.0, 9) == {"a2": Reason.RATE_WINDOW}
    assert placed(copy, 60.0) == ["a2"]
    assert waits(state, 59.0, 9) == {"a2": Reason.RATE_WINDOW}


def test_a_forecast_takes_windows_as_open_and_leaves_shut_jobs_without_an_eta():
    state = rated({A: Rate(requests=1), P: Rate(requests=2)}, jobs=jobs(["a1", "a2"]))
    for job in jobs(["b1", "b2"], tenant="b"):
        state.wait(job)
    assert sorted(placed(state)) == ["a1", "b1"]
    found = forecast(state, 1.0)
    assert dict(zip(found.job_ids, found.starts, strict=True)) == {"b2": 1.0}


def test_a_concurrency_key_has_one_holder_at_a_time_and_leaves_nothing_behind():
    repo = ("key", "repo")
    limits = Limits({}, defaults=KEY_CAP)
    state = make_state(9, jobs=jobs("ab", shared=(repo,)), limits=limits)
    assert placed(state) == ["a"]
    assert waits(state, 1.0, 9) == {"b": Reason.SHARED_LIMIT}
    copy = limits.copy()
    assert copy.is_any_full([repo])
    state.end("a")
    assert (limits.caps, limits.counts, limits.is_any_full([repo])) == ({}, {}, False)
    assert placed(state, 1.0) == ["b"]
    assert copy.is_any_full([repo])


@pytest.mark.parametrize("cap", [1, 2])
def test_a_cap_of_its_own_lets_a_key_have_more_holders(cap):
    repo = ("key", "repo")
    limits = Limits({repo: cap}, defaults=KEY_CAP)
    state = make_state(9, jobs=jobs("abc", shared=(repo,)), limits=limits)
    assert len(placed(state)) == cap


def test_run_tells_that_capacity_was_left_for_more():
    state = rated({P: Rate(requests=1)}, executors=two_providers(), jobs=jobs("a", model="m"))
    assert run(state, 0.0).drained
