"""Ids: UUID version 7, so that keys sort by the time they were made and indexes stay compact."""

import uuid

from uuid_utils.compat import uuid7


def new_id() -> uuid.UUID:
    """Return a fresh UUIDv7."""
    return uuid7()


def uuid_or_none(text: str) -> uuid.UUID | None:
    """Return the id that a text is, None when it is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
