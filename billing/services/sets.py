"""Sets of values as PostgreSQL array literals.

A statement for a whole set takes one array a column. Adapting each element on its own is what most
of such a statement's time would go to, so the literal is written here in one pass.
"""

import json
import uuid
from collections.abc import Iterable, Sequence

from msgspec.json import Encoder

_JSON = Encoder()


def array(values: Iterable[object]) -> str:
    """Return the literal of an array; text is quoted, None is NULL, the rest speaks for itself.

    For ids, numbers, aware times (ISO form) and text; the statement casts it: `%s::uuid[]`.
    """
    found = tuple(values)
    if len(found) == 1:
        return "{" + _element(found[0]) + "}"
    if found and found[0] == found[-1] and found.count(found[0]) == len(found):
        # many columns of a set say one thing throughout
        return "{" + ",".join([_element(found[0])] * len(found)) + "}"
    return "{" + ",".join([_element(value) for value in found]) + "}"


def columns(rows: Iterable[Sequence[object]], width: int = 0) -> list[str]:
    """Turn rows, all alike, into one array literal a column.

    `width` is how many columns there are, for sets that may be empty.
    """
    return [array(column) for column in zip(*rows, strict=True)] or ["{}"] * width


def json_text(value: object) -> str:
    """Return a value as JSON text for a `jsonb` column; a Decimal is text, a NaN null."""
    try:
        return _JSON.encode(value).decode()
    except (UnicodeEncodeError, TypeError):  # half a surrogate pair, a key that is no text
        return json.dumps(value)


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, uuid.UUID):
        return value.hex
    return str(value).replace(" ", "T")
