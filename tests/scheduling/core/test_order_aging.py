"""Aging: who climbs, who falls back, and that it starves nobody."""

from collections import Counter

from scheduling.core.types import ClassRule
from tests.scheduling.core.order_cases import LADDER, batch, filled, job, names, place_next


def test_a_batch_job_climbs_two_classes_and_starts_between_120_and_125_seconds():
    order = filled(
        [job("b", 0, class_name="batch"), *batch("A", 2, first=1, class_name="critical")],
        LADDER,
        age_after=60,
    )
    started = {}
    for second in range(200):
        order.add(job(f"c{second}", 10 + second, at=float(second), class_name="critical"))
        started[place_next(order, float(second)).job.id] = second
    assert 120 <= started["b"] <= 125


def test_without_aging_a_batch_job_may_wait_for_ever():
    order = filled([job("b", 0, class_name="batch")], LADDER, age_after=0)
    for second in range(1000):
        order.add(job(f"c{second}", 10 + second, at=float(second), class_name="critical"))
        place_next(order, float(second))
    assert "b" in order


def test_aging_does_not_let_the_older_backlog_climb_over_everyone():
    for service in (1, 45, 70, 200):
        order = filled(batch("A", 1000), LADDER, age_after=60)
        for newer in batch("B", 100, first=1000, at=30.0):
            order.add(newer)
        tenants = Counter(place_next(order, 30.0 + service * n).job.tenant for n in range(1, 181))
        assert abs(tenants["A"] - tenants["B"]) <= 4, service


def test_only_the_oldest_jobs_of_a_tenant_climb():
    order = filled(batch("A", 5) + batch("B", 2, first=5), LADDER, age_after=60, age_limit=3)
    order.advance(59.9)
    assert names(order.walk("critical")) == ""
    order.advance(60)
    assert names(order.walk("critical")) == "A0 B5 A1 B6 A2"
    assert names(order.walk("normal")) == "A3 A4"


def test_a_job_behind_the_oldest_climbs_when_one_of_them_leaves():
    order = filled(batch("A", 3), LADDER, age_after=60, age_limit=1)
    order.advance(60)
    order.remove("A0")
    order.advance(60)
    assert names(order.walk("critical")) == "A1"


def test_a_blocked_job_does_not_climb_and_leaves_its_rank_to_the_next():
    limited = job("old", 0, limits=(("workflow", "w"),))
    order = filled([limited, job("new", 1)], LADDER, age_after=60, age_limit=1)
    order.advance(60)
    order.block(("workflow", "w"), "limit")
    order.advance(61)
    assert names(order.walk_all()) == "new"
    assert order.stands_in("new") == "critical"
    assert order.stands_in("old") == "normal"
    order.unblock(("workflow", "w"), "limit")
    order.advance(62)
    assert names(order.walk("critical")) == "old"


def test_an_older_job_that_comes_late_takes_the_rank():
    order = filled([job("new", 1, at=10.0)], LADDER, age_after=60, age_limit=1)
    order.advance(70)
    order.add(job("old", 2, at=0.0))
    order.advance(70)
    assert names(order.walk("critical")) == "old"
    assert names(order.walk("normal")) == "new"


def test_a_placement_puts_the_clock_of_its_own_class_back():
    jobs = [*batch("A", 2), job("b0", 8, class_name="batch"), job("b1", 9, class_name="batch")]
    order = filled(jobs, LADDER, age_after=60)
    order.advance(60)
    assert names(order.walk("critical")) == "A0 A1"
    assert names(order.walk("normal")) == "b0 b1"
    assert place_next(order, 60).job.id == "A0"
    assert names(order.walk("normal")) == "A1 b0 b1"
    order.advance(119.9)
    assert order.stands_in("A1") == "normal"
    order.advance(120)
    assert names(order.walk("critical")) == "A1 b0 b1"
    assert order.memory(("normal", "A", None)).last_placed_at == 60
    assert order.memory(("critical", "A", None)).last_placed_at is None


def test_the_charge_of_an_aged_job_goes_to_the_class_that_it_was_placed_from():
    order = filled(batch("A", 1, charge=4), LADDER, age_after=60)
    order.advance(60)
    place_next(order, 60)
    assert order.memory(("critical", "A", None)).turn == 4
    assert order.memory(("normal", "A", None)).turn == 0


def test_a_fifo_class_is_no_rung():
    classes = (
        ClassRule(name="top"),
        ClassRule(name="lane", fifo=True),
        ClassRule(name="mid"),
        ClassRule(name="low", ages_to="top"),
    )
    order = filled([job("a", 0, class_name="low")], classes, age_after=60)
    seen = []
    for now in (0, 60, 120, 600):
        order.advance(now)
        seen.append(order.stands_in("a"))
    assert seen == ["low", "mid", "top", "top"]


def test_jobs_of_a_fifo_class_may_age_out_of_it():
    classes = (ClassRule(name="top"), ClassRule(name="lane", fifo=True, ages_to="top"))
    order = filled(batch("A", 2, class_name="lane"), classes, age_after=60)
    order.advance(60)
    assert names(order.walk("top")) == "A0 A1"
    place_next(order, 60)
    assert names(order.walk("lane")) == "A1"


def test_a_fall_back_is_no_lift_where_the_line_was_backlogged():
    order = filled(batch("A", 30), LADDER, age_after=60, age_limit=2)
    order.advance(60)
    lifts = order.memory(("normal", "A", None)).lifts
    place_next(order, 60)
    assert order.memory(("normal", "A", None)).lifts == lifts


def test_an_older_job_that_comes_late_climbs_on_its_own_time():
    order = filled([job("new", 1, at=50.0)], LADDER, age_after=60)
    order.add(job("old", 2, at=0.0))
    order.advance(60)
    assert names(order.walk("critical")) == "old"
    order.advance(110)
    assert names(order.walk("critical")) == "old new"


def test_an_order_tells_when_somebody_may_climb_next():
    order = filled([job("b", 10, class_name="batch")], LADDER, age_after=60)
    order.advance(20)
    assert order.ages_at() <= 70
    assert filled([], LADDER, age_after=60).ages_at() == float("inf")
    assert filled([job("b", 10, class_name="batch")], LADDER, age_after=0).ages_at() == float("inf")
