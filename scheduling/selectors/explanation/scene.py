"""What an explanation goes by: one job, its pool as the core sees it, and who asks."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from billing.services.standing import BudgetStanding
from scheduling.core import types
from scheduling.core.admission import Answer, Facts
from scheduling.core.eta.calibration import Calibration
from scheduling.core.policy.explain import Ahead, Check, Status
from scheduling.core.policy.raises import Raise
from scheduling.core.policy.state import PoolState
from scheduling.core.policy.windows import Rate
from scheduling.core.types import LimitKey
from scheduling.models import Attempt, Decision, Job
from tenants.rbac import Reach

Told: TypeAlias = dict[str, Any]
"""Facts by name: numbers, texts, aware times, and lists and objects of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check says: in a sentence, and with its facts. `reason` is the code where it speaks."""

    check: Check
    status: Status
    sentence: str
    facts: Told
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """Admission as it stands now. `answer` is None for a job that is admitted already."""

    facts: Facts
    answer: Answer | None
    budgets: tuple[BudgetStanding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One moment of a job and its pool.

    `state` holds the pool's queued jobs, or those at its front; `walked` says that all that stand
    in front of this one are there; `start` is its start in the order that was
    published last, `range_of` how far such times may be trusted. `live` is what runs in any pool. `ahead` is the job's place as
    the order stood at `order_at`, None where it has none. `tenants` are slugs by id, `measured`
    run times by workflow. `raised` are the escalations of limits in force, on top of `caps` and
    `rates` as they are set. `amounts`: who asks may see what the budgets have spent.
    """

    at: datetime
    job: Job
    core: types.Job
    state: PoolState
    live: Mapping[str, types.Live]
    walked: bool
    ahead: Ahead | None
    order_at: datetime | None
    tenants: Mapping[str, str]
    measured: Mapping[str, float]
    decision: Decision | None
    attempt: Attempt | None
    rehearsed: Rehearsed
    within: Reach
    amounts: bool
    start: float | None = None
    range_of: Calibration = field(default_factory=Calibration)
    raised: tuple[Raise, ...] = ()
    caps: Mapping[LimitKey, int] = field(default_factory=dict)
    rates: Mapping[LimitKey, Rate] = field(default_factory=dict)

    @property
    def now(self) -> float:
        """The moment as the core takes it (epoch seconds)."""
        return self.at.timestamp()

    def sees(self, tenant: str, workspace: str) -> bool:
        """Tell whether what belongs to that workspace may be named to who asks."""
        return self.within.covers(uuid.UUID(tenant), uuid.UUID(workspace))
