"""Circuits as they stand: by executor, as the core takes them, and in one word for people."""

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from scheduling.core.types import KEY
from scheduling.models import Circuit, Executor

CLOSED, OPEN, HALF_OPEN, PARTLY_OPEN = "closed", "open", "half_open", "partly_open"
Circuits: TypeAlias = Mapping[uuid.UUID, Sequence[Circuit]]
"""The circuits that are not closed, by executor."""


@dataclass(frozen=True, slots=True)
class Word:
    """What the circuits of an executor come to, and until when what is open rests at least."""

    state: str
    until: datetime | None


def circuits_open() -> Circuits:
    """Return the circuits that are open or half-open."""
    found: dict[uuid.UUID, list[Circuit]] = defaultdict(list)
    for row in Circuit.objects.exclude(state=CLOSED).order_by("executor_id", "model"):
        found[row.executor_id].append(row)
    return found


def models_in(circuits: Sequence[Circuit], state: str) -> frozenset[str]:
    """Return the models whose circuit is in a state; `KEY` for the executor's key."""
    return frozenset(row.model for row in circuits if row.state == state)


def model_by_default(row: Executor) -> str:
    """Return what a job that names no model runs on an executor."""
    return row.models_offered[0] if row.models_offered else row.kind


def circuit_word(row: Executor, circuits: Sequence[Circuit]) -> Word:
    """Return an executor's circuits in one word: the key's, else what all of its models come to.

    `partly_open` is one of which some models are let through without a question and others not.
    """
    by_model = {one.model: one for one in circuits}
    if KEY in by_model:
        return _word(by_model[KEY].state, [by_model[KEY]])
    models = row.models_offered or [model_by_default(row)]
    own = [by_model[model] for model in models if model in by_model]
    if not own:
        return _word(CLOSED, [])
    if len(own) < len(models):
        return _word(PARTLY_OPEN, own)
    return _word(OPEN if all(one.state == OPEN for one in own) else HALF_OPEN, own)


def _word(state: str, circuits: Sequence[Circuit]) -> Word:
    until = (one.until for one in circuits if one.until is not None)
    return Word(state, min(until, default=None))
