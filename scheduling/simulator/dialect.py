"""The policy of a scenario: its own short words beside the settings of `core.policy.document`.

A class may say `order: fair` or `fifo` for `fifo`; `preempt` stands for `preemption`, with
`exempt_after` for `most_times`; `fallbacks` for `fallback`, where `to` lists models that all have
the same bounds. Every other setting is written as in a published policy, which can so be played as
it is. What a scenario leaves out takes the policy's default, but for two things that guard a server
and would only surprise here: `expedite` has no quota and the backlog no cap until one is written.
A table without a class `normal` that names no `default_class` takes its last class for it.

Quality is measured on a live system and by nobody here, so it is known where the scenario says it:
`quality` beside a model's prices, on the scale that `quality_min` is written in. A stand-in whose
quality is said to be below the bound is left out; one of whose quality nothing is said may be used.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduling.core.policy.checks import (
    Check,
    Choice,
    FieldError,
    Group,
    Name,
    Names,
    Number,
    Reader,
    Rows,
    Wrong,
)
from scheduling.core.policy.document import BACKLOG, CLASS, POLICY, PREEMPTION, between_fields
from scheduling.core.policy.settings import (
    DEFAULT_CLASSES,
    BacklogCaps,
    Candidate,
    Fallback,
    Policy,
    Preemption,
)
from scheduling.core.types import ClassRule

_MODEL = Name(200)
NO_CAP = 1_000_000_000
_CLASSES = tuple(replace(rule, quota=None) for rule in DEFAULT_CLASSES)
_SAME = {"preempt": "preemption", "fallbacks": "fallback"}


def _caps(**values: Any) -> BacklogCaps:  # noqa: ANN401 - checked by the table
    none = {"workspace": NO_CAP, "tenant": NO_CAP, "total": NO_CAP}
    return BacklogCaps(**{**none, **values})


def _class_rule(*, order: str | None = None, **values: Any) -> ClassRule:  # noqa: ANN401
    rule = ClassRule(**values)
    return rule if order is None else replace(rule, fifo=order == "fifo")


def _preemption(*, exempt_after: int | None = None, **values: Any) -> Preemption:  # noqa: ANN401
    rule = Preemption(**values)
    return rule if exempt_after is None else replace(rule, most_times=exempt_after)


def _fallback(
    *,
    model: str,
    to: tuple[str, ...] = (),
    quality_min: float = 0.0,
    max_price_ratio: float | None = None,
) -> Fallback:
    stand_ins = (
        Candidate(model=name, quality_floor=quality_min, price_ratio=max_price_ratio) for name in to
    )
    return Fallback(model=model, candidates=tuple(stand_ins))


SETTINGS: dict[str, Check] = {
    **POLICY,
    "classes": Rows(
        build=_class_rule,
        fields={**CLASS, "order": Choice(("fair", "fifo"))},
        needed={"name": ""},
        what="classes, the first served first",
        least=1,
        most=20,
    ),
    "backlog": Group(_caps, BACKLOG),
    "preempt": Group(_preemption, {**PREEMPTION, "exempt_after": PREEMPTION["most_times"]}),
    "fallbacks": Rows(
        build=_fallback,
        fields={
            "model": _MODEL,
            "to": Names(_MODEL, 10),
            "quality_min": Number(0, 1_000_000),
            "max_price_ratio": Number(0, 1000),
        },
        needed={"model": "", "to": ()},
        what="fallback lists, one a model",
        most=200,
    ),
}


def policy_of(reader: Reader, data: object, path: str) -> Policy:
    """Return the policy that `data` describes; name its faults to `reader`."""
    before, inside = len(reader.errors), f"{path}." if path else ""
    values = reader.fields(SETTINGS, {} if data is None else data, path)
    if len(reader.errors) > before or not isinstance(data, Mapping | None):
        return Policy()
    for short, name in _SAME.items():
        if short in values and name in values:
            reader.errors.append(FieldError(f"{inside}{short}", f"Stands beside {name}; keep one."))
        values[name] = values.pop(short, values.get(name))
    given = {key: value for key, value in values.items() if value is not None}
    policy = replace(Policy(classes=_CLASSES, backlog=_caps()), **given)
    policy = _with_default_class(policy) if "default_class" not in values else policy
    for error in between_fields(policy):
        field = f"{inside}{_as_written(error.field, data)}"
        reader.errors.append(FieldError(field, error.sentence))
    return policy


def _with_default_class(policy: Policy) -> Policy:
    if policy.class_named(policy.default_class) is not None:
        return policy
    return replace(policy, default_class=policy.classes[-1].name)


def _as_written(field: str, data: Mapping[str, Any] | None) -> str:
    """Return the path of a setting in the words that the scenario has for it."""
    if not field.startswith("fallback.") or not data or "fallbacks" not in data:
        return field
    return field.replace("fallback.", "fallbacks.", 1).replace(".candidates.", ".to.")


def with_known_quality(policy: Policy, qualities: Mapping[str, float]) -> Policy:
    """Return the policy without the stand-ins whose quality is said to be below their bound."""
    lists = []
    for one in policy.fallback:
        kept = tuple(
            replace(candidate, quality_floor=0.0)
            for candidate in one.candidates
            if qualities.get(candidate.model, candidate.quality_floor) >= candidate.quality_floor
        )
        lists.append(Fallback(model=one.model, candidates=kept))
    return replace(policy, fallback=tuple(one for one in lists if one.candidates))


class PolicyPart:
    """The check of a scenario's key `policy`."""

    allowed = "an object of settings"

    def __call__(self, reader: Reader, value: Any, path: str) -> Policy:  # noqa: ANN401
        """Return the policy; an empty part is all defaults."""
        if value is not None and not isinstance(value, Mapping):
            wrong = f"Must be {self.allowed}."
            raise Wrong(wrong)
        return policy_of(reader, value, path)
