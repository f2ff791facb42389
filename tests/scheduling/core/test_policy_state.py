import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.policy.cycle import cycle, waits
from scheduling.core.policy.limits import Limits
from scheduling.core.policy.settings import Policy
from scheduling.core.types import Pool, Reason
from tests.scheduling.core.pools import (
    make_executor,
    make_job,
    make_live,
    make_order,
    make_state,
)


def placed(state, now=0.0):
    return [placement.spot.job.id for placement in cycle(state, now)]


def test_when_the_dial_drops_a_job_that_no_longer_fits_is_shown_and_stops_nobody():
    state = make_state(6, jobs=[make_job("big", 5), make_job("small")])
    state.set_pool(Pool(id="p", budget=3))
    assert waits(state, 0.0, 9) == {"big": Reason.NEVER_FITS, "small": Reason.STARTS_NOW}
    assert placed(state) == ["small"]
    state.set_pool(Pool(id="p", budget=6))
    assert state.never_fits == {}
    assert placed(state) == ["big"]


def test_a_dial_below_use_kills_nothing_and_waits_until_it_has_drained():
    state = make_state(6, jobs=[make_job("a", 3), make_job("b", 3)])
    assert placed(state) == ["a", "b"]
    state.set_pool(Pool(id="p", budget=3))
    state.wait(make_job("c"))
    assert (state.free("normal"), placed(state)) == (-3, [])
    state.end("a")
    assert (state.free("normal"), placed(state)) == (0, [])
    state.end("b")
    assert placed(state) == ["c"]


def test_a_new_cost_acts_on_what_waits_and_on_what_runs_and_stops_nothing():
    other = make_job("other", 1, tenant="b", workflow="w", class_name="batch")
    jobs = [make_job("a", 2, workflow="w"), make_job("b", 2, workflow="w"), make_job("c"), other]
    state = make_state(6, jobs=jobs, live=[make_live(make_job("old", 2, workflow="w"))])
    state.start(make_live(make_job("else", 1)))
    state.recost("a", "w", 5)
    assert state.use.total == 6
    state.end("else")
    assert state.order.get("a").charge == 5
    assert state.order.get("other").cost == 1
    assert placed(state) == []
    state.end("old")
    assert placed(state) == ["a"]
    assert state.use.total == 5


def test_a_cost_that_no_longer_fits_blocks_its_jobs_until_it_is_lowered():
    state = make_state(6, jobs=[make_job("a", 2, workflow="w")])
    state.recost("a", "w", 9)
    assert list(state.never_fits) == ["a"]
    assert len(state.order) == 0
    state.recost("a", "w", 3)
    assert placed(state) == ["a"]


def test_a_held_tenants_jobs_stay_out_also_those_that_come_later():
    state = make_state(9, jobs=[make_job("a1"), make_job("b1", tenant="b")])
    state.hold("a")
    state.wait(make_job("a2"))
    assert placed(state) == ["b1"]
    state.unhold("a")
    assert placed(state) == ["a1", "a2"]


def test_a_larger_weight_gives_more_jobs_of_each_turn():
    jobs = [make_job(f"{t}{n}", tenant=t, submitted_at=float(n)) for n in range(3) for t in "ab"]
    state = make_state(3, jobs=jobs)
    state.set_weight("b", 2)
    assert placed(state) == ["a0", "b0", "b1"]


def test_a_job_leaves_from_wherever_it_waits():
    state = make_state(3, jobs=[make_job("a"), make_job("b", 9)])
    assert state.leave("a").id == "a"
    assert state.leave("b").id == "b"
    assert state.leave("c") is None
    assert (len(state.order), state.never_fits) == (0, {})


def test_new_facts_of_a_waiting_job_replace_the_old():
    job = make_job("a", 2)
    state = make_state(3, jobs=[job, make_job("b")])
    state.wait(make_job("a", 3, seq=job.seq))
    assert placed(state) == ["a"]


def test_a_live_job_cannot_wait_as_well():
    state = make_state(3, jobs=[make_job("a")])
    cycle(state, 0.0)
    with pytest.raises(ValueError, match="Job a is live"):
        state.wait(make_job("a"))


def test_an_executor_that_goes_away_takes_no_more_and_keeps_what_runs():
    state = make_state(3, jobs=[make_job("a")])
    cycle(state, 0.0)
    state.set_executors({"y": make_executor("y", available=False)})
    state.wait(make_job("b"))
    assert placed(state) == []
    assert state.end("a").executor == "x"
    state.set_executors({"y": make_executor("y")})
    assert placed(state) == ["b"]


def test_loading_at_the_start_puts_aside_what_never_fits():
    state = make_state(3)
    state.load([make_job("a"), make_job("b", 9)], 0.0)
    assert list(state.never_fits) == ["b"]
    assert placed(state) == ["a"]


