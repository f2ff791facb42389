"""Levers of pools and their executors.

Each lever checks, changes and audits in one transaction and wakes the governor, which sees the
change's number within a tick and applies it to the backlog that is there.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from django.db import transaction
from django.utils import timezone

from billing.services.prices import UnpricedModel, rule_in_force
from scheduling.core.types import REVIEWS
from scheduling.events import nudge_on_commit
from scheduling.executors.registry import EXECUTORS
from scheduling.kinds.registry import KINDS
from scheduling.models import Executor, Pool
from scheduling.models.executor import HUMAN
from tenants.controls import ControlRefused, record_change

MAX_UNITS = 1_000_000
_LISTS = ("job_kinds", "models_offered", "labels", "tools", "data_classes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """How an executor is to be: see `scheduling.models.executor.Executor`."""

    kind: str
    provider: str
    job_kinds: Sequence[str]
    slots: int
    endpoint: str = ""
    models_offered: Sequence[str] = field(default_factory=list)
    region: str = ""
    labels: Sequence[str] = field(default_factory=list)
    tools: Sequence[str] = field(default_factory=list)
    data_classes: Sequence[str] = field(default_factory=list)
    compute_class: str = ""
    weight: int = 1


@transaction.atomic
def pool_create(
    *, slug: str, name: str, budget: int, reserve: int, acting_user: str, reason: str
) -> Pool:
    """Make a pool; raises `ControlRefused` for a taken slug or units out of bounds."""
    _check_units(budget, reserve)
    if Pool.objects.filter(slug=slug).exists():
        sentence = f"There is a pool {slug!r} already."
        raise ControlRefused("slug", sentence)
    pool = Pool.objects.create(slug=slug, name=name, budget=budget, reserve=reserve)
    record_change(
        actor=acting_user,
        action="pool_create",
        tenant=None,
        target=("pool", pool.id),
        change=({}, {"slug": slug, "budget": budget, "reserve": reserve}),
        reason=reason,
    )
    nudge_on_commit()
    return pool


@transaction.atomic
def pool_dial(
    *,
    pool_id: uuid.UUID,
    budget: int | None = None,
    reserve: int | None = None,
    acting_user: str,
    reason: str,
) -> int:
    """Set a pool's budget and reserve in units (None: as it is); nothing that runs is stopped.

    Returns the change's number; raises `ControlRefused` and `Pool.DoesNotExist`.
    """
    pool = Pool.objects.select_for_update(no_key=True).get(id=pool_id)
    before = {"budget": pool.budget, "reserve": pool.reserve}
    budget = pool.budget if budget is None else budget
    reserve = pool.reserve if reserve is None else reserve
    _check_units(budget, reserve)
    pool.budget, pool.reserve = budget, reserve
    pool.save(update_fields=["budget", "reserve"])
    nudge_on_commit()
    return record_change(
        actor=acting_user,
        action="pool_dial",
        tenant=None,
        target=("pool", pool.id),
        change=(before, {"budget": budget, "reserve": reserve}),
        reason=reason,
    )


@transaction.atomic
def executor_put(
    *, slug: str, pool: Pool, settings: ExecutorSettings, acting_user: str, reason: str
) -> Executor:
    """Make an executor, or give an existing one of this pool new settings.

    Raises `ControlRefused` for unknown kinds, no slots, or a slug of another pool.
    """
    _check_executor(settings)
    _check_price(settings)
    wanted = asdict(settings) | {name: list(getattr(settings, name)) for name in _LISTS}
    row = Executor.objects.select_for_update(no_key=True).filter(slug=slug).first()
    if row is not None and row.pool_id != pool.id:
        sentence = f"Executor {slug!r} belongs to another pool."
        raise ControlRefused("slug", sentence)
    before = {name: getattr(row, name) for name in wanted} if row else {}
    row = row or Executor(slug=slug, pool=pool)
    for name, value in wanted.items():
        setattr(row, name, value)
    row.save()
    if before != wanted:
        record_change(
            actor=acting_user,
            action="executor_put",
            tenant=row.tenant,
            target=("executor", row.id),
            change=(before, wanted),
            reason=reason,
        )
    nudge_on_commit()
    return row


def _check_price(settings: ExecutorSettings) -> None:
    """Refuse an executor whose work nothing would price: it could neither be admitted nor booked."""
    for model in settings.models_offered or [settings.kind]:
        try:
            rule_in_force((settings.provider, model), timezone.now())
        except UnpricedModel as unpriced:
            raise ControlRefused("provider", str(unpriced)) from unpriced


def _check_units(budget: int, reserve: int) -> None:
    if not 0 <= budget <= MAX_UNITS:
        sentence = f"A budget is 0 to {MAX_UNITS} units, not {budget}."
        raise ControlRefused("budget", sentence)
    if not 0 <= reserve <= budget:
        sentence = f"A reserve is 0 to the budget ({budget}), not {reserve}."
        raise ControlRefused("reserve", sentence)


def _check_executor(settings: ExecutorSettings) -> None:
    if settings.kind not in {*EXECUTORS, HUMAN}:
        known = _list({*EXECUTORS, HUMAN})
        sentence = f"There is no executor kind {settings.kind!r}; there are: {known}."
        raise ControlRefused("kind", sentence)
    kinds = {REVIEWS.name} if settings.kind == HUMAN else set(KINDS)
    unknown = sorted(set(settings.job_kinds) - kinds)
    if unknown or not settings.job_kinds:
        sentence = f"Name one or more of {_list(kinds)}; unknown: {_list(unknown)}."
        raise ControlRefused("job_kinds", sentence)
    if settings.slots < 1 or settings.weight < 1:
        raise ControlRefused("slots", "Slots and weight are at least 1.")


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
