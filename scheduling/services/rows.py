"""Rows in sets: instances of models made cheaply, and one INSERT for all rows of a table.

Django's constructor and inserts look at each column of each row anew, which is most of the time
that a set of some hundred rows takes; here that is done once a process.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import NOT_PROVIDED, Field, JSONField, Model
from django.db.models.base import ModelState

from billing.services.sets import array, json_text

Row = TypeVar("Row", bound=Model)
Write = Callable[[Any], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """How rows with a model's attributes are inserted.

    `insert` takes one array literal a column; `writes` says by the column's place how its values
    are turned into what a literal can hold, where that needs saying.
    """

    insert: str
    read: Callable[[object], Sequence[object]]
    writes: Mapping[int, Write]

    def literals(self, rows: Iterable[object]) -> list[str]:
        """Return the columns of the rows (at least one)."""
        found = zip(*map(self.read, rows), strict=True)
        return [
            array(map(self.writes[place], column) if place in self.writes else column)
            for place, column in enumerate(found)
        ]


@lru_cache(maxsize=16)
def table_of(model: type[Model], *also: str) -> Table:
    """Return a model's table; the database fills its defaults, but for the fields `also` named."""
    meta = model._meta
    fields: list[Field[Any, Any]] = [
        field
        for field in meta.concrete_fields
        if field is not meta.auto_field and (not _is_given(field) or field.name in also)
    ]
    names = ", ".join(f'"{field.column}"' for field in fields)
    taken = ", ".join(f'k."{field.column}"{_cast(field)}' for field in fields)
    arrays = ", ".join(f"%s::{_carrier(field)}[]" for field in fields)
    writes = {place: _write(field) for place, field in enumerate(fields)}
    into = f'INSERT INTO "{meta.db_table}" ({names}) '
    return Table(
        insert=into + f"SELECT {taken} FROM unnest({arrays}) k({names})",  # noqa: S608 (names alone)
        read=attrgetter(*[field.attname for field in fields]),
        writes={place: write for place, write in writes.items() if write is not None},
    )


def row_new(
    model: type[Row], related: Mapping[str, Model | None] | None = None, /, **values: object
) -> Row:
    """Return an instance with these values by attribute, and defaults for all others.

    Nothing is stored yet, though the row says so; what the database gives (arrival number, times)
    is None until it is.
    `related` are rows by the names of their foreign keys, whose ids are among the values. It is
    put together as unpickling does it: the constructor would take most of a submission's time.
    """
    constants, makers = _defaults(model)
    row = model.__new__(model)
    row.__dict__.update(constants)
    row.__dict__.update({name: make() for name, make in makers if name not in values})
    row.__dict__.update(values)
    row._state = ModelState()
    row._state.db, row._state.adding = DEFAULT_DB_ALIAS, False
    row._state.fields_cache.update(related or {})
    return row


@lru_cache(maxsize=16)
def _defaults(
    model: type[Model],
) -> tuple[dict[str, object], list[tuple[str, Callable[[], object]]]]:
    """Return the defaults that never change, and what makes the others."""
    constants: dict[str, object] = {}
    makers: list[tuple[str, Any]] = []
    for field in model._meta.concrete_fields:
        if callable(field.default) and field.default is not NOT_PROVIDED:
            makers.append((field.attname, field.default))
        else:
            constants[field.attname] = None if _is_given(field) else field.get_default()
    return constants, makers


def _is_given(field: "Field[Any, Any]") -> bool:
    return field.db_default is not NOT_PROVIDED


def _cast(field: "Field[Any, Any]") -> str:
    return f"::{field.db_type(connection)}" if isinstance(field, ArrayField) else ""


def _carrier(field: "Field[Any, Any]") -> str:
    """Return the type in which a column's values travel: text where an array could not hold them.

    A cast to `varchar(n)` would cut what is too long without a word; the column itself refuses it.
    """
    kind = str(field.db_type(connection))
    return "text" if isinstance(field, ArrayField) or kind.startswith("varchar") else kind


def _write(field: "Field[Any, Any]") -> Write | None:
    if isinstance(field, ArrayField):
        return array
    if isinstance(field, JSONField):
        return lambda value: None if value is None else json_text(value)
    return None
