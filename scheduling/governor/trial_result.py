"""The comparison of a trial as plain data for the API and the admin: names for ids, ISO times.

Every figure that has two sides is a pair [before, after]. Seconds are rounded to tenths, shares to
five places; money is text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from scheduling.core.eta.trial import Beside, Comparison, Moved, Pair, Part, Spot
from scheduling.core.policy.document import to_dict
from scheduling.core.policy.settings import Policy
from scheduling.governor.config import Config

TENANTS_MOST = 1_000
"""Of more tenants than this those with the most waiting jobs are told."""
Told: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a trial calls tenants and workflows, and the moment that its seconds count from."""

    tenants: Mapping[str, str]
    workflows: Mapping[str, str]
    weights: Mapping[str, int]
    now: float

    @classmethod
    def of(cls, config: Config, now: float) -> "Names":
        """Return the names of a configuration."""
        return cls(
            tenants={one: facts.slug for one, facts in config.tenants.items()},
            workflows={one: facts.slug for one, facts in config.workflows.items()},
            weights={one: facts.weight for one, facts in config.tenants.items()},
            now=now,
        )


def changes(active: Policy, draft: Policy) -> list[Told]:
    """Return every setting that differs, by its path, in both policies."""
    pairs = _differing(to_dict(active), to_dict(draft), "")
    return [
        {"setting": path, "before": before, "after": after}
        for path, before, after in pairs
        if path != "number"
    ]


def _differing(
    before: Mapping[str, Any], after: Mapping[str, Any], path: str
) -> Iterator[tuple[str, Any, Any]]:
    for name in after:
        was, will = before.get(name), after[name]
        if isinstance(was, dict) and isinstance(will, dict):
            yield from _differing(was, will, f"{path}{name}.")
        elif was != will:
            yield f"{path}{name}", was, will


def compared(found: Comparison, pair: Pair, names: Names) -> Told:
    """Return a comparison of a pool, or of all."""
    tenants = sorted(found.tenants, key=lambda one: (-one.before.jobs, one.name))
    return {
        "jobs": found.jobs,
        "without_start": [run.kept_out for run in pair],
        "approximate": [run.approximate for run in pair],
        "window_s": round(found.window_s, 1),
        "moved": {
            "earlier": _moved(found.earlier),
            "later": _moved(found.later),
            "unmoved": found.unmoved,
            "gained": found.gained,
            "lost": found.lost,
        },
        "movers": [_spot(one, names) for one in found.movers],
        "deadlines_missed": {
            "jobs": [found.missed.before, found.missed.after],
            "newly": [_spot(one, names) for one in found.missed.newly],
            "saved": [_spot(one, names) for one in found.missed.saved],
        },
        "fairness": [_rounded(one, 5) for one in found.fairness],
        **_beside(found.everything, names),
        "tenants": [_tenant(one, names) for one in tenants[:TENANTS_MOST]],
        "tenants_left_out": max(0, len(tenants) - TENANTS_MOST),
        "classes": [{"class": one.name, **_beside(one, names)} for one in found.classes],
    }


def _tenant(one: Beside, names: Names) -> Told:
    return {
        "tenant": names.tenants.get(one.name, ""),
        "weight": names.weights.get(one.name),
        **_beside(one, names),
    }


def _beside(one: Beside, names: Names) -> Told:
    """Return the two sides of each figure; `clear_s` counts from the moment of the trial."""
    return {
        "waiting": [one.before.jobs, one.after.jobs],
        "mean_wait_s": [_rounded(part.mean_wait_s) for part in (one.before, one.after)],
        "p95_wait_s": [_rounded(part.p95_wait_s) for part in (one.before, one.after)],
        "charge_share": [round(part.charge_share, 5) for part in (one.before, one.after)],
        "cost_share": [round(part.cost_share, 5) for part in (one.before, one.after)],
        "cost_s": [round(part.cost_s, 1) for part in (one.before, one.after)],
        "spend_per_hour": [_money(part) for part in (one.before, one.after)],
        "clear_s": [_clear(part, names.now) for part in (one.before, one.after)],
    }


def _money(part: Part) -> str:
    return f"{part.spend.normalize():f}" if part.spend else "0"


def _clear(part: Part, now: float) -> float | None:
    return None if part.clear_at is None else round(max(0.0, part.clear_at - now), 1)


def _rounded(value: float | None, places: int = 1) -> float | None:
    return None if value is None else round(value, places)


def _moved(one: Moved) -> Told:
    return {"jobs": one.jobs, "mean_s": round(one.mean_s, 1), "most_s": round(one.most_s, 1)}


def _spot(one: Spot, names: Names) -> Told:
    return {
        "job": one.job.id,
        "tenant": names.tenants.get(one.job.tenant, ""),
        "workflow": names.workflows.get(one.job.workflow, ""),
        "class": list(one.class_names),
        "place": list(one.places),
        "start": [datetime.fromtimestamp(at, UTC).isoformat() for at in one.starts],
        "by_s": round(one.by_s, 1),
        "deadline": _iso(one.job.deadline),
    }


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
