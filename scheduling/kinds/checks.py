"""Small checks that the kinds share; each returns the faults it found, and raises nothing."""

import json
import re
from collections.abc import Collection, Iterator
from math import isfinite
from typing import Any

from scheduling.kinds.contract import Fault, InvalidPayload, Payload

MAX_NAMED_VALUES = 12
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_AS_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def refuse(faults: list[Fault]) -> None:
    """Raise `InvalidPayload` if there is any fault, with the first of each field."""
    first: dict[str, Fault] = {}
    for fault in faults:
        first.setdefault(fault.field, fault)
    if first:
        raise InvalidPayload(tuple(first.values()))


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
    """Faults for what neither the database nor a request body can carry.

    PostgreSQL's jsonb refuses the NUL character, half of a surrogate pair has no UTF-8 form, and JSON
    has no word for what is no finite number (such as 1e999 is read as): all would fail long after
    submission, so they are refused at the door.
    """
    if _is_plain(payload):
        return []
    return [
        Fault(field=path, sentence=fault)
        for path, value in _leaves(payload)
        if (fault := _unstorable(value))
    ]


def _is_plain(payload: Payload) -> bool:
    """Tell whether one look at the whole as JSON finds nothing to look at value by value."""
    try:
        written = _AS_JSON.encode(payload)
    except (TypeError, ValueError, RecursionError):
        return False
    return "\\u0000" not in written and _UNSTORABLE.search(written) is None


def _unstorable(value: object) -> str:
    """Say what is wrong with a value, nothing if it can be stored."""
    if isinstance(value, str) and _UNSTORABLE.search(value):
        return "holds a NUL character or half of a surrogate pair; remove it"
    if isinstance(value, float) and not isfinite(value):
        return "is too large a number, or none; use a finite one"
    return ""


def _leaves(payload: Payload) -> Iterator[tuple[str, object]]:
    """Every value of a payload, keys included, with its path; a stack, for depth is not ours."""
    stack: list[tuple[str, Any]] = [("", payload)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                yield path or "payload", str(key)
                stack.append((f"{path}.{key}" if path else str(key), inner))
        elif isinstance(value, list | tuple):
            stack.extend((f"{path}[{index}]", inner) for index, inner in enumerate(value))
        else:
            yield path, value
