"""The fair order by worked examples."""

from collections import Counter

import pytest

from scheduling.core.order.order import Order, StaleWalk
from scheduling.core.types import ClassRule, Memory, Spot
from tests.scheduling.core.order_cases import (
    LADDER,
    NORMAL,
    batch,
    filled,
    job,
    names,
    place_next,
    serve,
)


def test_the_seed_example_comes_out_as_written():
    jobs = [
        job(name, seq, tenant)
        for seq, (name, tenant) in enumerate(
            [("A", "1"), ("B", "1"), ("C", "2"), ("D", "1"), ("E", "2"), ("F", "3"), ("G", "1")]
        )
    ]
    order = filled(jobs, weights={"1": 2})
    assert names(order.walk_all()) == "A B C F D E G"
    assert [spot.turn for spot in order.walk_all()] == [0, 0, 0, 0, 1, 1, 1]


def test_the_order_of_arrival_within_an_instant_does_not_matter():
    jobs = batch("A", 3) + batch("B", 3, first=3)
    assert list(filled(jobs).walk_all()) == list(filled(reversed(jobs)).walk_all())


def test_a_thousand_old_jobs_do_not_starve_a_hundred_newer_ones():
    order = filled(batch("A", 1000) + batch("B", 100, first=1000, at=5.0))
    assert Counter(serve(order, 200)) == {"A": 100, "B": 100}


def test_a_single_late_job_is_among_the_next_two():
    order = filled(batch("A", 1000))
    serve(order, 50)
    order.add(job("late", 2000, "B", at=9.0))
    assert "B" in serve(order, 2)


def test_capacity_not_count_is_shared_when_the_charge_is_the_cost():
    big = batch("A", 100, charge=10)
    order = filled(big + batch("B", 500, first=100))
    charged: Counter[str] = Counter()
    for _ in range(220):
        spot = place_next(order)
        charged[spot.job.tenant] += spot.job.charge
    assert abs(charged["A"] - charged["B"]) <= 10


def test_a_fifo_class_goes_by_age_alone_and_charges_nobody():
    classes = (ClassRule(name="lane", fifo=True), *NORMAL)
    jobs = [job("a1", 1, "A"), job("a2", 2, "A"), job("b1", 3, "B"), job("old", 9, "B", at=-1.0)]
    order = filled([job(j.id, j.seq, j.tenant, j.submitted_at, "lane") for j in jobs], classes)
    assert names(order.walk("lane")) == "old a1 a2 b1"
    spot = order.head("lane")
    assert spot is not None
    assert (spot.turn, spot.workspace_turn) == (None, None)
    assert order.place(spot, 4.0) == (0, 0)
    order.correct("lane", "B", "b", 5, 0, 0)
    assert order.memory(("lane", "B", None)) == Memory(last_placed_at=4.0)


def test_classes_stand_in_strict_order():
    order = filled([job("n", 1), job("c", 2, class_name="critical")], LADDER)
    assert names(order.walk_all()) == "c n"
    assert order.head("batch") is None


def test_workspaces_share_their_tenants_turns():
    jobs = batch("A", 3, workspace="x") + batch("A", 3, first=3, workspace="y")
    order = filled(jobs, workspace_weights={"y": 2})
    assert names(order.walk_all()) == "A0 A3 A4 A1 A5 A2"
    assert [s.workspace_turn for s in order.walk_all()] == [0, 0, 0, 1, 1, 2]
    assert [s.turn for s in order.walk_all()] == [0, 1, 2, 3, 4, 5]


def test_a_deadline_reorders_its_own_workspace_only():
    jobs = [
        *batch("A", 2, workspace="x"),
        job("hurry", 2, workspace="x", deadline=1.0),
        job("b", 3, "B"),
        job("other", 4, workspace="y"),
    ]
    order = filled(jobs, deadlines=True)
    assert names(order.walk_all()) == "hurry b other A0 A1"
    assert names(filled(jobs).walk_all()) == "A0 b other A1 hurry"


def test_a_late_comer_gets_no_credit_for_idle_time():
    order = filled(batch("A", 100))
    serve(order, 50)
    for late in batch("B", 50, first=100):
        order.add(late)
    assert order.memory(("normal", "B", None)).turn == 49
    assert Counter(serve(order, 20)) == {"A": 10, "B": 10}


def test_a_lift_that_raises_a_line_gives_it_a_whole_turn():
    order = filled(batch("A", 2) + batch("B", 50, first=2), weights={"A": 3})
    serve(order, 12)
    line = order.memory(("normal", "A", None))
    assert (line.turn, line.used, line.backlogged) == (0, 2, False)
    order.add(job("late", 99))
    line = order.memory(("normal", "A", None))
    assert (line.turn, line.used, line.backlogged) == (9, 0, True)


def test_a_lift_that_does_not_raise_a_line_leaves_its_turn_begun():
    order = filled(batch("A", 1) + batch("B", 1, first=1), weights={"A": 3})
    serve(order, 2)
    order.add(job("late", 99))
    line = order.memory(("normal", "A", None))
    assert (line.turn, line.used, line.lifts) == (0, 1, 2)


