"""From the JSON of a submission to a `Submission`, or every field that is wrong.

One lean pass over the keys that are there: a bulk call has 10,000 rows. What depends on the
tenant (is there such a workflow, is the payload right for its kind) the service checks.
"""

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from scheduling.services.drafts import FieldError, Submission

LONGEST = {
    "workflow": 63,
    "mission": 63,
    "kind": 30,
    "class": 30,
    "risk": 8,
    "model": 200,
    "region": 60,
}
MOST_LABELS = 50
LONGEST_LABEL = 60
MOST_SECONDS = 30 * 86_400
REQUIRED = ("workflow", "kind", "payload")
WORKSPACE = "workspace"

Json = Mapping[str, Any]
Check = Callable[[str, Any], Any]


class WrongValue(ValueError):
    """A value that its field refuses; the message is the sentence."""


def _text(name: str, value: object) -> str:
    if isinstance(value, str) and len(value) <= LONGEST[name]:
        return value
    wrong = f"Must be a text of at most {LONGEST[name]} characters, not {_shown(value)}."
    raise WrongValue(wrong)


def _whole(_: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    wrong = f"Must be a whole number of at least 1, not {_shown(value)}."
    raise WrongValue(wrong)


def _seconds(_: str, value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 <= value <= MOST_SECONDS:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    wrong = f"Must be a number of seconds from 0 to {MOST_SECONDS}, not {_shown(value)}."
    raise WrongValue(wrong)


def _flag(_: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    wrong = f"Must be true or false, not {_shown(value)}."
    raise WrongValue(wrong)


def _time(_: str, value: object) -> datetime:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None:
        wrong = f"Must be an ISO 8601 time such as 2026-01-31T12:00:00Z, not {_shown(value)}."
        raise WrongValue(wrong)
    if found.tzinfo is None or found.utcoffset() is None:
        raise WrongValue("Needs a time zone: end it with Z or an offset such as +02:00.")
    if not 1971 <= found.year <= 9000:
        raise WrongValue("Must be a time of the years 1971 to 9000.")
    return found


def _labels(_: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list) and len(value) <= MOST_LABELS and all(map(_is_label, value)):
        return tuple(value)
    wrong = (
        f"Must be a list of at most {MOST_LABELS} texts of 1 to {LONGEST_LABEL} characters, "
        f"not {_shown(value)}."
    )
    raise WrongValue(wrong)


def _is_label(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= LONGEST_LABEL


def _object(_: str, value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    wrong = f"Must be an object, not {_shown(value)}."
    raise WrongValue(wrong)


CHECKS: dict[str, Check] = {
    "workflow": _text,
    "kind": _text,
    "payload": _object,
    "model": _text,
    "mission": _text,
    "class": _text,
    "cost": _whole,
    "expected_s": _seconds,
    "max_attempts": _whole,
    "deadline": _time,
    "not_before": _time,
    "region": _text,
    "labels": _labels,
    "idempotent": _flag,
    "paused": _flag,
    "risk": _text,
}
NULL_ALLOWED = frozenset(CHECKS) - set(REQUIRED)
"""An optional field may be null, which is the same as leaving it out."""


def submission_read(data: Json, at: str = "") -> Submission | list[FieldError]:
    """Return the submission that `data` asks for, or all of its errors; `at` prefixes fields."""
    values, errors = fields_read(data, at)
    missing = [name for name in REQUIRED if name not in data]
    errors += [FieldError(field=at + name, sentence="Is required.") for name in missing]
    if errors:
        return errors
    if "class" in values:
        values["job_class"] = values.pop("class")
    return Submission(**values)


def fields_read(data: Json, at: str = "") -> tuple[dict[str, Any], list[FieldError]]:
    """Return the checked values of known fields, and the errors of wrong and unknown ones."""
    values: dict[str, Any] = {}
    errors: list[FieldError] = []
    for name, value in data.items():
        check = CHECKS.get(name)
        if check is None:
            errors.append(FieldError(field=at + name, sentence=_unknown(name)))
        elif value is not None or name not in NULL_ALLOWED:
            try:
                values[name] = check(name, value)
            except WrongValue as wrong:
                errors.append(FieldError(field=at + name, sentence=str(wrong)))
    return values, errors


def workspace_named(data: Json) -> str | None:
    """Return the workspace that a body names (id or tenant/workspace); raise `WrongValue`."""
    named = data.get(WORKSPACE)
    if named is None or (isinstance(named, str) and 1 <= len(named) <= 200):
        return named
    raise WrongValue("Must be the id of a workspace, or its tenant/workspace name.")


def uuid_or_none(text: str) -> uuid.UUID | None:
    """Return the id that a text is, None when it is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _unknown(name: str) -> str:
    if name == WORKSPACE:
        return "Stands once beside the jobs of a call, not in each job."
    return f"Is no field of a job; known are {', '.join(sorted(CHECKS))}."


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
