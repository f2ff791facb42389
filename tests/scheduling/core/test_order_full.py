"""The full pass on columns."""

import numpy as np

from scheduling.core.order.full import NO_TURN, columns_of, full_order, ordered
from scheduling.core.types import ClassRule
from tests.scheduling.core.order_cases import LADDER, NORMAL, batch, filled, job, serve


def test_an_empty_pool_has_an_empty_order():
    assert ordered(filled([])) == []


def test_the_rows_and_turns_are_those_of_the_walk():
    classes = (ClassRule(name="lane", fifo=True), *LADDER)
    jobs = [
        *batch("A", 5, charge=3),
        *batch("B", 5, first=5, at=1.0),
        *batch("C", 3, first=10, class_name="lane"),
        *batch("A", 3, first=20, class_name="batch"),
    ]
    order = filled(jobs, classes, weights={"A": 2})
    serve(order, 4)
    standing = list(order.startable())
    full = full_order(columns_of(order, standing))
    spots = list(order.walk_all())
    assert [standing[row][0] for row in full.rows] == [spot.job for spot in spots]
    turns = [NO_TURN if spot.turn is None else spot.turn for spot in spots]
    assert full.turn.tolist() == turns
    assert full.workspace_turn.tolist() == [
        NO_TURN if spot.workspace_turn is None else spot.workspace_turn for spot in spots
    ]


def test_huge_charges_do_not_overflow():
    jobs = batch("A", 50, charge=10**12) + batch("B", 50, first=50, charge=10**6)
    order = filled(jobs)
    assert ordered(order) == list(order.walk_all())


def test_many_jobs_and_wide_turns_are_sorted_by_every_digit():
    jobs = [
        job(f"j{n}", n, "ABC"[n % 3], at=float(n % 7), charge=1 + n * n % 90_000)
        for n in range(400)
    ]
    order = filled(jobs, weights={"A": 3})
    assert ordered(order) == list(order.walk_all())
    assert ordered(order)[-1].turn > 2**16


def test_a_fifo_class_is_one_line_whoever_the_jobs_belong_to():
    lane = (ClassRule(name="lane", fifo=True), *NORMAL)
    jobs = [
        job("late", 0, "A", at=5.0, class_name="lane", deadline=1.0),
        job("soon", 1, "B", at=1.0, class_name="lane", deadline=9.0),
        job("fair", 2, "B", at=0.0, deadline=9.0),
        job("first", 3, "B", at=3.0, deadline=2.0),
    ]
    order = filled(jobs, lane, deadlines=True)
    assert [spot.job.id for spot in ordered(order)] == ["soon", "late", "first", "fair"]


def test_blocked_jobs_are_left_out():
    order = filled(batch("A", 2) + batch("B", 2, first=2), NORMAL)
    order.block(("tenant", "A"), "hold")
    assert [spot.job.tenant for spot in ordered(order)] == ["B", "B"]


def test_a_job_cannot_pass_an_older_place_in_its_own_line():
    jobs = [job("x", 0, at=9.0, deadline=1.0), job("y", 1, at=0.0), job("b", 2, "B", at=5.0)]
    order = filled(jobs, deadlines=True)
    full = full_order(columns_of(order, [(each, "normal") for each in jobs]))
    assert [jobs[row].id for row in full.rows] == ["b", "x", "y"]
    assert np.all(np.diff(full.turn) >= 0)
