"""Many jobs put in at once stand as if they had come one by one; scopes without jobs stay bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.order.order import Order
from scheduling.core.order.scopes import IDLE_MOST, Scopes
from scheduling.core.types import ClassRule, Memory
from tests.scheduling.core.order_cases import LADDER, batch, filled, job, names

NOW = 100.0
SETTINGS = {"classes": (ClassRule(name="now", fifo=True), *LADDER), "age_after": 30, "age_limit": 2}
MEMORY = {
    ("normal", None, None): Memory(top=3),
    ("normal", "A", None): Memory(turn=5, lifts=2, last_placed_at=80.0),
    ("batch", "B", "one"): Memory(turn=1, lifts=1),
}


@st.composite
def jobs(draw):
    """Jobs of two tenants, workspaces, limits and four classes, in any order of age."""
    return [
        job(
            f"j{seq}",
            seq,
            draw(st.sampled_from("AB")),
            at=float(draw(st.integers(0, 9)) * 10),
            class_name=draw(st.sampled_from(("now", "critical", "normal", "batch"))),
            workspace=draw(st.sampled_from(("one", "two"))),
            limits=draw(st.sampled_from(((), (("workflow", "w"),)))),
            deadline=draw(st.sampled_from((None, 50.0, 60.0))),
            charge=draw(st.integers(1, 3)),
        )
        for seq in range(draw(st.integers(0, 14)))
    ]


def empty(blocked, **more):
    order = Order(**SETTINGS, weights={"A": 2}, memory=MEMORY, **more)
    for key in blocked:
        order.block(key, "test")
    return order


def drained(order):
    """What stands where, what is remembered, and who is placed when as time goes on."""
    seen = [list(order.walk_all()), order.blocked_jobs(), order.memory_changes()]
    now = NOW
    while (spot := next(order.walk_all(), None)) is not None:
        seen.append((spot, order.place(spot, now)))
        now += 20.0
        order.advance(now)
    return [*seen, order.memory_changes()]


@given(
    jobs(),
    st.sets(st.sampled_from([("tenant", "A"), ("workspace", "two"), ("workflow", "w")])),
    st.booleans(),
)
def test_jobs_loaded_at_once_stand_as_if_each_had_been_added(backlog, blocked, deadlines):
    one_by_one = empty(blocked, deadlines=deadlines)
    for each in backlog:
        one_by_one.add(each)
    one_by_one.advance(NOW)
    at_once = empty(blocked, deadlines=deadlines)
    at_once.load(backlog, NOW)
    assert drained(at_once) == drained(one_by_one)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (job("A0", 9), "in the order already"),
        (job("new", 9, class_name="gold"), "'gold' is no class of normal"),
    ],
)
def test_a_bad_job_among_many_is_refused_and_none_comes_in(bad, sentence):
    order = filled([])
    with pytest.raises(ValueError, match=sentence):
        order.load([*batch("A", 2), bad], NOW)
    assert (len(order), list(order.walk_all())) == (0, [])


def test_a_block_reaches_the_next_job_of_a_tenant_whose_last_one_has_left():
    order = filled(batch("A", 1))
    order.remove("A0")
    order.block(("tenant", "A"), "hold")
    order.add(job("later", 1))
    assert (names(order.walk_all()), order.open_classes()) == ("", [])
    order.remove("later")
    order.unblock(("tenant", "A"), "hold")
    order.add(job("last", 2))
    assert names(order.walk_all()) == "last"


def test_a_tenant_without_jobs_that_is_blocked_keeps_nobody_out():
    order = filled([*batch("A", 1), job("b", 9, "B")])
    order.remove("b")
    order.block(("tenant", "B"), "hold")
    assert order.blocked_jobs() == []


def entered(scopes, count):
    return [scopes.enter((f"t{n}", "w", (("user", f"u{n}"),))) for n in range(count)]


def test_scopes_without_jobs_are_dropped_when_they_are_more_than_half():
    scopes = Scopes()
    opened = entered(scopes, 10 * IDLE_MOST)
    kept = opened[: 2 * IDLE_MOST]
    for scope in opened[len(kept) :]:
        scopes.leave(scope)
    assert len(kept) <= len(scopes) <= 2 * len(kept)
    assert scopes.block(("tenant", "t0"), "hold") == [kept[0]]
    assert scopes.enter(kept[1].identity) is kept[1]


def test_a_few_scopes_without_jobs_stay_for_the_next_job():
    scopes = Scopes()
    for _ in range(3):
        opened = entered(scopes, IDLE_MOST)
        for scope in opened:
            scopes.leave(scope)
    assert len(scopes) == IDLE_MOST
    assert entered(scopes, IDLE_MOST) == opened


def test_scopes_that_come_and_go_do_not_add_up():
    scopes = Scopes()
    for n in range(50 * IDLE_MOST):
        scopes.leave(scopes.enter((f"t{n}", "w", ())))
        assert len(scopes) <= IDLE_MOST + 1
    assert scopes.block(("tenant", "t0"), "hold") == []
    assert not scopes.any_shut()
