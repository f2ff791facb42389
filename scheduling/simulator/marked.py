"""YAML and JSON as plain values that remember their lines, so that each fault can be shown.

The reading goes by the parser's events, so a long file stands in memory once. Scalars are read by
the core schema of YAML 1.2, of which JSON is a part: `no` is a text and `1e3` a number. A key that
stands twice is a fault. Aliases share what their anchor holds; as a few lines of them can stand
for billions of values (a "billion laughs" bomb), what they stand for is counted, and bounded.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scheduling.simulator.errors import InvalidScenario, refusal

MOST_BYTES = 256 * 1024 * 1024
MOST_VALUES = 5_000_000
MOST_DEPTH = 40
_LONGEST_NUMBER = 300
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_FLAGS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TEXT_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
_PAIR = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)


class Block(dict[str, Any]):
    """A mapping; `lines` are the lines of its keys."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self.lines: dict[str, int] = {}


class Listing(list[Any]):
    """A sequence; `lines` are the lines of its items."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self.lines: list[int] = []


def load(path: Path) -> Block:
    """Return the mapping that a YAML or JSON file holds; raise `InvalidScenario`."""
    text = _text(path)
    try:
        value = _Composer(path.name, text).whole()
    except yaml.MarkedYAMLError as error:
        line = min(error.problem_mark.line + 1, len(text.splitlines())) if error.problem_mark else 0
        raise refusal(path.name, f"Is no valid YAML: {error.problem}.", line) from None
    except yaml.reader.ReaderError:
        bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
        line = text.count("\n", 0, bad.start()) + 1 if bad else 0
        raise refusal(path.name, "Holds a control character.", line) from None
    if not isinstance(value, Block):
        raise refusal(path.name, "Must be an object of keys and values.", 1)
    return value


def line_of(root: object, path: str) -> int:
    """Return the line of the deepest part of `path` that there is (keys may hold dots)."""
    line, node, parts = 1, root, path.split(".")
    while parts:
        taken = _step(node, parts)
        if taken is None:
            break
        key, used = taken
        line, node, parts = node.lines[key], node[key], parts[used:]  # type: ignore[attr-defined,index]
    return line


def _step(node: object, parts: list[str]) -> tuple[Any, int] | None:
    """Return the key of `node` that the path goes through, and how many parts it takes."""
    if isinstance(node, Listing):
        at = int(parts[0]) if parts[0].isdecimal() else len(node)
        return (at, 1) if at < len(node) else None
    if not isinstance(node, Block):
        return None
    tries = ((".".join(parts[:used]), used) for used in range(len(parts), 0, -1))
    return next((one for one in tries if one[0] in node), None)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise refusal(path.name, f"Is longer than {MOST_BYTES:,} bytes; use a trace instead.")
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise refusal(path.name, f"Cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refusal(path.name, "Is no text in UTF-8.", line) from None
    return _as_yaml(text) if text.lstrip()[:1] in ("{", "[") else text


def _as_yaml(text: str) -> str:
    """Return JSON without what YAML refuses: tabs between values, and halves of a character."""
    text = text.replace("\t", " ")
    return _PAIR.sub(lambda found: found[1] + _joined(found[2], found[3]), text)


def _joined(high: str, low: str) -> str:
    return bytes.fromhex(high + low).decode("utf-16-be", "replace")


class _Composer:
    """Builds one document's values from the parser's events."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._count = 0
        self._anchors: dict[str, tuple[Any, int]] = {}

    def whole(self) -> object:
        """Return the value of the only document."""
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        value = self._value(next(self._events), 0)
        next(self._events)
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise self._wrong(after, "Must hold one document; a second begins here.")
        return value

    def _wrong(self, event: Any, sentence: str) -> InvalidScenario:  # noqa: ANN401 - untyped events
        return refusal(self._file, sentence, event.start_mark.line + 1)

    def _value(self, event: Any, depth: int) -> object:  # noqa: ANN401
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event)
        if depth > MOST_DEPTH:
            raise self._wrong(event, f"Is nested deeper than {MOST_DEPTH} levels.")
        before = self._count
        self._counted(event, 1)
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._listing(event, depth)
        else:
            value = self._block(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._count - before)
        return value

    def _counted(self, event: Any, values: int) -> None:  # noqa: ANN401
        self._count += values
        if self._count > MOST_VALUES:
            raise self._wrong(event, f"Holds more than {MOST_VALUES:,} values; use a generator.")

    def _aliased(self, event: Any) -> object:  # noqa: ANN401
        if event.anchor not in self._anchors:
            raise self._wrong(event, f"*{event.anchor} names no anchor that ends before it.")
        value, size = self._anchors[event.anchor]
        self._counted(event, size)
        return value

    def _listing(self, start: Any, depth: int) -> Listing:  # noqa: ANN401
        self._untagged(start)
        listing = Listing()
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            listing.lines.append(event.start_mark.line + 1)
            listing.append(self._value(event, depth + 1))
        return listing

    def _block(self, start: Any, depth: int) -> Block:  # noqa: ANN401
        self._untagged(start)
        block, merged = Block(), []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, line = self._key(event), event.start_mark.line + 1
            value = self._value(next(self._events), depth + 1)
            if key == "<<" and event.implicit[0]:
                merged += self._merged(event, value)
            elif key in block:
                first = block.lines[key]
                raise self._wrong(event, f"The key {key} stands twice; first on line {first}.")
            else:
                block[key], block.lines[key] = value, line
        for other in merged:
            _fill(block, other)
        return block

    def _key(self, event: Any) -> str:  # noqa: ANN401
        if not isinstance(event, yaml.ScalarEvent):
            raise self._wrong(event, "A key must be a plain name.")
        self._counted(event, 1)
        return str(event.value)

    def _merged(self, event: Any, value: object) -> list[Block]:  # noqa: ANN401
        blocks = value if isinstance(value, Listing) else [value]
        if not all(isinstance(one, Block) for one in blocks):
            raise self._wrong(event, "<< takes in objects alone.")
        return list(blocks)

    def _untagged(self, event: Any) -> None:  # noqa: ANN401
        if event.tag is not None and not event.implicit:
            raise self._wrong(event, f"The tag {event.tag} is not known here.")

    def _scalar(self, event: Any) -> object:  # noqa: ANN401
        if event.tag in _TEXT_TAGS:
            return event.value
        if event.tag is not None:
            raise self._wrong(event, f"The tag {event.tag} is not known here.")
        return _resolved(event.value) if event.implicit[0] else event.value


def _fill(block: Block, other: Block) -> None:
    for key, value in other.items():
        if key not in block:
            block[key], block.lines[key] = value, other.lines[key]


def _resolved(text: str) -> object:
    """Return what a plain scalar stands for by the core schema of YAML 1.2."""
    if text in _NOTHING:
        return None
    if text in _FLAGS:
        return _FLAGS[text]
    if _WHOLE.fullmatch(text) and len(text) <= _LONGEST_NUMBER:
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", "").lower())
    return text