def test_a_late_workspace_gets_no_credit_either():
    order = filled(batch("A", 100, workspace="x"))
    serve(order, 50)
    for late in batch("A", 50, first=100, workspace="y"):
        order.add(late)
    placed = [place_next(order).job.workspace for _ in range(20)]
    assert Counter(placed) == {"x": 10, "y": 10}


def test_a_held_tenant_leaves_the_order_and_comes_back_without_a_burst():
    order = filled(batch("A", 100) + batch("B", 100, first=100))
    order.block(("tenant", "A"), "hold")
    assert set(serve(order, 20)) == {"B"}
    assert len(order.blocked_jobs()) == 100
    assert order.why_blocked("A3") == ((("tenant", "A"), "hold"),)
    order.unblock(("tenant", "A"), "hold")
    assert order.why_blocked("A3") == ()
    assert Counter(serve(order, 21)) == {"A": 11, "B": 10}


def test_a_hold_reaches_jobs_that_come_later():
    order = filled([])
    order.block(("tenant", "A"), "hold")
    order.add(job("a", 1))
    assert list(order.walk_all()) == []
    order.unblock(("tenant", "A"), "hold")
    assert names(order.walk_all()) == "a"


def test_two_reasons_block_until_both_are_gone():
    order = filled([job("a", 1, limits=(("user", "u"),))])
    for key, why in [(("user", "u"), "limit"), (("user", "u"), "hold"), (("tenant", "A"), "x")]:
        order.block(key, why)
    order.unblock(("user", "u"), "limit")
    order.unblock(("user", "u"), "never set")
    order.unblock(("user", "unknown"), "limit")
    order.unblock(("user", "u"), "hold")
    assert list(order.walk_all()) == []
    order.unblock(("tenant", "A"), "x")
    assert names(order.walk_all()) == "a"


def test_a_full_workflow_limit_takes_only_its_own_jobs_out():
    order = filled(
        [
            job("a1", 1, limits=(("workflow", "w"),)),
            job("a2", 2, limits=(("workflow", "v"),)),
            job("a3", 3, limits=(("workflow", "w"), ("user", "u"))),
        ]
    )
    order.block(("workflow", "w"), "limit")
    assert names(order.walk_all()) == "a2"
    assert [each.id for each in order.blocked_jobs()] == ["a1", "a3"]


def test_a_weight_change_acts_on_the_backlog_and_rewrites_no_past():
    order = filled(batch("A", 100) + batch("B", 100, first=100))
    serve(order, 20)
    order.set_weight("A", 3)
    assert Counter(serve(order, 20)) == {"A": 15, "B": 5}
    order.set_weight("A", 1)
    assert Counter(serve(order, 20)) == {"A": 10, "B": 10}


def test_a_workspace_weight_change_acts_inside_the_tenant():
    order = filled(batch("A", 50, workspace="x") + batch("A", 50, first=50, workspace="y"))
    order.set_workspace_weight("x", 3)
    order.set_workspace_weight("x", 3)
    placed = [place_next(order).job.workspace for _ in range(20)]
    assert Counter(placed) == {"x": 15, "y": 5}


def test_an_underestimated_job_is_charged_the_rest():
    order = filled(batch("A", 50) + batch("B", 50, first=50))
    lifts = order.place(next(order.walk_all()), 0.0)
    order.correct("normal", "A", "a", 4, *lifts)
    assert serve(order, 6) == ["B"] * 5 + ["A"]


def test_an_overestimated_job_is_refunded():
    order = filled([job("big", 0, charge=10), *batch("A", 50, 1), *batch("B", 50, first=60)])
    lifts = order.place(next(order.walk_all()), 0.0)
    order.correct("normal", "A", "a", -9, *lifts)
    assert order.memory(("normal", "A", None)).turn == 1
    assert Counter(serve(order, 20)) == {"A": 10, "B": 10}


def test_a_refund_from_before_an_idle_time_is_dropped():
    order = filled([job("big", 0, charge=100), *batch("B", 100, first=1)])
    lifts = order.place(next(order.walk_all()), 0.0)
    serve(order, 50)
    for late in batch("A", 50, first=200):
        order.add(late)
    order.correct("normal", "A", "a", -99, *lifts)
    assert set(serve(order, 50)) == {"B"}


def test_a_refund_does_not_reach_back_past_a_lowered_weight():
    order = filled(batch("A", 50, charge=10) + batch("B", 50, first=50), weights={"A": 10})
    lifts = order.place(next(order.walk_all()), 0.0)
    order.set_weight("A", 1)
    order.correct("normal", "A", "a", -9, *lifts)
    assert order.memory(("normal", "A", None)).turn == 1


def test_a_job_placed_over_skipped_ones_does_not_set_newcomers_back():
    order = filled(batch("A", 1000))
    order.place(list(order.walk_all())[-1], 0.0)
    assert order.memory(("normal", "A", None)).turn == 1
    for late in batch("B", 20, first=1000):
        order.add(late)
    assert Counter(serve(order, 20)) == {"A": 10, "B": 10}


