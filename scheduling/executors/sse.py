"""Incremental readers for what a model server streams: server-sent events, and JSON lines.

Both are fed bytes as they arrive, cut anywhere, and give whole events. For server-sent events:
lines end in LF, CR or CRLF; a line that starts with a colon is a comment (keep-alive) and gives
nothing; several `data:` lines make one event; an empty line ends it. An event whose closing empty
line never came is given by `close`, for some servers end at once after `data: [DONE]`.
"""

import codecs
from dataclasses import dataclass
from typing import Protocol

MAX_LINE_CHARS = 4_000_000


class LineTooLong(ValueError):
    """A line passed the bound that protects our memory; this is not a usable stream."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """The data of one event, and its name where it has one (`error`)."""

    data: str
    name: str = ""


class Reader(Protocol):
    """Bytes in, whole events out."""

    def feed(self, data: bytes) -> list[StreamEvent]: ...
    def close(self) -> list[StreamEvent]: ...


class Lines:
    """Splits bytes into lines of text; bad UTF-8 becomes U+FFFD, for a token may be cut in two."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """The lines completed by these bytes. Raises `LineTooLong`."""
        text = self._rest + self._decoder.decode(data)
        # A CR at the end may be half of a CRLF: keep it until the next byte tells.
        held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix(held).replace("\r\n", "\n").replace("\r", "\n")
        *lines, rest = text.split("\n")
        self._rest = rest + held
        if len(self._rest) > MAX_LINE_CHARS:
            message = f"a line of more than {MAX_LINE_CHARS:,} characters"
            raise LineTooLong(message)
        return lines

    def close(self) -> list[str]:
        """The last line, if it had no end."""
        rest, self._rest = self._rest.rstrip("\r"), ""
        return [rest] if rest else []


class SseReader:
    """Server-sent events."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._data: list[str] = []
        self._name = ""

    def feed(self, data: bytes) -> list[StreamEvent]:
        """The events completed by these bytes."""
        return [event for line in self._lines.feed(data) for event in self._line(line)]

    def close(self) -> list[StreamEvent]:
        """What had arrived of a last event without its empty line."""
        whole = [event for line in self._lines.close() for event in self._line(line)]
        return whole + self._line("")

    def _line(self, line: str) -> list[StreamEvent]:
        if not line:
            return self._end_event()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return []

    def _end_event(self) -> list[StreamEvent]:
        data, name = self._data, self._name
        self._data, self._name = [], ""
        return [StreamEvent("\n".join(data), name)] if data else []


class JsonLinesReader:
    """One event a line, as in Ollama's own API."""

    def __init__(self) -> None:
        self._lines = Lines()

    def feed(self, data: bytes) -> list[StreamEvent]:
        """The lines completed by these bytes."""
        return [StreamEvent(line) for line in self._lines.feed(data) if line.strip()]

    def close(self) -> list[StreamEvent]:
        """The last line, if it had no end."""
        return [StreamEvent(line) for line in self._lines.close()]
