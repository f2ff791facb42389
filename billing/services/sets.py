"""Sets of values as PostgreSQL array literals.

A statement for a whole set takes one array a column. Adapting each element on its own is what most
of such a statement's time would go to, so the literal is written here in one pass.
"""

from collections.abc import Iterable, Sequence


def array(values: Iterable[object]) -> str:
    """Return the literal of an array; text is quoted, None is NULL, the rest speaks for itself.

    For ids, numbers, aware times (ISO form) and text; the statement casts it: `%s::uuid[]`.
    """
    return "{" + ",".join([_element(value) for value in values]) + "}"


def columns(rows: Iterable[Sequence[object]]) -> list[str]:
    """Turn rows (at least one, all alike) into one array literal a column."""
    return [array(column) for column in zip(*rows, strict=True)]


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value).replace(" ", "T")
