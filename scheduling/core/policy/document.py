"""A policy as plain data: read with every error named at once, and written back.

Unknown keys, wrong types and values out of bounds are errors of their field, named by its path
("retry.max_attempts", "classes.2.ages_to"). A key that is left out takes its default.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from scheduling.core.breaker import BreakerSettings
from scheduling.core.policy.settings import Backfill, BacklogCaps, OnLost, Policy, ShareBy
from scheduling.core.retry import RetrySettings
from scheduling.core.types import ClassRule

_DAY_S = 86_400.0
_MOST_CLASSES = 20
_NAME_LENGTH = 40
_BILLION = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field: its path, and a sentence that says what is allowed."""

    field: str
    sentence: str


class InvalidPolicy(Exception):
    """The data is no valid policy; `errors` names every wrong field."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        """Keep the errors; the message lists them all."""
        super().__init__(" ".join(f"{error.field}: {error.sentence}" for error in errors))
        self.errors = errors


def policy_from_dict(data: Mapping[str, Any]) -> Policy:
    """Return the policy that `data` describes; raise `InvalidPolicy` with all its errors."""
    reader = _Reader()
    policy = Policy(**reader.fields(_POLICY, data, ""))
    if not reader.errors:
        reader.errors.extend(_table_errors(policy))
    if reader.errors:
        raise InvalidPolicy(tuple(reader.errors))
    return policy


def to_dict(policy: Policy) -> dict[str, Any]:
    """Return the policy as plain data (JSON types only) that reads back to an equal policy."""
    return {key: _plain(value) for key, value in asdict(policy).items()}


def _plain(value: object) -> object:
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


class _Wrong(ValueError):
    """A checker's refusal; its message is the sentence."""