def test_a_copy_runs_on_without_touching_its_original():
    jobs = [make_job(f"j{index}", limits=(("user", "u"),)) for index in range(4)]
    state = make_state(9, jobs=jobs, caps={("user", "u"): 2}, live=[make_live(make_job("old"))])
    copy = state.first(3)
    assert placed(copy) == ["j0", "j1"]
    copy.end("old")
    copy.end("j0")
    assert placed(copy) == ["j2"]
    assert (len(state.order), state.use.total, state.limits.counts) == (4, 1, {})
    assert placed(state) == ["j0", "j1"]


def test_a_cap_that_is_raised_or_lifted_lets_jobs_back_into_their_line():
    key = ("user", "u")
    state = make_state(9, jobs=[make_job(f"j{n}", limits=(key,)) for n in range(4)], caps={key: 0})
    assert placed(state) == []
    state.limits.set_caps({key: 1})
    assert placed(state) == ["j0"]
    state.limits.set_caps({key: 1, ("user", "v"): 1})
    assert placed(state) == []
    state.limits.set_caps({})
    assert placed(state) == ["j1", "j2", "j3"]


def test_lowering_a_cap_stops_nothing_that_runs():
    key = ("user", "u")
    state = make_state(9, jobs=[make_job(f"j{n}", limits=(key,)) for n in range(3)])
    assert len(placed(state)) == 3
    state.limits.set_caps({key: 1})
    state.wait(make_job("late", limits=(key,)))
    for done in ("j0", "j1"):
        state.end(done)
        assert placed(state) == []
    state.end("j2")
    assert placed(state) == ["late"]


KEYS = [("user", "u"), ("user", "v")]


@given(
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 2)),
    st.lists(st.tuples(st.booleans(), st.sampled_from(KEYS)), max_size=20),
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 2)),
)
def test_a_key_is_blocked_exactly_while_its_count_reaches_its_cap(caps, steps, later):
    limits, order = Limits(caps), make_order(Policy())
    limits.join(order)
    for key in KEYS:
        order.add(make_job(key[1], limits=(key,)))
    live = []
    for take, key in [*steps, (False, None)]:
        if take:
            limits.take([key])
            live.append(key)
        elif key in live:
            limits.give([key])
            live.remove(key)
        for checked in KEYS:
            full = checked in limits.caps and live.count(checked) >= limits.caps[checked]
            assert bool(order.why_blocked(checked[1])) is full
    limits.set_caps(later)
    blocked = {job.id for job in order.blocked_jobs()}
    assert blocked == {k[1] for k in KEYS if k in later and live.count(k) >= later[k]}


def test_a_key_without_a_cap_takes_its_scopes_default_while_it_has_live_jobs():
    ann, bob, key = ("user", "ann"), ("user", "bob"), ("key", "k")
    limits, order = Limits({bob: 2}, {ann: 1}, defaults={"user": 1}), make_order(Policy())
    limits.join(order)
    assert limits.caps == {bob: 2, ann: 1}
    assert [limits.take([one]) for one in (bob, key, ("user", "eve"))] == [False, False, True]
    assert limits.copy().caps == limits.caps == {bob: 2, ann: 1, ("user", "eve"): 1}
    limits.set_caps({ann: 3})
    assert limits.caps == {ann: 3, bob: 1, ("user", "eve"): 1}
    limits.give([bob])
    assert limits.counts == {ann: 1, key: 1, ("user", "eve"): 1}


def test_what_needs_no_worker_is_found_behind_all_that_waits_for_one():
    executors = [make_executor("x", 0, seats=2)]
    jobs = [make_job("a"), make_job("b", by_worker=False), make_job("c", by_worker=False)]
    state = make_state(9, jobs=jobs, executors=executors)
    assert state.has_free_slot()
    assert placed(state) == ["b", "c"]
    assert not state.has_free_slot()
    assert waits(state, 0.0, 9) == {"a": Reason.EXECUTOR_BUSY}
    state.end("b")
    assert not state.has_free_slot()
    state.wait(make_job("d", by_worker=False))
    assert [one.spot.job.id for one in cycle(state.first(9), 0.0)] == ["d"]
    state.leave("d")
    assert not state.has_free_slot()


def test_a_copy_of_the_front_knows_the_unmanned_jobs_of_the_front_alone():
    executors = [make_executor("x", 0, seats=2)]
    state = make_state(9, jobs=[make_job("a")], executors=executors)
    state.load([make_job("b", by_worker=False)], 0.0)
    assert state.has_free_slot()
    assert not state.first(1).has_free_slot()
    assert state.first(2).has_free_slot()


def test_an_unmanned_job_that_asks_for_something_else_is_known_by_that():
    executors = [make_executor("x", 0, ["m"], seats=1)]
    state = make_state(9, executors=executors)
    state.wait(make_job("a", by_worker=False, model="n"))
    assert not state.has_free_slot()
    state.wait(make_job("b", by_worker=False, model="n"))
    state.leave("b")
    state.wait(make_job("a", by_worker=False, model="m"))
    assert placed(state) == ["a"]
