"""Frames of bounded size: whatever changes, the parts lead to the same window and none is long."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.cockpit import messages
from scheduling.cockpit.parts import FRAME_MOST, parts
from scheduling.cockpit.window import Frame, View, delta, snap
from tests.scheduling.cockpit.test_window import applied

LONG = "0190" * 9


def view(numbers: list[int], seq: int, start: int = 0) -> View:
    rows = tuple((f"{LONG}{number}", start + number % 3, LONG * 2) for number in numbers)
    cols = ("id", "start", "why")
    return View(cols=cols, rows=rows, epoch=1, seq=seq, at=1.0, total=len(rows))


def told(frame: Frame, to: View) -> list[dict[str, Any]]:
    """Return the parts as a browser reads them."""
    texts = [messages.write(part) for part in parts(frame, to)]
    assert max(len(text) for text in texts) <= FRAME_MOST
    found = [json.loads(text) for text in texts]
    assert ["more" in part for part in found] == [True] * (len(found) - 1) + [False]
    return found


def taken_in(rows: list[list[Any]], frames: list[dict[str, Any]], have: int) -> list[list[Any]]:
    """Apply frames one after the other as static/js/view.js does."""
    for frame in frames:
        assert frame["prev"] == have
        have = frame["seq"]
        rows = applied(rows, frame)
    return rows


def as_json(to: View) -> list[list[Any]]:
    return [list(row) for row in to.rows]


numbers = st.lists(st.integers(0, 120), unique=True, max_size=100)


@settings(max_examples=60, deadline=None)
@given(old=numbers, new=numbers, start=st.integers(0, 1))
def test_the_parts_of_a_difference_lead_to_the_new_window(
    old: list[int], new: list[int], start: int
) -> None:
    before, after = view(old, 4), view(new, 9, start)
    frame = delta("q", before, after)
    if frame is not None:
        assert taken_in(as_json(before), told(frame, after), have=4) == as_json(after)


@settings(max_examples=30, deadline=None)
@given(new=numbers)
def test_the_parts_of_a_whole_window_lead_to_it(new: list[int]) -> None:
    after = view(new, 9)
    first, *later = told(snap("q", after), after)
    assert (first["t"], first["total"]) == ("snap", len(new))
    assert taken_in(first["rows"], later, have=9) == as_json(after)


def test_a_short_frame_stays_one() -> None:
    after = view([1, 2], 9)
    frame = snap("q", after)
    assert list(parts(frame, after)) == [frame]


def test_the_head_of_a_difference_is_said_once_and_first() -> None:
    before = view(list(range(90)), 4)
    after = replace(view(list(range(40, 130)), 9), total=7, policy=3)
    frame = delta("q", before, after)
    assert frame is not None
    first, *later = told(frame, after)
    assert (first["prev"], first["seq"], first["total"], first["policy"]) == (4, 9, 7, 3)
    assert later
    assert all(part["prev"] == 9 and "total" not in part for part in later)