class _Reader:
    """Reads objects field by field and gathers what is wrong."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def fields(self, checks: Mapping[str, "_Check"], data: object, path: str) -> dict[str, Any]:
        """Return the checked values of the object `data`; leave out the wrong ones."""
        if not isinstance(data, Mapping):
            self.errors.append(FieldError(path or "policy", "Must be an object of settings."))
            return {}
        values: dict[str, Any] = {}
        for key, value in data.items():
            here = f"{path}.{key}" if path else str(key)
            try:
                values[key] = _check_named(checks, key)(self, value, here)
            except _Wrong as wrong:
                self.errors.append(FieldError(here, str(wrong)))
        return values


_Check: TypeAlias = Callable[[_Reader, Any, str], Any]


def _check_named(checks: Mapping[str, _Check], key: str) -> _Check:
    if key not in checks:
        wrong = f"Is no known setting; known here: {', '.join(sorted(checks))}."
        raise _Wrong(wrong)
    return checks[key]


def _whole(low: int, high: int) -> _Check:
    def check(_reader: _Reader, value: Any, _path: str) -> int:  # noqa: ANN401 - unchecked data
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            wrong = f"Must be a whole number from {low} to {high}."
            raise _Wrong(wrong)
        return value

    return check


def _number(low: float, high: float) -> _Check:
    def check(_reader: _Reader, value: Any, _path: str) -> float:  # noqa: ANN401 - unchecked data
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        if not numeric or not low <= value <= high:  # NaN is in no range
            wrong = f"Must be a number from {low:g} to {high:g}."
            raise _Wrong(wrong)
        return float(value)

    return check


def _flag(_reader: _Reader, value: Any, _path: str) -> bool:  # noqa: ANN401 - unchecked data
    if not isinstance(value, bool):
        wrong = "Must be true or false."
        raise _Wrong(wrong)
    return value


def _choice(options: type[StrEnum]) -> _Check:
    def check(_reader: _Reader, value: Any, _path: str) -> StrEnum:  # noqa: ANN401 - unchecked data
        try:
            return options(value)
        except ValueError:
            wrong = f"Must be one of {', '.join(option.value for option in options)}."
            raise _Wrong(wrong) from None

    return check


def _name(_reader: _Reader, value: Any, _path: str) -> str:  # noqa: ANN401 - unchecked data
    if not isinstance(value, str) or not value.strip() or len(value) > _NAME_LENGTH:
        wrong = f"Must be a name of 1 to {_NAME_LENGTH} characters."
        raise _Wrong(wrong)
    return value


def _role(_reader: _Reader, value: Any, _path: str) -> str:  # noqa: ANN401 - unchecked data
    if value not in _ROLES:
        wrong = f"Must be one of {', '.join(_ROLES)}."
        raise _Wrong(wrong)
    return str(value)


def _optional(check: _Check) -> _Check:
    def either(reader: _Reader, value: Any, path: str) -> Any:  # noqa: ANN401 - unchecked data
        return None if value is None else check(reader, value, path)

    return either


def _group(build: Callable[..., Any], checks: Mapping[str, _Check]) -> _Check:
    def check(reader: _Reader, value: Any, path: str) -> Any:  # noqa: ANN401 - unchecked data
        return build(**reader.fields(checks, value, path))

    return check


def _classes(reader: _Reader, value: Any, path: str) -> tuple[ClassRule, ...]:  # noqa: ANN401
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= _MOST_CLASSES:
        wrong = f"Must be a list of 1 to {_MOST_CLASSES} classes, the first served first."
        raise _Wrong(wrong)
    return tuple(_class(reader, one, f"{path}.{index}") for index, one in enumerate(value))


def _class(reader: _Reader, value: object, path: str) -> ClassRule:
    values = reader.fields(_CLASS, value, path)
    if isinstance(value, Mapping) and "name" not in value:
        reader.errors.append(FieldError(f"{path}.name", "Every class needs a name."))
    return ClassRule(**{"name": "", **values})


def _table_errors(policy: Policy) -> list[FieldError]:
    """Return what is wrong between fields that are each right alone."""
    errors = []
    if policy.class_named(policy.default_class) is None:
        errors.append(FieldError("default_class", "Must be the name of a class of the table."))
    if policy.retry.base_s > policy.retry.cap_s:
        errors.append(FieldError("retry.base_s", "Must not be above retry.cap_s."))
    seen: dict[str, ClassRule] = {}
    for index, rule in enumerate(policy.classes):
        if rule.name in seen:
            errors.append(FieldError(f"classes.{index}.name", "Is used by a class before it."))
        if rule.ages_to is not None and not _may_age(rule, seen.get(rule.ages_to)):
            errors.append(FieldError(f"classes.{index}.ages_to", _AGES_TO))
        seen[rule.name] = rule
    return errors


def _may_age(rule: ClassRule, target: ClassRule | None) -> bool:
    """Aging must not smuggle a job into a fifo lane or into the reserve."""
    return target is not None and not target.fifo and target.uses_reserve == rule.uses_reserve


_AGES_TO = (
    "Must name a class above this one that is not fifo and uses the reserve as this one does."
)
_ROLES = ("submitter", "tenant_admin", "operator")

_CLASS: dict[str, _Check] = {
    "name": _name,
    "fifo": _flag,
    "uses_reserve": _flag,
    "sheddable": _flag,
    "ages_to": _optional(_name),
    "asked_by": _role,
    "quota": _optional(_whole(0, _BILLION)),
}
_RETRY: dict[str, _Check] = {
    "max_attempts": _whole(1, 100),
    "base_s": _number(0.01, 3600),
    "cap_s": _number(0.01, _DAY_S),
    "longest_wait_s": _number(0, 7 * _DAY_S),
    "budget_ratio": _number(0, 10),
    "budget_floor": _whole(0, 1_000_000),
}
_BREAKER: dict[str, _Check] = {
    "threshold": _whole(1, 1000),
    "cooldown_s": _number(0.1, _DAY_S),
    "longest_cooldown_s": _number(0.1, 7 * _DAY_S),
}
_BACKLOG: dict[str, _Check] = {
    "workspace": _whole(0, _BILLION),
    "tenant": _whole(0, _BILLION),
    "total": _whole(0, _BILLION),
    "shed_share": _number(0, 1),
}
_POLICY: dict[str, _Check] = {
    "number": _whole(1, _BILLION),
    "classes": _classes,
    "default_class": _name,
    "share_by": _choice(ShareBy),
    "age_after": _number(0, 30 * _DAY_S),
    "age_limit": _whole(0, 100_000),
    "starving_after": _number(0, 30 * _DAY_S),
    "backfill": _choice(Backfill),
    "deadlines": _flag,
    "retry": _group(RetrySettings, _RETRY),
    "breaker": _group(BreakerSettings, _BREAKER),
    "backlog": _group(BacklogCaps, _BACKLOG),
    "on_lost_idempotent": _choice(OnLost),
    "on_lost_other": _choice(OnLost),
    "default_expected_s": _number(0.001, 30 * _DAY_S),
}
