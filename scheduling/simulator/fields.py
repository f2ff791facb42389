"""The keys of a scenario file, each with the check of its value.

This is the contract as a table: what stands here is known, anything else is a fault of its line.
Times are seconds from the run's beginning, durations seconds, money USD.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from billing.core.terms import DIMENSIONS, WINDOWS
from scheduling.core.policy.checks import (
    Check,
    Checks,
    Choice,
    Flag,
    Group,
    Name,
    Names,
    Number,
    Optional,
    Reader,
    Rows,
    Whole,
    Wrong,
    member,
)
from scheduling.simulator.dialect import PolicyPart
from scheduling.simulator.scenario import Do

_LONGEST_S = 1e10
_BILLION = 1_000_000_000
_TRILLION = 1_000_000_000_000
MOST_JOBS = 10_000_000
UNIT_SECOND, REVIEW_HOUR = "unit_second", "review_hour"


@dataclass(frozen=True, slots=True)
class Called(Name):
    """A name; a whole number is taken as its digits, so that a client may be called 1."""

    def __call__(self, reader: Reader, value: Any, path: str) -> str:  # noqa: ANN401 - unchecked
        """Return the name."""
        return Name.__call__(self, reader, str(value) if type(value) is int else value, path)


@dataclass(frozen=True, slots=True)
class Money:
    """An exact amount, not negative, written as a number or as a text of one."""

    most: int = _BILLION

    @property
    def allowed(self) -> str:
        """Return the bounds."""
        return f"an amount from 0 to {self.most}"

    def __call__(self, _reader: Reader, value: Any, _path: str) -> Decimal:  # noqa: ANN401
        """Return the exact amount that is written."""
        try:
            amount = Decimal(str(value)) if type(value) in (int, float, str) else Decimal(-1)
        except ArithmeticError:
            amount = Decimal(-1)
        if not (amount.is_finite() and 0 <= amount <= self.most):
            wrong = f"Must be {self.allowed}."
            raise Wrong(wrong)
        return amount


@dataclass(frozen=True, slots=True)
class Priced:
    """The part `prices`: an object a model, and the two prices of time."""

    allowed: str = "an object of a model's prices each, with unit_second and review_hour"

    def __call__(self, reader: Reader, value: Any, path: str) -> dict[str, Any]:  # noqa: ANN401
        """Return the amounts, and a mapping of amounts for each model."""
        if not isinstance(value, Mapping):
            wrong = f"Must be {self.allowed}."
            raise Wrong(wrong)
        times = {UNIT_SECOND: Money(), REVIEW_HOUR: Money()}
        checks = {key: times.get(key, _MODEL_PRICE) for key in value}
        return reader.fields(checks, value, path)


def _row(fields: Checks, needed: tuple[str, ...], what: str, most: int = 1_000_000) -> Rows:
    missing = dict.fromkeys(needed)
    return Rows(build=_present, fields=fields, needed=missing, what=what, most=most)


def _present(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - checked by a table
    """Return what is written; a null is as good as nothing."""
    return {key: value for key, value in values.items() if value is not None}


_NAME = Called(200)
_MAYBE = Optional(Called(200, blank=True))
_NAMES = Optional(Names(Called(200), 1000))
_SECONDS = Number(0, _LONGEST_S)
_COST = Whole(1, _BILLION)
_TOKENS = Whole(0, _TRILLION)
_WEIGHT = Whole(0, 1_000_000)
_COUNT = Optional(Whole(0, _BILLION))
_BUDGET = Whole(0, _BILLION)
_MODEL_PRICE = Group(
    dict,
    {"input": Money(), "output": Money(), "cached": Money(), "quality": Number(0, 1_000_000)},
    "an object of the USD per million tokens: input, output, cached",
)

_POOL: dict[str, Check] = {"name": _NAME, "budget": _BUDGET, "reserve": _BUDGET}
_EXECUTOR: dict[str, Check] = {
    "name": _NAME,
    "kind": Called(60),
    "pool": _NAME,
    "slots": Whole(0, 1_000_000),
    "models": _NAMES,
    "region": _MAYBE,
    "weight": Whole(1, 1_000_000),
    "labels": _NAMES,
    "requests_per_min": Optional(Whole(1, _BILLION)),
    "tokens_per_min": Optional(Whole(1, _TRILLION)),
}
_WINDOW_BUDGET: dict[str, Check] = {
    "dimension": Choice(tuple(DIMENSIONS)),
    "limit": Money(_TRILLION),
    "window": Choice(tuple(WINDOWS)),
}
_TENANT: dict[str, Check] = {
    "name": _NAME,
    "weight": _WEIGHT,
    "max_running": Optional(Whole(1, _BILLION)),
    "backlog_cap": _COUNT,
    "budgets": Optional(_row(_WINDOW_BUDGET, ("dimension", "limit"), "budgets", 100)),
}
_WORKFLOW: dict[str, Check] = {
    "tenant": _NAME,
    "name": _NAME,
    "cost": Optional(_COST),
    "expected_s": Optional(_SECONDS),
}
JOB: dict[str, Check] = {
    "id": _NAME,
    "tenant": _NAME,
    "at": _SECONDS,
    "workflow": _MAYBE,
    "workspace": _NAME,
    "class": _MAYBE,
    "cost": Optional(_COST),
    "duration": _SECONDS,
    "expected_s": Optional(_SECONDS),
    "tokens_in": _TOKENS,
    "tokens_out": _TOKENS,
    "model": _MAYBE,
    "region": _MAYBE,
    "labels": _NAMES,
    "keys": _NAMES,
    "after": _NAMES,
    "deadline": Optional(_SECONDS),
    "max_attempts": Optional(Whole(1, 1000)),
    "fails": Whole(0, 1_000_000),
    "steps": Whole(1, 1_000_000),
    "checkpoints": Flag(),
    "idempotent": Flag(),
    "review_s": _SECONDS,
    "pool": _MAYBE,
    "user": _MAYBE,
    "kind": _MAYBE,
    "repeat": Whole(0, MOST_JOBS),
    "every": _SECONDS,
}


@dataclass(frozen=True, slots=True)
class CostRule:
    """The cost of a trace's jobs: their processors, or one number for all."""

    allowed: str = "processors, or a whole number of units of at least 1"

    def __call__(self, reader: Reader, value: Any, path: str) -> int | str:  # noqa: ANN401
        """Return the number, or "processors"."""
        if value == "processors":
            return "processors"
        try:
            return _COST(reader, value, path)
        except Wrong:
            wrong = f"Must be {self.allowed}."
            raise Wrong(wrong) from None


