"""From the JSON of a submission to a `Submission`, or every field that is wrong.

One lean pass over the keys that are there: a bulk call has 10,000 rows. What depends on the
tenant (is there such a workflow, is the payload right for its kind) the service checks.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from scheduling.models.dependency import CONDITIONS
from scheduling.services.drafts import (
    ESTIMATES,
    MAX_AMOUNT,
    MAX_SPEND,
    MIN_TTL_S,
    After,
    FieldError,
    Submission,
)
from tenants.ids import uuid_or_none

LONGEST = {
    "workflow": 63,
    "mission": 63,
    "kind": 30,
    "class": 30,
    "risk": 8,
    "model": 200,
    "region": 60,
    "data_class": 60,
    "compute_class": 60,
}
LONGEST_OF = {"labels": 60, "tools": 60, "keys": 200}
"""The most characters of each text of a list."""
MOST_LISTED = 50
MOST_AFTER = 50
MOST_SECONDS = 30 * 86_400
WHOLE = ("input_tokens", "output_tokens", "tool_calls", "network_bytes")
"""The estimates that are counts."""
_MONEY = re.compile(r"[0-9]{1,10}(\.[0-9]{1,10})?")
REQUIRED = ("workflow", "kind", "payload")
WORKSPACE = "workspace"

Json = Mapping[str, Any]
Check = Callable[[str, Any], Any]


class WrongValue(ValueError):
    """A value that its field refuses; the message is the sentence, `inside` the path in the field."""

    def __init__(self, sentence: str, inside: str = "") -> None:
        """Keep the path."""
        super().__init__(sentence)
        self.inside = inside


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


def _ttl(_: str, value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and MIN_TTL_S <= value <= MOST_SECONDS:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    wrong = f"Must be seconds from {MIN_TTL_S:g} to {MOST_SECONDS}, not {_shown(value)}."
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


def _texts(name: str, value: object) -> tuple[str, ...]:
    longest = LONGEST_OF[name]
    listed = isinstance(value, list) and len(value) <= MOST_LISTED
    if listed and all(isinstance(one, str) and 1 <= len(one) <= longest for one in value):  # type: ignore[attr-defined]
        return tuple(dict.fromkeys(value))  # type: ignore[call-overload]
    wrong = (
        f"Must be a list of at most {MOST_LISTED} texts of 1 to {longest} characters, "
        f"not {_shown(value)}."
    )
    raise WrongValue(wrong)


def _tokens(_: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_AMOUNT:
        return value
    wrong = f"Must be a whole number from 0 to {MAX_AMOUNT}, not {_shown(value)}."
    raise WrongValue(wrong)


def _money(_: str, value: object) -> Decimal:
    amount = Decimal(value) if isinstance(value, str) and _MONEY.fullmatch(value) else None
    if amount is not None and amount <= MAX_SPEND:
        return amount
    wrong = (
        f'Must be US dollars as a text such as "12.50", from 0 to {MAX_SPEND}, with at most ten '
        f"decimal places, not {_shown(value)}."
    )
    raise WrongValue(wrong)


def _estimate(_: str, value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        wrong = f"Must be an object with any of {', '.join(ESTIMATES)}, not {_shown(value)}."
        raise WrongValue(wrong)
    return {name: _amount(name, value[name]) for name in value if value[name] is not None}


def _amount(name: str, value: object) -> float:
    if name not in ESTIMATES:
        wrong = f"Is no estimate; known are {', '.join(ESTIMATES)}."
        raise WrongValue(wrong, f".{name}")
    check = _tokens if name in WHOLE else _seconds if name == "seconds" else _measure
    try:
        return check(name, value)
    except WrongValue as refused:
        raise WrongValue(str(refused), f".{name}") from None


def _measure(_: str, value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 <= value <= MAX_AMOUNT:  # type: ignore[operator]
        return round(float(value), 6)  # type: ignore[arg-type]
    wrong = f"Must be a number from 0 to {MAX_AMOUNT}, not {_shown(value)}."
    raise WrongValue(wrong)


def _after(_: str, value: object) -> tuple[After, ...]:
    if not isinstance(value, list) or len(value) > MOST_AFTER:
        wrong = f"Must be a list of at most {MOST_AFTER} jobs, not {_shown(value)}."
        raise WrongValue(wrong)
    found = {one.job: one for one in (_after_one(v, f"[{n}]") for n, v in enumerate(value))}
    if len(found) < len(value):
        raise WrongValue("Names a job twice.")
    return tuple(found.values())


def _after_one(value: object, at: str) -> After:
    named: Json = value if isinstance(value, dict) else {"job": value}
    text = named.get("job")
    job = uuid_or_none(text) if isinstance(text, str) else None
    condition = named.get("condition", CONDITIONS[0])
    if job is None or condition not in CONDITIONS or set(named) - {"job", "condition"}:
        wrong = (
            "Must be the id of a job, or an object with job and condition "
            f"({', '.join(CONDITIONS)}), not {_shown(value)}."
        )
        raise WrongValue(wrong, at)
    return After(job=job, condition=condition)


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
    "expires_at": _time,
    "ttl_s": _ttl,
    "region": _text,
    "labels": _texts,
    "idempotent": _flag,
    "paused": _flag,
    "risk": _text,
    "estimate": _estimate,
    "tools": _texts,
    "data_class": _text,
    "compute_class": _text,
    "keys": _texts,
    "max_spend": _money,
    "max_tokens": _tokens,
    "review": _flag,
    "after": _after,
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
                errors.append(FieldError(field=at + name + wrong.inside, sentence=str(wrong)))
    return values, errors


def workspace_named(data: Json) -> str | None:
    """Return the workspace that a body names (id or tenant/workspace); raise `WrongValue`."""
    named = data.get(WORKSPACE)
    if named is None or (isinstance(named, str) and 1 <= len(named) <= 200):
        return named
    raise WrongValue("Must be the id of a workspace, or its tenant/workspace name.")


def _unknown(name: str) -> str:
    if name == WORKSPACE:
        return "Stands once beside the jobs of a call, not in each job."
    return f"Is no field of a job; known are {', '.join(sorted(CHECKS))}."


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
