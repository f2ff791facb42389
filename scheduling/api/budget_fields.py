"""The fields of a budget as the API takes them: exact numbers, times with their zone."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from billing.services.budgets import Ceiling
from scheduling.api.problems import invalid
from scheduling.services.drafts import FieldError

LONGEST_NUMBER = 60


def text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a text of the body; without a default it must be given."""
    value = body.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise invalid(FieldError(field=name, sentence="Must be given, as a text."))
    return value


def number(body: Mapping[str, Any], name: str) -> Decimal:
    """Return an exact number; a JSON number with a fraction is none, for it is rounded."""
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int):
        sentence = 'Must be given, as a text such as "12.50" or as a whole number.'
        raise invalid(FieldError(field=name, sentence=sentence))
    try:
        return Decimal(str(value)[:LONGEST_NUMBER])
    except InvalidOperation:
        sentence = f"Is no number: {str(value)[:LONGEST_NUMBER]!r}."
        raise invalid(FieldError(field=name, sentence=sentence)) from None


def moment(body: Mapping[str, Any], name: str) -> datetime | None:
    """Return a time with its zone, or None where none is given."""
    value = body.get(name)
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        sentence = "Must be a time with its zone, for example 2026-08-20T12:00:00Z."
        raise invalid(FieldError(field=name, sentence=sentence))
    return found


def term_read(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return from when to when something is raised, and who answers for it, as a `Term` has them."""
    ends_at = moment(body, "ends_at")
    if ends_at is None:
        raise invalid(FieldError(field="ends_at", sentence="Must be given: it ends by itself."))
    return {
        "ends_at": ends_at,
        "starts_at": moment(body, "starts_at"),
        "owner": text(body, "owner", ""),
    }


def ceiling_read(body: Mapping[str, Any], tenant: uuid.UUID, scope_id: str) -> Ceiling:
    """Return what names a budget; the lever checks that each part of it is known."""
    anchor = body.get("anchor", 1)
    if isinstance(anchor, bool) or not isinstance(anchor, int):
        raise invalid(FieldError(field="anchor", sentence="Must be a whole number: a day."))
    return Ceiling(
        tenant_id=tenant,
        scope=text(body, "scope"),
        scope_id=scope_id,
        dimension=text(body, "dimension"),
        window=text(body, "window", "none"),
        timezone=text(body, "timezone", "UTC"),
        anchor=anchor,
    )
