"""A policy as plain data: read with every error named at once, and written back.

Unknown keys, wrong types and values out of bounds are errors of their field, named by its path
("retry.max_attempts", "classes.2.ages_to"). A key that is left out takes its default. `POLICY` is
the table of all settings with their bounds; forms and their help are drawn from it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from scheduling.core.breaker import BreakerSettings
from scheduling.core.policy.checks import (
    Check,
    Choice,
    FieldError,
    Flag,
    Group,
    Name,
    Names,
    Number,
    Optional,
    Reader,
    Rows,
    Whole,
    member,
)
from scheduling.core.policy.settings import (
    Backfill,
    BacklogCaps,
    Candidate,
    DefaultCaps,
    Fallback,
    OnLost,
    Policy,
    Preemption,
    RiskRule,
    RiskRules,
    ShareBy,
)
from scheduling.core.retry import RetrySettings
from scheduling.core.types import ClassRule

_DAY_S = 86_400.0
_BILLION = 1_000_000_000
_ROLES = ("submitter", "tenant_admin", "operator")
_CLASS_NAME = Name(30)
_MODEL = Name(200)
_LABEL = Name(60)


class InvalidPolicy(Exception):
    """The data is no valid policy; `errors` names every wrong field."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        """Keep the errors; the message lists them all."""
        super().__init__(" ".join(f"{error.field}: {error.sentence}" for error in errors))
        self.errors = errors


def policy_from_dict(data: Mapping[str, Any]) -> Policy:
    """Return the policy that `data` describes; raise `InvalidPolicy` with all its errors."""
    reader = Reader()
    policy = Policy(**reader.fields(POLICY, data, ""))
    if not reader.errors:
        reader.errors.extend(between_fields(policy))
    if reader.errors:
        raise InvalidPolicy(tuple(reader.errors))
    return policy


def to_dict(policy: Policy) -> dict[str, Any]:
    """Return the policy as plain data (JSON types only) that reads back to an equal policy."""
    return {key: _plain(value) for key, value in asdict(policy).items()}


def _plain(value: object) -> object:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value


def between_fields(policy: Policy) -> Iterator[FieldError]:
    """Yield what is wrong between fields that are each right alone."""
    if policy.class_named(policy.default_class) is None:
        yield FieldError("default_class", "Must be the name of a class of the table.")
    if policy.retry.base_s > policy.retry.cap_s:
        yield FieldError("retry.base_s", "Must not be above retry.cap_s.")
    yield from _in_class_table(policy)
    yield from _in_fallbacks(policy)


def _in_class_table(policy: Policy) -> Iterator[FieldError]:
    seen: dict[str, ClassRule] = {}
    for index, rule in enumerate(policy.classes):
        if rule.name in seen:
            yield FieldError(f"classes.{index}.name", "Is used by a class before it.")
        if rule.ages_to is not None and not _may_age(rule, seen.get(rule.ages_to)):
            yield FieldError(f"classes.{index}.ages_to", _AGES_TO)
        seen[rule.name] = rule


def _may_age(rule: ClassRule, target: ClassRule | None) -> bool:
    """Aging must not smuggle a job into a fifo lane or into the reserve."""
    return target is not None and not target.fifo and target.uses_reserve == rule.uses_reserve


def _in_fallbacks(policy: Policy) -> Iterator[FieldError]:
    lists: set[str] = set()
    for index, one in enumerate(policy.fallback):
        if one.model in lists:
            yield FieldError(f"fallback.{index}.model", "Has a list before this one; join the two.")
        lists.add(one.model)
        seen = {one.model}
        for place, candidate in enumerate(one.candidates):
            if candidate.model in seen:
                path = f"fallback.{index}.candidates.{place}.model"
                yield FieldError(path, "Must be another model than those before it in the list.")
            seen.add(candidate.model)


_AGES_TO = (
    "Must name a class above this one that is not fifo and uses the reserve as this one does."
)

CLASS: dict[str, Check] = {
    "name": _CLASS_NAME,
    "fifo": Flag(),
    "uses_reserve": Flag(),
    "sheddable": Flag(),
    "ages_to": Optional(_CLASS_NAME),
    "asked_by": Choice(_ROLES),
    "quota": Optional(Whole(0, _BILLION)),
}
CANDIDATE: dict[str, Check] = {
    "model": _MODEL,
    "quality_floor": Number(0, 1),
    "data_class": Name(60, blank=True),
    "region": Name(60, blank=True),
    "latency_s": Optional(Number(0.001, _DAY_S)),
    "price_ratio": Optional(Number(0, 1000)),
}
_FALLBACK: dict[str, Check] = {
    "model": _MODEL,
    "candidates": Rows(
        build=Candidate,
        fields=CANDIDATE,
        needed={"model": ""},
        what="candidates, the first tried first",
        least=1,
        most=10,
    ),
}
_RETRY: dict[str, Check] = {
    "max_attempts": Whole(1, 100),
    "base_s": Number(0.01, 3600),
    "cap_s": Number(0.01, _DAY_S),
    "longest_wait_s": Number(0, 7 * _DAY_S),
    "budget_ratio": Number(0, 10),
    "budget_floor": Whole(0, 1_000_000),
}
_BREAKER: dict[str, Check] = {
    "threshold": Whole(1, 1000),
    "cooldown_s": Number(0.1, _DAY_S),
    "longest_cooldown_s": Number(0.1, 7 * _DAY_S),
}
BACKLOG: dict[str, Check] = {
    "workspace": Whole(0, _BILLION),
    "tenant": Whole(0, _BILLION),
    "total": Whole(0, _BILLION),
    "shed_share": Number(0, 1),
}
PREEMPTION: dict[str, Check] = {
    "enabled": Flag(),
    "min_run_s": Number(0, 30 * _DAY_S),
    "most_times": Whole(0, 100),
}
_CAP = Optional(Whole(1, 1_000_000))
_RISK = Group(
    RiskRule,
    {"labels": Names(_LABEL, 20), "needs_review": Flag(), "asked_by": Choice(_ROLES)},
)
POLICY: dict[str, Check] = {
    "number": Whole(1, _BILLION),
    "classes": Rows(
        build=ClassRule,
        fields=CLASS,
        needed={"name": ""},
        what="classes, the first served first",
        least=1,
        most=20,
    ),
    "default_class": _CLASS_NAME,
    "share_by": member(ShareBy),
    "age_after": Number(0, 30 * _DAY_S),
    "age_limit": Whole(0, 100_000),
    "starving_after": Number(0, 30 * _DAY_S),
    "backfill": member(Backfill),
    "deadlines": Flag(),
    "default_expected_s": Number(0.001, 30 * _DAY_S),
    "retry": Group(RetrySettings, _RETRY),
    "breaker": Group(BreakerSettings, _BREAKER),
    "backlog": Group(BacklogCaps, BACKLOG),
    "default_caps": Group(DefaultCaps, dict.fromkeys(DefaultCaps.SCOPES, _CAP)),
    "preemption": Group(Preemption, PREEMPTION),
    "on_lost_idempotent": member(OnLost),
    "on_lost_other": member(OnLost),
    "risk": Group(RiskRules, dict.fromkeys(RiskRules.LEVELS, _RISK)),
    "fallback": Rows(
        build=Fallback,
        fields=_FALLBACK,
        needed={"model": "", "candidates": ()},
        what="fallback lists, one a model",
        most=200,
    ),
}
