"""Who makes room for whom: the rule itself, case by case."""

from dataclasses import replace

import pytest

from scheduling.core.preemption import Head, Rules, Runner, victims
from scheduling.core.types import Pool
from tests.scheduling.core.pools import make_executor, make_job, make_live

CLASSES = ("incident", "critical", "normal", "batch")
RULES = Rules(
    ranks={name: place for place, name in enumerate(CLASSES)}, min_run_s=60.0, most_times=2
)
NOW = 1000.0


def runner(name, cost=1, class_name="normal", *, preempted=0, executor="x", at=0.0):
    live = make_live(make_job(name, cost, class_name=class_name), executor=executor, started_at=at)
    return Runner(live=live, uses_reserve=class_name == "incident", preempted=preempted)


def chosen(cost, runners, *, class_name="critical", budget=8, reserve=0, executors=None, **more):
    head = Head(
        job=make_job("head", cost, class_name=class_name),
        uses_reserve=class_name == "incident",
        executors=executors or [make_executor()],
    )
    pool = Pool(id="p", budget=budget, reserve=reserve)
    found = victims(head, runners, pool=pool, rules=replace(RULES, **more), now=NOW)
    return [live.job_id for live in found]


def test_no_more_stop_than_the_head_needs():
    runners = [runner(f"p{index}", 2) for index in range(4)]
    assert chosen(4, runners) == ["p3", "p2"]
    assert chosen(3, runners) == ["p3", "p2"]
    assert chosen(2, runners) == ["p3"]


def test_free_units_count_before_any_victim():
    runners = [runner(f"p{index}", 2) for index in range(3)]
    assert chosen(4, runners) == ["p2"]
    assert chosen(2, runners) == []


def test_the_lowest_class_stops_first_and_in_it_the_latest_started():
    runners = [
        runner("old", 2, "normal", at=1.0),
        runner("new", 2, "normal", at=2.0),
        runner("low", 2, "batch", at=0.0),
        runner("also", 2, "batch", at=0.0),
    ]
    assert chosen(2, runners) == ["low"]
    assert chosen(4, runners) == ["low", "also"]
    assert chosen(6, runners) == ["low", "also", "new"]


def test_who_is_not_needed_any_more_is_spared():
    runners = [runner("small", 1, "batch"), runner("big", 7, "normal")]
    assert chosen(5, runners) == ["big"]


@pytest.mark.parametrize("class_name", ["incident", "critical"])
def test_an_equal_or_higher_class_is_never_stopped(class_name):
    assert chosen(4, [runner("p", 8, class_name)]) == []


def test_who_may_not_yield_has_just_begun_or_was_preempted_enough_is_spared():
    whole = runner("whole", 4, preempted=None)
    young = runner("young", 4, at=NOW - 59.0)
    tired = runner("tired", 4, preempted=2)
    assert chosen(4, [whole, runner("x", 4)]) == ["x"]
    assert chosen(4, [young, runner("x", 4)]) == ["x"]
    assert chosen(4, [tired, runner("x", 4)]) == ["x"]
    assert chosen(4, [young, tired]) == []
    assert chosen(4, [young, tired], min_run_s=59.0) == ["young"]
    assert chosen(4, [young, tired], most_times=3) == ["tired"]


def test_nobody_stops_for_a_head_that_would_not_fit_even_then():
    assert chosen(8, [runner("p", 7), runner("same", 1, "critical")]) == []
    assert chosen(4, [runner("p", 8)], executors=[make_executor("off", 0)]) == []


def test_a_head_that_waits_for_a_slot_stops_only_what_runs_where_it_can_run():
    one, other = make_executor("x", 1), make_executor("y", 1)
    runners = [runner("here", executor="x"), runner("there", class_name="batch", executor="y")]
    assert chosen(1, runners, executors=[one]) == ["here"]
    assert chosen(1, runners, executors=[one, other]) == ["there"]
    crowded = [runner("a", executor="x"), runner("b", executor="x")]
    assert chosen(1, crowded, executors=[one]) == ["b", "a"]


def test_a_head_that_lacks_both_gets_both_from_as_few_as_it_takes():
    executors = [make_executor("x", 1)]
    runners = [
        runner("other", 4, "batch", executor="y"),
        runner("here", 4, "normal", executor="x"),
    ]
    assert chosen(4, runners, executors=executors) == ["here"]
    assert chosen(8, runners, executors=executors) == ["other", "here"]


def test_a_general_head_is_given_nothing_by_what_runs_in_the_reserve_alone():
    ranks = {"critical": 0, "incident": 1, "normal": 2}
    runners = [runner("fire", 2, "incident"), runner("p", 6, "normal")]
    assert chosen(2, runners, reserve=2, ranks=ranks) == ["p"]
    assert chosen(2, [runner("fire", 8, "incident")], reserve=2, ranks=ranks) == ["fire"]


def test_an_incident_needs_no_victim_where_the_reserve_is_free():
    runners = [runner("p", 6)]
    assert chosen(2, runners, class_name="incident", reserve=2) == []
    assert chosen(3, runners, class_name="incident", reserve=2) == ["p"]


def test_what_needs_no_units_stops_nobody_for_an_overdrawn_pool():
    assert chosen(0, [runner("p", 8)], budget=4) == []
    assert chosen(0, [runner("p", 8)], budget=4, executors=[make_executor("x", 1)]) == ["p"]


def call(name, class_name="normal"):
    """A live call: it holds a slot, and no worker of ours."""
    live = make_live(make_job(name, 0, class_name=class_name, by_worker=False))
    return Runner(live=live, uses_reserve=False, preempted=0)


def test_slots_of_callers_leave_workers_theirs():
    executors = [make_executor(slots=2, seats=10)]
    runners = [runner("p", 8, "batch"), *(call(f"c{index}") for index in range(5))]
    assert chosen(4, runners, executors=executors) == ["p"]


def test_a_head_that_lacks_a_worker_stops_no_caller():
    executors = [make_executor(slots=1, seats=10)]
    runners = [runner("p", 1, "normal"), call("c", "batch")]
    assert chosen(1, runners, executors=executors) == ["p"]


def test_where_all_seats_are_taken_a_caller_makes_room_too():
    executors = [make_executor(slots=2, seats=2)]
    runners = [runner("p", 1, "normal"), call("c", "batch")]
    assert chosen(1, runners, executors=executors) == ["c"]


def test_the_minimum_is_over_at_the_sum_that_a_clock_is_set_to():
    start = 4.1
    assert start + 60.0 - start < 60.0  # as a difference it is not over then
    live = make_live(make_job("p"), executor="x", started_at=start)
    assert RULES.has_run(live, start + 60.0)
    assert not RULES.has_run(live, start + 59.0)
