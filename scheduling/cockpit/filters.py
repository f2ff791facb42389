"""The board's filter: `key:value` words and bare words, all of which must hold.

Keys: tenant, workflow, workspace, class, why (a reason code), cost (`2`, `>2`, `<5`), id (any part
of a job's id). A bare word is looked for in tenant, workflow, workspace and class names and, when
it is four or more hexadecimal digits, in the id. Matching is by part, without case.
"""

import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scheduling.cockpit.board import Board, Mask, Places, Viewer

KEYS = ("tenant", "workflow", "workspace", "class", "why", "cost", "id")
COST = re.compile(r"^([<>]?)(\d{1,9})$")
HEX_PART = re.compile(r"^[0-9a-f-]{4,36}$")
WORDS_MOST = 12


class BadFilter(Exception):
    """The filter cannot be read; the message says which word and what is possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One condition; `key` is empty for a bare word."""

    key: str
    value: str


def parse(text: str) -> tuple[Word, ...]:
    """Return the conditions of a filter text; raise `BadFilter` with what to write instead."""
    parts = text.lower().split()
    if len(parts) > WORDS_MOST:
        message = f"A filter has at most {WORDS_MOST} words."
        raise BadFilter(message)
    return tuple(_word(part) for part in parts)


def _word(part: str) -> Word:
    key, colon, value = part.partition(":")
    if not colon:
        return Word(key="", value=part)
    if key not in KEYS:
        message = f"Unknown filter key {key[:30]!r}. Known: {', '.join(KEYS)}."
        raise BadFilter(message)
    if not value:
        message = f"Write a value after {key}:"
        raise BadFilter(message)
    if key == "cost" and not COST.match(value):
        message = "Write cost as cost:2, cost:>2 or cost:<5."
        raise BadFilter(message)
    return Word(key=key, value=value)


def select(board: Board, viewer: Viewer, tenant: str, words: tuple[Word, ...]) -> Places | None:
    """Return the places of the rows that are visible and match; None means all rows.

    `tenant` is a tenant's id or slug, or `*`. A tenant that the viewer may not see selects nothing,
    just as one that does not exist.
    """
    if viewer.tenants is None and tenant == "*" and not words:
        return None
    key = (viewer.tenants, viewer.workspaces, tenant, words)
    known = board.selections.get(key)
    if known is not None:
        return known
    mask = board.mask_of(viewer)
    if tenant != "*":
        mask &= board.numbered("tenant", _tenant_numbers(board, tenant))
    for word in words:
        mask &= _mask(board, word)
    return board.keep(key, np.flatnonzero(mask))


def _tenant_numbers(board: Board, tenant: str) -> list[int]:
    return [n for n, row in enumerate(board.header.tenants) if tenant in (row.id, row.slug)]


def _mask(board: Board, word: Word) -> Mask:
    if word.key == "cost":
        return _cost(board, word.value)
    if word.key == "id":
        return _id(board, word.value)
    if word.key:
        return _named(board, word.key, word.value)
    found = np.zeros(len(board.rows), dtype=bool)
    for key in ("tenant", "workflow", "workspace", "class"):
        found |= _named(board, key, word.value)
    if HEX_PART.match(word.value):
        found |= _id(board, word.value)
    return found


def _cost(board: Board, value: str) -> Mask:
    match = COST.match(value)
    if match is None:
        return np.zeros(len(board.rows), dtype=bool)
    sign, number = match.groups()
    compare: Callable[..., Mask] = {"": np.equal, ">": np.greater, "<": np.less}[sign]
    return compare(board.rows["cost"], int(number))


def _id(board: Board, value: str) -> Mask:
    digits = value.replace("-", "").encode()
    ids = np.frombuffer(binascii.hexlify(board.rows["job"].tobytes()), dtype="S32")
    return np.char.find(ids, digits) >= 0


def _named(board: Board, key: str, value: str) -> Mask:
    header = board.header
    names: dict[str, tuple[str, list[str]]] = {
        "tenant": ("tenant", [f"{row.slug} {row.name}" for row in header.tenants]),
        "workflow": ("workflow", [name for _, name in header.workflows]),
        "workspace": ("workspace", header.workspaces),
        "class": ("job_class", header.classes),
        "why": ("reason", header.reasons),
    }
    column, listed = names[key]
    numbers = [number for number, name in enumerate(listed) if value in name.lower()]
    return board.numbered(column, numbers)
