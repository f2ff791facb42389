"""What a job may still use of its own ceilings when an attempt of it begins.

What all its attempts have used is known from their rows, failed and earlier ones included, and what
its own jobs have used counts with it. A job without ceilings is asked for nothing.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from django.db import connection

from billing.core.pricing import Rule, Usage, affordable_output, price, total
from billing.services.prices import UnpricedModel, prices_load, rule_in_force
from scheduling.executors.contract import ErrorClass, Outcome, Status, Work
from scheduling.executors.contract import Usage as Used
from scheduling.executors.usage import unused
from scheduling.services.settlement import priced
from scheduling.tasks.claim import Claimed

_USED = """
WITH RECURSIVE family AS (
    SELECT %s::uuid AS id
    UNION SELECT j.id FROM family JOIN scheduling_job j ON j.parent_id = family.id
)
SELECT coalesce(sum((a.usage->>'input_total')::bigint + (a.usage->>'output_total')::bigint), 0),
    coalesce(sum(a.spend), 0)
FROM family CROSS JOIN LATERAL (
    SELECT usage, spend FROM scheduling_attempt WHERE job_id = family.id OFFSET 0
) a
"""
MOST_OUTPUT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is left of a job's ceilings, in tokens and in US dollars; None is no ceiling."""

    tokens: int | None = None
    spend: Decimal | None = None


def left_of(claimed: Claimed) -> Left:
    """Return what the job may still use; a first attempt has all of it without a question."""
    if claimed.max_tokens is None and claimed.max_spend is None:
        return Left()
    tokens, spend = (0, Decimal(0)) if claimed.fence == 1 else _used(claimed)
    return Left(
        tokens=None if claimed.max_tokens is None else claimed.max_tokens - tokens,
        spend=None if claimed.max_spend is None else claimed.max_spend - spend,
    )


def bounded(work: Work, left: Left, claimed: Claimed) -> Work | Outcome:
    """Return the work with its output bounded by what is left, else the end of a job without."""
    limits = []
    if left.tokens is not None:
        limits.append(left.tokens - work.estimate.input_tokens)
    if left.spend is not None:
        limits.append(_affordable(work, left.spend, claimed))
    most = min(limits, default=MOST_OUTPUT)
    if most < 1:
        return stopped("What is left of its ceilings of tokens and spend allows no further answer.")
    return replace(work, output_limit=most) if most < MOST_OUTPUT else work


def stopped(ceiling: str) -> Outcome:
    """Return the outcome of an attempt that a ceiling keeps from its work; it has used nothing."""
    return Outcome(
        status=Status.CANCELED,
        usage=unused(requests=0, elapsed_s=0.0),
        error_class=ErrorClass.CANCELED,
        message=ceiling,
        ceiling=ceiling,
    )


def price_of(claimed: Claimed, used: Used) -> Decimal:
    """Return what an attempt is going to cost in US dollars; 0 where nothing prices it."""
    rule = _rule(claimed.provider, claimed.model or claimed.executor_kind)
    return Decimal(0) if rule is None else total(price(priced(used), rule)[0])


def _used(claimed: Claimed) -> tuple[int, Decimal]:
    with connection.cursor() as cursor:
        cursor.execute(_USED, [claimed.job_id])
        tokens, spend = cursor.fetchone()
    return int(tokens), spend


def _affordable(work: Work, spend: Decimal, claimed: Claimed) -> int:
    rule = _rule(claimed.provider, work.model or claimed.executor_kind)
    if rule is None:
        return MOST_OUTPUT  # what nothing prices cannot be settled either; that is said there
    asked = Usage(input_total=work.estimate.input_tokens)
    return affordable_output(rule, asked, spend, most=MOST_OUTPUT)


def _rule(provider: str, model: str) -> Rule | None:
    try:
        prices_load([(provider, model)])
        return rule_in_force((provider, model), datetime.now(UTC))
    except UnpricedModel:
        return None
