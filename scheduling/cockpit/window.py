"""A window on a topic, and the difference between two versions of it.

A `View` is a short list of rows whose first column is the key. A subscription remembers the view
that it last sent; the next frame is the keyed difference:

- `rm` keys that left, `ins` [index, row] that came, `mv` [key, index] that stand elsewhere now,
  `up` [key, {column: value}] that changed in place;
- the receiver takes out `rm` and the moved ones, then puts `ins` and `mv` in by ascending index.

Only rows outside the longest ascending run count as moved, so a job that climbs over forty others
costs one entry. Times that moved by less than five seconds inside one displayed minute are not
sent, unless another time of the row is: a start and an end of different versions would make a wrong
length. They are compared with what was sent, so slow drift is not lost.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Row: TypeAlias = tuple[Any, ...]
Frame: TypeAlias = dict[str, Any]

NOISE_S = 5
MINUTE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The rows of one topic for one subscriber at one version.

    `places` are true places in the whole order where they do not follow from the offset (0: none);
    `times` are the columns that hold epoch seconds; `skipped` counts rows that came and went
    between two frames of an append-only topic.
    """

    cols: tuple[str, ...]
    rows: tuple[Row, ...]
    epoch: int
    seq: int
    at: float
    total: int
    off: int = 0
    policy: int = 0
    places: tuple[int, ...] | None = None
    times: frozenset[str] = frozenset()
    skipped: int = 0


def snap(sub_id: str, view: View) -> Frame:
    """Return the frame that carries the whole window."""
    frame: Frame = {
        "t": "snap",
        "id": sub_id,
        "epoch": view.epoch,
        "seq": view.seq,
        "at": view.at,
        "policy": view.policy,
        "total": view.total,
        "off": view.off,
        "cols": view.cols,
        "rows": view.rows,
    }
    if view.places is not None:
        frame["pl"] = view.places
    return frame


def calm(old: View, new: View) -> View:
    """Return `new` with the times that moved too little to show as they were sent before."""
    columns = [n for n, name in enumerate(new.cols) if name in new.times]
    if not columns:
        return new
    before = {row[0]: row for row in old.rows}
    rows = tuple(_calm_row(before.get(row[0]), row, columns) for row in new.rows)
    return replace(new, rows=rows)


def _calm_row(old: Row | None, new: Row, columns: list[int]) -> Row:
    if old is None or old == new or not all(_is_noise(old[n], new[n]) for n in columns):
        return new
    kept = list(new)
    for column in columns:
        kept[column] = old[column]
    return tuple(kept)


def _is_noise(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is new
    return abs(new - old) < NOISE_S and old // MINUTE_S == new // MINUTE_S


def delta(sub_id: str, old: View, new: View) -> Frame | None:
    """Return the frame that turns `old` into `new`, None when they look the same."""
    changes = _changes(old, new)
    if new.places is not None and new.places != old.places:
        changes["pl"] = new.places
    if new.total != old.total:
        changes["total"] = new.total
    if not changes:
        return None
    head: Frame = {"t": "d", "id": sub_id, "prev": old.seq, "seq": new.seq, "at": new.at}
    if new.policy != old.policy:
        head["policy"] = new.policy
    return head | changes


def _changes(old: View, new: View) -> Frame:
    before = {row[0]: (place, row) for place, row in enumerate(old.rows)}
    after = {row[0] for row in new.rows}
    kept = [(place, row) for place, row in enumerate(new.rows) if row[0] in before]
    steady = _ascending([before[row[0]][0] for _, row in kept])
    found: Frame = {
        "rm": [key for key in before if key not in after],
        "ins": [[place, row] for place, row in enumerate(new.rows) if row[0] not in before],
        "mv": [[row[0], place] for n, (place, row) in enumerate(kept) if n not in steady],
        "up": [
            [row[0], _updates(new.cols, before[row[0]][1], row)]
            for _, row in kept
            if before[row[0]][1] != row
        ],
    }
    return {name: entries for name, entries in found.items() if entries}


def _updates(cols: Sequence[str], old: Row, new: Row) -> dict[str, Any]:
    return {name: value for name, was, value in zip(cols, old, new, strict=True) if was != value}


def _ascending(places: list[int]) -> set[int]:
    """Return the positions of a longest ascending run (patience sorting, n log n)."""
    tops: list[int] = []
    at: list[int] = []
    back: list[int] = []
    for number, place in enumerate(places):
        pile = bisect_left(tops, place)
        tops[pile : pile + 1] = [place]
        at[pile : pile + 1] = [number]
        back.append(at[pile - 1] if pile else -1)
    run: set[int] = set()
    number = at[-1] if at else -1
    while number >= 0:
        run.add(number)
        number = back[number]
    return run
