"""What the order remembers, over saving, restarts and copies."""

from scheduling.core.order.order import Order
from scheduling.core.types import Memory, MemoryKey
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


def test_only_changed_memory_is_handed_out_for_saving():
    order = filled(batch("A", 2) + batch("B", 1, first=2))
    order.memory_changes()
    place_next(order, 3.0)
    root, line, inner = ("normal", None, None), ("normal", "A", None), ("normal", "A", "a")
    served = Memory(turn=1, lifts=1, backlogged=True)
    changes = order.memory_changes()
    assert changes[inner] == served
    assert changes[line].last_placed_at == 3.0
    assert set(changes) == {line, inner}
    assert order.memory_changes() == {}
    serve(order, 2)
    assert order.memory(root).top == 1
    assert set(order.memory_changes()) == {
        root,
        line,
        inner,
        *(("normal", "B", w) for w in (None, "b")),
    }


def test_saved_memory_is_read_until_a_line_is_used():
    saved: dict[MemoryKey, Memory] = {("normal", "A", None): Memory(turn=5, used=3)}
    order = Order(classes=NORMAL, memory=saved, weights={"A": 2})
    assert order.memory(("normal", "A", None)).used == 3
    assert order.memory(("normal", "B", None)) == Memory()
    order.add(job("a", 1))
    assert order.memory(("normal", "A", None)).used == 1
    assert order.weight(("normal", "A", None)) == 2
    assert order.weight(("normal", None, None)) == 1


def test_a_weight_change_reaches_a_line_that_is_known_from_saved_memory_only():
    key: MemoryKey = ("normal", "A", None)
    order = Order(classes=NORMAL, memory={key: Memory(used=3, lifts=1)}, weights={"A": 4})
    order.set_weight("A", 2)
    assert order.memory(key) == Memory(used=1, lifts=2)
    assert order.memory_changes() == {key: Memory(used=1, lifts=2)}


def saved_memory(order):
    """What a shell would have on disk."""
    return order.memory_changes()


def test_a_restart_with_the_saved_memory_changes_nothing():
    jobs = batch("A", 9, charge=3) + batch("B", 9, first=9) + batch("C", 1, first=20)
    order = filled(jobs, LADDER, age_after=60)
    lifts = order.place(next(order.walk_all()), 0.0)
    order.correct("normal", "A", "a", -2, *lifts)
    serve(order, 7)
    again = Order(classes=LADDER, memory=saved_memory(order), age_after=60)
    again.load([order.get(f"{t}{n}") for t in "AB" for n in range(18) if f"{t}{n}" in order], 0.0)
    assert list(again.walk_all()) == list(order.walk_all())
    assert again.memory_changes() == {}


def test_a_line_that_was_idle_at_a_restart_is_lifted():
    order = filled([job("a", 0), *batch("B", 50, first=1)])
    serve(order, 20)
    again = Order(classes=NORMAL, memory=saved_memory(order))
    again.load(batch("B", 10, first=30) + batch("A", 10, first=60), 0.0)
    assert again.memory(("normal", "A", None)).turn == again.memory(("normal", None, None)).top


def test_a_line_that_lost_its_jobs_during_a_restart_is_idle():
    order = filled(batch("A", 2))
    again = Order(classes=NORMAL, memory=saved_memory(order))
    again.load([], 0.0)
    assert not again.memory(("normal", "A", None)).backlogged
    again.add(job("A7", 7))
    assert again.memory(("normal", "A", None)).lifts == 2


def test_the_first_jobs_make_an_independent_order():
    order = filled(
        batch("A", 20) + batch("B", 20, first=20) + batch("C", 20, first=40),
        LADDER,
        weights={"B": 2},
        workspace_weights={"b": 3},
        age_after=60,
    )
    order.block(("tenant", "C"), "limit")
    serve(order, 5)
    order.advance(60)
    expected = list(order.walk_all())[:10]
    copy = order.first(10)
    assert list(copy.walk_all()) == expected
    assert [each.id for each in copy.blocked_jobs()] == [f"C{n}" for n in range(40, 50)]
    before = list(order.walk_all())
    serve(copy, 10, now=60)
    copy.unblock(("tenant", "C"), "limit")
    assert names(copy.walk("normal")).startswith("C40 C41")
    assert list(order.walk_all()) == before


def test_a_correction_reaches_a_line_that_no_job_has_stood_in_since_the_start():
    order = Order(classes=NORMAL, memory={("normal", "A", None): Memory(turn=5, lifts=2)})
    order.correct("normal", "A", "a", 3, 2, 0)
    assert order.memory(("normal", "A", None)).turn == 8
    assert order.memory(("normal", "A", "a")).turn == 3