def test_a_walk_goes_on_over_the_spots_that_it_has_shown():
    order = filled(batch("A", 300, limits=(("user", "u"),)) + batch("B", 3, first=300))
    expected = list(order.walk_all())
    seen = []
    for spot in order.walk_all():
        seen.append(spot)
        order.place(spot, 0.0)
    assert seen == expected
    assert len(order) == 0


def test_a_walk_ends_when_the_order_changes_under_it():
    order = filled(batch("A", 3))
    walk = order.walk_all()
    next(walk)
    order.add(job("new", 9))
    with pytest.raises(StaleWalk, match="begin a new walk"):
        next(walk)


def test_aged_jobs_fall_back_when_one_of_them_is_placed_and_end_the_walk():
    order = filled(batch("A", 3), LADDER, age_after=60)
    order.advance(60)
    assert names(order.walk("critical")) == "A0 A1 A2"
    walk = order.walk_all()
    order.place(next(walk), 60)
    assert names(order.walk("normal")) == "A1 A2"
    with pytest.raises(StaleWalk):
        next(walk)


def test_a_job_that_is_not_there_cannot_be_placed():
    order = filled(batch("A", 2), LADDER)
    spot = order.head("normal")
    assert spot is not None
    wrong = Spot(job=spot.job, class_name="critical", turn=0, workspace_turn=0)
    with pytest.raises(ValueError, match="A0 is not to be had in critical"):
        order.place(wrong, 0.0)
    order.block(("tenant", "A"), "hold")
    with pytest.raises(ValueError, match="take a fresh spot"):
        order.place(spot, 0.0)
    order.remove("A0")
    with pytest.raises(ValueError, match="take a fresh spot"):
        order.place(spot, 0.0)


def test_jobs_are_found_by_id():
    order = filled(batch("A", 2))
    assert ("A1" in order, "A9" in order, len(order)) == (True, False, 2)
    assert order.get("A1") == batch("A", 2)[1]
    assert order.get("A9") is None
    assert order.remove("A1") == batch("A", 2)[1]
    assert order.remove("A1") is None


def test_a_job_is_taken_out_of_the_middle_of_a_line():
    order = filled(batch("A", 3))
    order.remove("A1")
    assert names(order.walk_all()) == "A0 A2"


def test_bad_jobs_are_refused_with_a_reason():
    order = filled(batch("A", 1))
    with pytest.raises(ValueError, match="A0 is in the order already"):
        order.add(job("A0", 5))
    with pytest.raises(ValueError, match="'gold' is no class of normal"):
        order.add(job("x", 5, class_name="gold"))


@pytest.mark.parametrize("weight", [0, -1])
def test_a_weight_below_one_is_refused(weight):
    with pytest.raises(ValueError, match="must be 1 or more"):
        Order(classes=NORMAL, weights={"A": weight})
    with pytest.raises(ValueError, match="must be 1 or more"):
        filled([]).set_weight("A", weight)
    with pytest.raises(ValueError, match="must be 1 or more"):
        filled([]).set_workspace_weight("a", weight)


def test_bad_class_tables_are_refused():
    with pytest.raises(ValueError, match="have one name"):
        Order(classes=NORMAL + NORMAL)
    for classes in [
        (ClassRule(name="a", ages_to="b"), ClassRule(name="b")),
        (ClassRule(name="a", fifo=True), ClassRule(name="b", ages_to="a")),
        (ClassRule(name="a", ages_to="a"),),
    ]:
        with pytest.raises(ValueError, match="name a higher, fair class"):
            Order(classes=classes)


def test_new_facts_leave_a_job_where_it_is():
    order = filled(batch("A", 3), LADDER, age_after=60)
    order.place(next(order.walk_all()), 0.0)
    order.remove("A2")
    lifts = order.memory(("normal", "A", None)).lifts
    order.replace(job("A1", 1, charge=7))
    assert order.memory(("normal", "A", None)).lifts == lifts
    place_next(order)
    assert order.memory(("normal", "A", None)).turn == 8


def test_new_facts_reach_a_job_that_has_aged():
    order = filled(batch("A", 1), LADDER, age_after=60)
    order.advance(60)
    order.replace(job("A0", 0, charge=3))
    assert order.stands_in("A0") == "critical"
    place_next(order, 60)
    assert order.memory(("critical", "A", None)).turn == 3


def test_a_new_class_moves_a_job():
    order = filled(batch("A", 1), LADDER)
    order.replace(job("A0", 0, class_name="critical"))
    assert names(order.walk("critical")) == "A0"
    with pytest.raises(KeyError):
        order.replace(job("A9", 9))


def test_new_facts_of_a_job_whose_class_does_not_age():
    order = filled(batch("A", 2))
    order.replace(job("A0", 0, charge=5))
    assert [spot.turn for spot in order.walk_all()] == [0, 5]


def test_the_end_of_one_workflow_leaves_the_block_of_the_tenant_in_force():
    order = filled([job("w", 0, limits=(("workflow", "w"),)), job("v", 1)])
    order.block(("tenant", "A"), "hold")
    order.remove("w")
    assert list(order.walk_all()) == []
    order.unblock(("tenant", "A"), "hold")
    assert names(order.walk_all()) == "v"
