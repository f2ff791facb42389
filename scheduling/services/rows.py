"""Inserting many model instances by COPY: several times faster than multi-row INSERTs.

The database's defaults fill what an instance leaves to them; they are not read back.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection
from django.db.models import Field, JSONField, Model
from django.db.models.expressions import DatabaseDefault


def rows_copy(rows: Sequence[Model]) -> None:
    """Insert instances of one model, all of which leave the same fields to the database."""
    if not rows:
        return
    fields = [field for field in rows[0]._meta.concrete_fields if _is_given(rows[0], field)]
    names = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    table = connection.ops.quote_name(rows[0]._meta.db_table)
    readers = [_reader(field) for field in fields]
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row([read(row) for read in readers])


def _is_given(row: Model, field: "Field[Any, Any]") -> bool:
    value = getattr(row, field.attname)
    return not isinstance(value, DatabaseDefault) and not (field.primary_key and value is None)


def _reader(field: "Field[Any, Any]") -> Callable[[Model], object]:
    name = field.attname
    if not isinstance(field, JSONField):
        return lambda row: getattr(row, name)

    def read(row: Model) -> str | None:
        value = getattr(row, name)
        return None if value is None and field.null else json.dumps(value)

    return read
