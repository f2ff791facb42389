"""Small checks that the kinds share; each returns the faults it found, and raises nothing."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from scheduling.kinds.contract import Fault, InvalidPayload, Payload

MAX_NAMED_VALUES = 12
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_AS_JSON = json.JSONEncoder(ensure_ascii=False)


def refuse(faults: list[Fault]) -> None:
    """Raise `InvalidPayload` if there is any fault."""
    if faults:
        raise InvalidPayload(tuple(faults))


def unknown_fields(value: Payload, allowed: Collection[str], where: str = "") -> list[Fault]:
    """A fault for each key that is not allowed; `where` is a path prefix such as `messages[0].`."""
    unknown = [key for key in value if key not in allowed]
    if not unknown:
        return []
    known = ", ".join(sorted(allowed)[:MAX_NAMED_VALUES])
    sentence = f"is not a known field here; known are {known}"
    return [Fault(field=f"{where}{key}", sentence=sentence) for key in unknown]


def missing_fields(value: Payload, required: Collection[str]) -> list[Fault]:
    """A fault for each required key that is absent."""
    return [
        Fault(field=key, sentence="is required") for key in sorted(required) if key not in value
    ]


def whole_number(name: str, value: object, low: int, high: int) -> list[Fault]:
    """A fault unless the value is an integer of [low, high]; true and false are no numbers."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return []
    return [Fault(field=name, sentence=f"must be a whole number from {low:,} to {high:,}")]


def number(name: str, value: object, low: float, high: float) -> list[Fault]:
    """A fault unless the value is a finite number of [low, high]."""
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        return []  # NaN fails both comparisons, an infinity one
    return [Fault(field=name, sentence=f"must be a number from {low:g} to {high:g}")]


def one_of(name: str, value: object, allowed: Collection[str]) -> list[Fault]:
    """A fault unless the value is one of the allowed words."""
    if isinstance(value, str) and value in allowed:
        return []
    return [Fault(field=name, sentence=f"must be one of {', '.join(sorted(allowed))}")]


def storable(payload: Payload) -> list[Fault]:
    """Faults for text that neither the database nor a request body can carry.

    PostgreSQL's jsonb refuses the NUL character, and half of a surrogate pair has no UTF-8 form:
    both would fail long after submission, so they are refused at the door.
    """
    if _is_plain(payload):
        return []
    return [
        Fault(field=path, sentence="holds a NUL character or half of a surrogate pair; remove it")
        for path, text in _texts(payload)
        if _UNSTORABLE.search(text)
    ]


def _is_plain(payload: Payload) -> bool:
    """Tell whether one look at the whole as JSON finds nothing to look at text by text."""
    try:
        written = _AS_JSON.encode(payload)
    except (TypeError, ValueError, RecursionError):
        return False
    return "\\u0000" not in written and _UNSTORABLE.search(written) is None


def _texts(payload: Payload) -> Iterator[tuple[str, str]]:
    """Every text of a payload, keys included, with its path; a stack, for depth is not ours."""
    stack: list[tuple[str, Any]] = [("", payload)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            for key, inner in value.items():
                yield path or "payload", str(key)
                stack.append((f"{path}.{key}" if path else str(key), inner))
        elif isinstance(value, list | tuple):
            stack.extend((f"{path}[{index}]", inner) for index, inner in enumerate(value))
