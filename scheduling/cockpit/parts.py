"""Frames of at most 4 kB: a longer one goes out as several, each of which can be applied alone.

A browser draws between two frames, and a slow line carries other subscriptions' frames between
them, so no frame may be long. The parts of one version follow each other at once:

- of a whole window, the first rows, then the others as rows that come (`ins`) by ascending index;
- of a difference, what left and came (a row that only moved is said anew), then what changed.

All but the first have `prev` equal to `seq`, all but the last say `more`: the receiver applies
each as it comes, and acknowledges the last.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from scheduling.cockpit.window import Frame, View

FRAME_MOST = 4000
"""Bytes; two more, of the WebSocket frame itself, make no difference."""

MORE: Frame = {"more": True}
_encoder = msgspec.json.Encoder()


def parts(frame: Frame, view: View) -> Iterator[Frame]:
    """Yield a frame's parts, mostly one; `view` is what it leads to."""
    if _size(frame) <= FRAME_MOST:
        yield frame
        return
    cut = _of_snap(frame) if frame["t"] == "snap" else _of_difference(frame, view)
    *first, last = cut
    for part in first:
        yield part | MORE
    yield last


def _size(value: Any) -> int:  # noqa: ANN401 - anything that JSON can say
    return len(_encoder.encode(value))


def _of_snap(frame: Frame) -> Iterator[Frame]:
    bare = frame | {"rows": ()}
    groups = list(_groups(frame["rows"], FRAME_MOST - _size(bare | MORE)))
    yield bare | {"rows": groups[0]}
    yield from _later(frame, "ins", enumerate(frame["rows"][len(groups[0]) :], len(groups[0])))


def _of_difference(frame: Frame, view: View) -> Iterator[Frame]:
    """Begin with what the head says; the lists that fill a frame follow."""
    moved = dict(frame.get("mv", ()))
    coming = {row[0] for _, row in frame.get("ins", ())} | moved.keys()
    lists = ("rm", "ins", "mv", "up")
    yield {name: value for name, value in frame.items() if name not in lists}
    yield from _later(frame, "rm", [*frame.get("rm", ()), *moved])
    yield from _later(
        frame, "ins", ((place, row) for place, row in enumerate(view.rows) if row[0] in coming)
    )
    yield from _later(frame, "up", (one for one in frame.get("up", ()) if one[0] not in moved))


def _later(frame: Frame, name: str, entries: Iterable[Any]) -> Iterator[Frame]:
    head: Frame = {"t": "d", "id": frame["id"], "prev": frame["seq"]}
    head |= {"seq": frame["seq"], "at": frame["at"]}
    for group in _groups(list(entries), FRAME_MOST - _size(head | MORE | {name: ()})):
        yield head | {name: group}


def _groups(entries: Sequence[Any], room: int) -> Iterator[list[Any]]:
    """Yield the entries in groups that fit into the room; each has one at least."""
    group: list[Any] = []
    left = room
    for entry in entries:
        need = _size(entry) + 1
        if group and need > left:
            yield group
            group, left = [], room
        group.append(entry)
        left -= need
    if group:
        yield group
