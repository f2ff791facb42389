"""Reading a JSON body strictly: whatever two programs could read in two ways is refused.

Refused with a sentence each: malformed text (with line and column), duplicate keys, NaN and
infinite numbers, text that the database cannot keep (NUL, half of a surrogate pair), nesting
without end, a body that is no object, and one that is too large.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.parsers import BaseParser

from scheduling.api.problems import Problem, invalid
from scheduling.services.drafts import FieldError

_SUSPECT = re.compile(r"\\u(?:0000|d[89a-f])", re.IGNORECASE)
DEEPEST = 60
TOO_DEEP = f"The JSON is nested too deeply; {DEEPEST} levels are the most."


class StrictJSONParser(BaseParser):
    """Parses `application/json` in UTF-8 into an object."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the object of the body; raise a 400, 413 or 415 `Problem`."""
        _check_charset(media_type or "")
        return parse_object(_read(stream))


def parse_object(raw: bytes) -> dict[str, Any]:
    """Return the object that `raw` holds; raise a 400 `Problem` that says what is wrong where."""
    text = _text(raw)
    data = _load(text)
    if not isinstance(data, dict):
        detail = f"The body must be a JSON object, not {_kind(data)}."
        raise Problem(400, "malformed", detail)
    if _deeper(data, DEEPEST):
        raise Problem(400, "malformed", TOO_DEEP)
    for path in _unkeepable(data) if _SUSPECT.search(text) else ():
        sentence = "Holds a NUL character or half of a surrogate pair; take it out."
        raise invalid(FieldError(field=path, sentence=sentence))
    return data


def _read(stream: IO[Any]) -> bytes:
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    raw: bytes = stream.read(most + 1)
    if len(raw) > most:
        detail = f"A body may have at most {most} bytes; send the jobs in several calls."
        raise Problem(413, "too_large", detail)
    return raw


def _check_charset(media_type: str) -> None:
    found = re.search(r"charset=\"?([\w-]+)", media_type, re.IGNORECASE)
    if found and found[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(415, "unsupported_content_type", "JSON must be sent in UTF-8.")


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        detail = f"The body is no UTF-8 text: byte {error.start} is wrong."
        raise Problem(400, "malformed", detail) from None


def _load(text: str) -> object:
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_number
        )
    except json.JSONDecodeError as error:
        detail = f"Malformed JSON at line {error.lineno}, column {error.colno}: {error.msg}."
        extra = {"line": error.lineno, "column": error.colno}
        raise Problem(400, "malformed", detail, extra=extra) from None
    except RecursionError:
        raise Problem(400, "malformed", TOO_DEEP) from None
    except ValueError:  # only an integer of thousands of digits is left
        raise Problem(400, "malformed", "The JSON holds a number of too many digits.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    detail = f"The key {twice!r} stands twice in one object; keep one."
    raise Problem(400, "malformed", detail)


def _constant(name: str) -> float:
    detail = f"{name} is no JSON number; send a finite number or null."
    raise Problem(400, "malformed", detail)


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        return _constant(text)
    return value


def _deeper(value: object, left: int) -> bool:
    """Tell whether containers are nested more than `left` deep."""
    if isinstance(value, dict):
        return left == 0 or any(_deeper(inner, left - 1) for inner in value.values())
    if isinstance(value, list):
        return left == 0 or any(_deeper(inner, left - 1) for inner in value)
    return False


def _unkeepable(value: object, path: str = "") -> Iterator[str]:
    """Yield the paths of texts that the database refuses."""
    if isinstance(value, str):
        if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
            yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _unkeepable(key, path or "body")
            yield from _unkeepable(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _unkeepable(inner, f"{path}[{index}]")


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
