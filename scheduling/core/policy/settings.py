"""The policy: every scheduling setting in one immutable, numbered value, with its defaults.

A decision names the number of the policy that it was made under. `policy.document` reads a policy
from plain data and writes it back.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from scheduling.core.breaker import BreakerSettings
from scheduling.core.retry import RetrySettings
from scheduling.core.types import REVIEWS, ClassRule, Job


class ShareBy(StrEnum):
    """What a placement takes of its tenant's turn."""

    TURNS = "turns"
    COST = "cost"
    COST_TIME = "cost_time"
    TOKENS = "tokens"


class Backfill(StrEnum):
    """Whether a job may pass a head that waits for units."""

    NONE = "none"
    EASY = "easy"


class OnLost(StrEnum):
    """What becomes of a job whose worker was lost and whose executor does not know it."""

    REQUEUE = "requeue"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogCaps:
    """The most jobs that may wait, and the share of `total` from which sheddable ones are shed."""

    workspace: int = 20_000
    tenant: int = 100_000
    total: int = 1_000_000
    shed_share: float = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultCaps:
    """The most jobs at once of a scope that has no running cap of its own; None: no cap."""

    SCOPES: ClassVar = ("tenant", "workspace", "workflow", "user")

    tenant: int | None = None
    workspace: int | None = None
    workflow: int | None = None
    user: int | None = None

    def by_scope(self) -> Mapping[str, int]:
        """Return the caps that are set."""
        caps = ((scope, getattr(self, scope)) for scope in self.SCOPES)
        return {scope: cap for scope, cap in caps if cap is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Whether a strictly higher class may take a running job's place at a safe boundary.

    A victim has run for `min_run_s` (seconds) and was preempted fewer than `most_times` before, the
    times that it left a drained executor counted in.
    """

    enabled: bool = False
    min_run_s: float = 60.0
    most_times: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskRule:
    """What work of one risk level asks: labels of its executor, a review, and who may submit it."""

    labels: tuple[str, ...] = ()
    needs_review: bool = False
    asked_by: str = "submitter"
    """The least role that may ask for it: submitter, tenant_admin or operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskRules:
    """The rule of each risk level; a job's risk is never changed to fit capacity."""

    LEVELS: ClassVar = ("low", "medium", "high", "critical")

    low: RiskRule = RiskRule()
    medium: RiskRule = RiskRule()
    high: RiskRule = RiskRule()
    critical: RiskRule = RiskRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A model that is qualified to stand in for another, within bounds.

    `quality_floor` (0 to 1) is the least measured quality at which it may; `data_class` the most
    sensitive class of data that it may be given and `region` where it must run (empty: not bound);
    `latency_s` the slowest answer and `price_ratio` the most that its estimate may cost, as a
    multiple of the estimate for the model that was asked for (None: not bound).
    """

    model: str
    quality_floor: float = 0.0
    data_class: str = ""
    region: str = ""
    latency_s: float | None = None
    price_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """The models that may stand in for `model` when it fails, the first tried first."""

    model: str
    candidates: tuple[Candidate, ...]


DEFAULT_CLASSES = (
    ClassRule(name="incident", uses_reserve=True, asked_by="operator"),
    ClassRule(name="expedite", fifo=True, quota=5),
    ClassRule(name="critical", asked_by="tenant_admin"),
    ClassRule(name="normal", ages_to="critical"),
    ClassRule(name="batch", sheddable=True, ages_to="critical"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All settings of one version. Times are seconds.

    `age_after` is how long a job waits for each class that it climbs (0: no aging) and `age_limit`
    how many of a tenant's oldest startable jobs climb. `starving_after` is the age at which a
    waiting job is flagged; `default_expected_s` the run time assumed where nothing was measured.
    """

    number: int = 1
    classes: tuple[ClassRule, ...] = DEFAULT_CLASSES
    default_class: str = "normal"
    share_by: ShareBy = ShareBy.COST
    age_after: float = 1800.0
    age_limit: int = 10
    starving_after: float = 3600.0
    backfill: Backfill = Backfill.NONE
    deadlines: bool = False
    retry: RetrySettings = field(default_factory=RetrySettings)
    breaker: BreakerSettings = field(default_factory=BreakerSettings)
    backlog: BacklogCaps = field(default_factory=BacklogCaps)
    on_lost_idempotent: OnLost = OnLost.REQUEUE
    on_lost_other: OnLost = OnLost.FAIL
    default_expected_s: float = 60.0
    default_caps: DefaultCaps = field(default_factory=DefaultCaps)
    preemption: Preemption = field(default_factory=Preemption)
    risk: RiskRules = field(default_factory=RiskRules)
    fallback: tuple[Fallback, ...] = ()

    def class_named(self, name: str) -> ClassRule | None:
        """Return the entry of the class table with that name, or None."""
        for rule in self.classes:  # a loop: this is asked for each job
            if rule.name == name:
                return rule
        return None

    def uses_reserve(self, class_name: str) -> bool:
        """Tell whether jobs of that class may use the reserve; an unknown class may not."""
        rule = self.class_named(class_name)
        return rule is not None and rule.uses_reserve


def with_reviews(policy: Policy) -> Policy:
    """Return the policy with the class in which reviews stand, unless it has one of that name."""
    if policy.class_named(REVIEWS.name) is not None:
        return policy
    return replace(policy, classes=(REVIEWS, *policy.classes))


def charge_of(
    policy: Policy,
    *,
    cost: int,
    expected_s: float,
    input_tokens: int = 0,
    output_tokens: int = 0,
) -> int:
    """Return what a placement takes of its tenant's turn: a whole number, at least 1, rounded up.

    Output tokens weigh twice, as in the cost function of the Virtual Token Counter
    (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024).
    """
    if policy.share_by is ShareBy.TOKENS:
        return max(1, input_tokens + 2 * output_tokens)
    if policy.share_by is ShareBy.COST_TIME:
        return max(1, math.ceil(cost * expected_s))
    return max(1, cost) if policy.share_by is ShareBy.COST else 1


def recharged(policy: Policy, job: Job, cost: int) -> int:
    """Return the charge of a waiting `job` whose capacity cost becomes `cost`."""
    if policy.share_by is ShareBy.TOKENS:
        return job.charge
    return charge_of(policy, cost=cost, expected_s=job.expected_s)
