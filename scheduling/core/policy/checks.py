"""The checks that a policy's fields are read by; each says in words what it allows.

A check is called with the reader that gathers errors, a value as it came from JSON, and the value's
path. It returns the value for the settings or raises `Wrong`; checks of objects and lists name the
errors of their parts to the reader instead, so that all are told at once. The attributes are public
so that a form can be drawn from the very bounds that are enforced.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field: its path, and a sentence that says what is allowed."""

    field: str
    sentence: str


class Wrong(ValueError):
    """A check's refusal; its message is the sentence."""


class Check(Protocol):
    """What every check is: `allowed` completes the sentence "Must be ..."."""

    @property
    def allowed(self) -> str:
        """Return what the check allows, in words."""
        ...

    def __call__(self, reader: "Reader", value: Any, path: str, /) -> Any:  # noqa: ANN401 - unchecked
        """Return the value for the settings; raise `Wrong`."""
        ...


Checks: TypeAlias = Mapping[str, Check]


class Reader:
    """Reads objects field by field and gathers what is wrong."""

    def __init__(self) -> None:
        """Start without errors."""
        self.errors: list[FieldError] = []

    def fields(self, checks: Checks, data: object, path: str) -> dict[str, Any]:
        """Return the checked values of the object `data`; leave out the wrong ones."""
        if not isinstance(data, Mapping):
            self.errors.append(FieldError(path or "policy", "Must be an object of settings."))
            return {}
        values: dict[str, Any] = {}
        for key, value in data.items():
            here = f"{path}.{key}" if path else str(key)
            try:
                values[key] = _named(checks, key)(self, value, here)
            except Wrong as wrong:
                self.errors.append(FieldError(here, str(wrong)))
        return values


def _named(checks: Checks, key: str) -> Check:
    if key not in checks:
        wrong = f"Is no known setting; known here: {', '.join(sorted(checks))}."
        raise Wrong(wrong)
    return checks[key]


def _refusal(check: Check) -> Wrong:
    return Wrong(f"Must be {check.allowed}.")


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds."""

    low: int
    high: int

    @property
    def allowed(self) -> str:
        """Return the bounds."""
        return f"a whole number from {self.low} to {self.high}"

    def __call__(self, _reader: Reader, value: Any, _path: str) -> int:  # noqa: ANN401
        """Return the number; true and false are none."""
        if type(value) is not int or not self.low <= value <= self.high:
            raise _refusal(self)
        return value


@dataclass(frozen=True, slots=True)
class Number:
    """A number within bounds; NaN is in none."""

    low: float
    high: float

    @property
    def allowed(self) -> str:
        """Return the bounds."""
        return f"a number from {self.low:.12g} to {self.high:.12g}"

    def __call__(self, _reader: Reader, value: Any, _path: str) -> float:  # noqa: ANN401
        """Return the number."""
        if type(value) not in (int, float) or not self.low <= value <= self.high:
            raise _refusal(self)
        return float(value)


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    allowed: str = "true or false"

    def __call__(self, _reader: Reader, value: Any, _path: str) -> bool:  # noqa: ANN401
        """Return the flag."""
        if not isinstance(value, bool):
            raise _refusal(self)
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the names; they become members of `kind`."""

    names: tuple[str, ...]
    kind: Callable[[str], str] = str

    @property
    def allowed(self) -> str:
        """Return the names."""
        return f"one of {', '.join(self.names)}"

    def __call__(self, _reader: Reader, value: Any, _path: str) -> str:  # noqa: ANN401
        """Return the member."""
        if value not in self.names:
            raise _refusal(self)
        return self.kind(value)


def member(kind: type[StrEnum]) -> Choice:
    """Return the check for a member of `kind`, written as its value."""
    return Choice(tuple(one.value for one in kind), kind)


@dataclass(frozen=True, slots=True)
class Name:
    """A text that is not blank, unless `blank` says that it may be empty."""

    longest: int
    blank: bool = False

    @property
    def allowed(self) -> str:
        """Return the lengths."""
        if self.blank:
            return f"a name of at most {self.longest} characters, or empty"
        return f"a name of 1 to {self.longest} characters"

    def __call__(self, _reader: Reader, value: Any, _path: str) -> str:  # noqa: ANN401
        """Return the name as it is."""
        if not isinstance(value, str) or len(value) > self.longest:
            raise _refusal(self)
        if not value.strip() and not (self.blank and value == ""):
            raise _refusal(self)
        return value


@dataclass(frozen=True, slots=True)
class Names:
    """A list of different names, each right by `each`."""

    each: Name
    most: int

    @property
    def allowed(self) -> str:
        """Return how many there may be, and what each may be."""
        return f"a list of at most {self.most} different names, each {self.each.allowed}"

    def __call__(self, reader: Reader, value: Any, path: str) -> tuple[str, ...]:  # noqa: ANN401
        """Return the names in their order."""
        if not isinstance(value, list | tuple) or len(value) > self.most:
            raise _refusal(self)
        names = tuple(self.each(reader, one, path) for one in value)
        if len(set(names)) < len(names):
            raise _refusal(self)
        return names


@dataclass(frozen=True, slots=True)
class Optional:
    """What `check` allows, or null."""

    check: Check

    @property
    def allowed(self) -> str:
        """Return what is allowed beside null."""
        return f"{self.check.allowed}, or null"

    def __call__(self, reader: Reader, value: Any, path: str) -> Any:  # noqa: ANN401
        """Return None or the checked value."""
        return None if value is None else self.check(reader, value, path)


@dataclass(frozen=True, slots=True)
class Group:
    """An object of settings that `build` makes a value of; what is left out takes its default."""

    build: Callable[..., Any]
    fields: Checks
    allowed: str = "an object of settings"

    def __call__(self, reader: Reader, value: Any, path: str) -> Any:  # noqa: ANN401
        """Return the built value."""
        return self.build(**reader.fields(self.fields, value, path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A list of objects, each built as in a `Group`; `needed` are the fields that each must have."""

    build: Callable[..., Any]
    fields: Checks
    needed: Mapping[str, Any]
    """By name: what stands in for a missing one until its error is told."""
    what: str
    least: int = 0
    most: int

    @property
    def allowed(self) -> str:
        """Return how many of what there may be."""
        return f"a list of {self.least} to {self.most} {self.what}"

    def __call__(self, reader: Reader, value: Any, path: str) -> tuple[Any, ...]:  # noqa: ANN401
        """Return the built values in their order."""
        if not isinstance(value, list | tuple) or not self.least <= len(value) <= self.most:
            raise _refusal(self)
        return tuple(self._row(reader, one, f"{path}.{at}") for at, one in enumerate(value))

    def _row(self, reader: Reader, value: object, path: str) -> Any:  # noqa: ANN401
        values = reader.fields(self.fields, value, path)
        if isinstance(value, Mapping):
            for name in self.needed.keys() - value.keys():
                reader.errors.append(
                    FieldError(f"{path}.{name}", "Is missing; every entry has it.")
                )
        return self.build(**{**self.needed, **values})
