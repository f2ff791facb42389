"""The difference between two views, as the browser applies it."""

from typing import Any, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from scheduling.cockpit.window import View, calm, delta, snap

Rows: TypeAlias = tuple[tuple[int, int], ...]


def view(rows: list[tuple[Any, ...]], seq: int = 1, **more: Any) -> View:
    more.setdefault("total", len(rows))
    return View(cols=("id", "start"), rows=tuple(rows), epoch=1, seq=seq, at=0.0, **more)


def applied(rows: list[list[Any]], frame: dict[str, Any]) -> list[list[Any]]:
    """Do what static/js/view.js does."""
    moved = dict(frame.get("mv", []))
    carried = {row[0]: row for row in rows if row[0] in moved}
    gone = set(frame.get("rm", [])) | set(moved)
    kept = [list(row) for row in rows if row[0] not in gone]
    coming = [(index, list(row)) for index, row in frame.get("ins", [])]
    coming += [(index, list(carried[key])) for key, index in moved.items()]
    for index, row in sorted(coming, key=lambda one: one[0]):
        kept.insert(index, row)
    changes = dict(frame.get("up", []))
    for row in kept:
        if "start" in changes.get(row[0], {}):
            row[1] = changes[row[0]]["start"]
    return kept


orders = st.lists(st.integers(0, 30), unique=True, max_size=20).flatmap(
    lambda ids: st.tuples(*[st.tuples(st.just(one), st.integers(0, 3)) for one in ids])
)


@given(old=orders, new=orders)
def test_a_difference_turns_the_old_window_into_the_new_one(old: Rows, new: Rows) -> None:
    before, after = view(list(old)), view(list(new), seq=2)
    frame = delta("q", before, after)
    if frame is None:
        assert before.rows == after.rows
    else:
        assert (frame["prev"], frame["seq"]) == (1, 2)
        assert applied([list(row) for row in old], frame) == [list(row) for row in new]


def test_a_job_that_climbs_over_forty_others_costs_one_entry() -> None:
    old = [(n, 0) for n in range(41)]
    frame = delta("q", view(old), view([old[-1], *old[:-1]], seq=2))
    assert frame is not None
    assert frame["mv"] == [[40, 0]]
    assert "rm" not in frame
    assert "ins" not in frame


def test_a_view_that_looks_the_same_sends_nothing() -> None:
    assert delta("q", view([(1, 5)]), view([(1, 5)], seq=9)) is None


def test_a_time_that_moves_by_less_than_five_seconds_in_a_minute_is_not_sent() -> None:
    old = view([(1, 600)], times=frozenset({"start"}))
    assert calm(old, view([(1, 604)], times=frozenset({"start"}))).rows == ((1, 600),)
    assert calm(old, view([(1, 605)], times=frozenset({"start"}))).rows == ((1, 605),)


def test_a_time_that_crosses_a_displayed_minute_is_sent() -> None:
    old = view([(1, 659)], times=frozenset({"start"}))
    assert calm(old, view([(1, 660)], times=frozenset({"start"}))).rows == ((1, 660),)


def test_a_time_is_sent_with_another_of_its_row_so_that_lengths_hold() -> None:
    def ends(rows: list[tuple[Any, ...]]) -> View:
        cols, times = ("id", "start", "end"), frozenset({"start", "end"})
        return View(
            cols=cols, rows=tuple(rows), epoch=1, seq=1, at=0.0, total=len(rows), times=times
        )

    assert calm(ends([(1, 600, 610)]), ends([(1, 603, 615)])).rows == ((1, 603, 615),)
    assert calm(ends([(1, 600, None)]), ends([(1, 603, None)])).rows == ((1, 600, None),)


def test_slow_drift_is_sent_once_it_adds_up() -> None:
    sent = view([(1, 600)], times=frozenset({"start"}))
    for now in (602, 604):
        sent = calm(sent, view([(1, now)], times=frozenset({"start"})))
    assert sent.rows == ((1, 600),)
    assert calm(sent, view([(1, 606)], times=frozenset({"start"}))).rows == ((1, 606),)


def test_a_snap_carries_true_places_where_they_do_not_follow_from_the_offset() -> None:
    frame = snap("q", view([(1, 5)], places=(17,)))
    assert frame["pl"] == (17,)
    assert "pl" not in snap("q", view([(1, 5)]))


def test_new_places_and_a_new_total_are_told() -> None:
    frame = delta("q", view([(1, 5)], places=(17,)), view([(1, 5)], seq=2, places=(16,), total=9))
    assert frame is not None
    assert frame["pl"] == (16,)
    assert frame["total"] == 9
