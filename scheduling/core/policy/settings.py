"""The policy: every scheduling setting in one immutable, numbered value, with its defaults.

A decision names the number of the policy that it was made under. `policy.document` reads a policy
from plain data and writes it back.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from scheduling.core.breaker import BreakerSettings
from scheduling.core.retry import RetrySettings
from scheduling.core.types import ClassRule, Job


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

    def class_named(self, name: str) -> ClassRule | None:
        """Return the entry of the class table with that name, or None."""
        return next((rule for rule in self.classes if rule.name == name), None)

    def uses_reserve(self, class_name: str) -> bool:
        """Tell whether jobs of that class may use the reserve; an unknown class may not."""
        rule = self.class_named(class_name)
        return rule is not None and rule.uses_reserve


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
    measured: dict[ShareBy, float] = {
        ShareBy.TURNS: 1,
        ShareBy.COST: cost,
        ShareBy.COST_TIME: cost * expected_s,
        ShareBy.TOKENS: input_tokens + 2 * output_tokens,
    }
    return max(1, math.ceil(measured[policy.share_by]))


def recharged(policy: Policy, job: Job, cost: int) -> int:
    """Return the charge of a waiting `job` whose capacity cost becomes `cost`."""
    if policy.share_by is ShareBy.TOKENS:
        return job.charge
    return charge_of(policy, cost=cost, expected_s=job.expected_s)
