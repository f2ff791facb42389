"""The stream readers: cut anywhere, every line end, comments, last events without an end."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.executors import sse
from scheduling.executors.sse import JsonLinesReader, LineTooLong, SseReader, StreamEvent

STREAM = (
    "\ufeff: hi\n\ndata: põe\ndata:  à mesa\n\nevent: error\ndata:x\n\nid: 1\n\ndata: é".encode()
)
EVENTS = [StreamEvent("põe\n à mesa"), StreamEvent("x", "error"), StreamEvent("é")]


def read(reader, *pieces):
    return [event for piece in pieces for event in reader.feed(piece)] + reader.close()


@given(st.lists(st.integers(0, len(STREAM)), max_size=8), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_cuts_and_line_ends_change_nothing(cuts, line_end):
    data = STREAM.replace(b"\n", line_end)
    edges = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    assert read(SseReader(), *pieces) == EVENTS


def test_each_byte_alone_gives_the_same():
    assert read(SseReader(), *(bytes([byte]) for byte in STREAM)) == EVENTS


def test_an_event_is_given_as_soon_as_it_is_whole():
    reader = SseReader()
    assert reader.feed(b"data: a\n\nda") == [StreamEvent("a")]
    assert reader.feed(b"ta: b\n") == []
    assert reader.feed(b"\n") == [StreamEvent("b")]
    assert reader.close() == []


def test_comments_alone_are_no_event():
    assert read(SseReader(), b":\n\n: keepalive\n\n") == []


def test_bad_utf8_does_not_stop_a_stream():
    assert read(SseReader(), b"data: \xff\n\n") == [StreamEvent("\ufffd")]


def test_a_line_without_end_is_bounded(monkeypatch):
    monkeypatch.setattr(sse, "MAX_LINE_CHARS", 10)
    with pytest.raises(LineTooLong):
        read(SseReader(), b"data: ", b"x" * 20)


def test_json_lines_are_events_and_empty_lines_are_not():
    assert read(JsonLinesReader(), b'{"a":', b"1}\n\n{}") == [
        StreamEvent('{"a":1}'),
        StreamEvent("{}"),
    ]
