"""Cursor paging on a unique key: every row that stays put is seen once, whatever else moves.

A cursor names the last row that was given by its arrival number, which no two rows share, so
rows of one transaction cannot fall between two pages.
"""

from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from rest_framework.request import Request

from scheduling.api.endpoint import whole_number
from scheduling.api.problems import invalid
from scheduling.services.drafts import FieldError

PAGE_SIZE = 50
LARGEST_PAGE = 500
PAGE_FILTERS = frozenset({"cursor", "page_size"})

Row = TypeVar("Row", bound=Model)


def page(rows: QuerySet[Row], request: Request, *, key: str, newest_first: bool) -> dict[str, Any]:
    """Return {"results": rows of this page, "next_cursor": text or None}.

    `key` is a unique whole-number column. Raises a 400 `Problem` for a cursor that is none.
    """
    size = whole_number(request, "page_size", PAGE_SIZE, (1, LARGEST_PAGE))
    after = _read(request.query_params.get("cursor"), key)
    if after is not None:
        rows = rows.filter(**{f"{key}__lt" if newest_first else f"{key}__gt": after})
    found = list(rows.order_by(f"-{key}" if newest_first else key)[: size + 1])
    more = len(found) > size
    last = getattr(found[size - 1], key) if more else None
    return {"results": found[:size], "next_cursor": f"{key}.{last}" if more else None}


def _read(text: str | None, key: str) -> int | None:
    if text is None:
        return None
    name, _, number = text.partition(".")
    if name != key or not (number.isascii() and number.isdecimal()) or len(number) > 18:
        sentence = "Is no cursor of this list; send next_cursor of the page before, or none."
        raise invalid(FieldError(field="cursor", sentence=sentence))
    return int(number)