_TRACE = Group(
    dict,
    {
        "file": Name(4000),
        "format": Choice(("swf", "csv")),
        "tenant": _NAME,
        "cost": CostRule(),
        "expected_s": Choice(("requested", "runtime")),
        "duration": Group(
            dict,
            {"fixed": _SECONDS, "per_output_token": _SECONDS, "base": _SECONDS},
            "an object: fixed, or per_output_token and base",
        ),
    },
    "an object with file and format",
)
_EVENT: dict[str, Check] = {
    "at": _SECONDS,
    "do": member(Do),
    "tenant": _NAME,
    "pool": _NAME,
    "executor": _NAME,
    "job": _NAME,
    "workflow": _NAME,
    "class": _NAME,
    "weight": _WEIGHT,
    "budget": _BUDGET,
    "cost": _COST,
    "retry_after": Optional(_SECONDS),
}
SCENARIO: dict[str, Check] = {
    "name": Called(200),
    "until": Optional(_SECONDS),
    "seed": Whole(-(2**63), 2**63 - 1),
    "policy": PolicyPart(),
    "pools": _row(_POOL, ("name", "budget"), "pools", 10_000),
    "executors": Optional(_row(_EXECUTOR, ("name",), "executors", 100_000)),
    "prices": Priced(),
    "tenants": Optional(_row(_TENANT, ("name",), "tenants")),
    "workflows": Optional(_row(_WORKFLOW, ("tenant", "name"), "workflows")),
    "jobs": Optional(_row(JOB, ("id", "tenant"), "jobs and generators")),
    "trace": Optional(_TRACE),
    "compare": Choice(("naive",)),
    "events": Optional(_row(_EVENT, ("at", "do"), "levers and faults")),
}
