"""What a job may cost: one price an executor that may run it, and the least that will do.

The estimate is that of the dearest executor, so that whichever runs the job is funded. Where the
budgets have no room for that, the dearest for which they have is enough: the job is funded for that
executor and those that cost no more, and placed on no other.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from billing.services.prices import UnpricedModel, price_each, price_review
from scheduling.core import types
from scheduling.core.placement import candidates
from scheduling.models import Job
from scheduling.services.catalogue import Catalogue, offer_of

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What a job may cost (USD), by executor; else the model without price, or who is missing."""

    prices: Mapping[str, Decimal] = field(default_factory=dict)
    unpriced: str = ""
    no_executor: bool = False
    no_reviewer: bool = False

    @property
    def spend(self) -> Decimal:
        """The price of the dearest executor."""
        return max(self.prices.values(), default=_ZERO)

    @property
    def instead(self) -> tuple[Decimal, ...]:
        """The lower prices, the dearest first."""
        return tuple(sorted({*self.prices.values()} - {self.spend}, reverse=True))

    def within(self, most: Decimal | None) -> "Quote":
        """Return the quote without the executors that cost more than `most`, if any costs less."""
        if most is None or self.spend <= most:
            return self
        left = {one: price for one, price in self.prices.items() if price <= most}
        return replace(self, prices=left) if left else self

    def places(self, funded: Decimal, all_of: "Quote") -> list[uuid.UUID]:
        """Return the executors that `funded` pays for; none named where it pays for `all_of`."""
        paid = [one for one, price in self.prices.items() if price <= funded]
        return [] if len(paid) == len(all_of.prices) else [uuid.UUID(one) for one in sorted(paid)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotes:
    """The quotes of a set: jobs that ask for the same have the same."""

    catalogue: Catalogue
    now: datetime
    known: dict[tuple[object, ...], Quote] = field(default_factory=dict)

    def quote(self, row: Job, cost: int, seconds: float | None, *, reviewed: bool = False) -> Quote:
        """Return the quote for a job of `cost` units that should run so long.

        `reviewed`: with what the review of its work should cost. Computed for the first of its like.
        """
        tokens = row.input_tokens, row.output_tokens
        asks = row.kind, row.model_in_force, row.region, row.data_class, row.compute_class
        minutes = row.estimate.get("review_minutes") if reviewed else None
        sizes = (*tokens, seconds, reviewed, minutes)
        like = (row.pool_id, *asks, tuple(row.labels), tuple(row.tools), *sizes)
        found = self.known.get(like)
        if found is None:
            core = core_job(row, cost)
            found = self.known[like] = self.compute(core, row, seconds, reviewed=reviewed)
        return found

    def _with_review(self, work: Quote, row: Job) -> Quote:
        """Add what the review of the work should cost; nobody to review it refuses the work."""
        minutes = Decimal(str(row.estimate.get("review_minutes", 0)))
        settings, workspace = self.catalogue.settings, self.catalogue.workspace
        offers = settings.reviewers(row.data_class, workspace, str(row.pool_id))
        if not offers:
            return replace(work, no_reviewer=not work.no_executor)
        try:
            spend = price_review(offers=offers, minutes=minutes, now=self.now)
        except UnpricedModel as unpriced:
            return replace(work, unpriced=work.unpriced or unpriced.model)
        return replace(work, prices={one: price + spend for one, price in work.prices.items()})

    def compute(
        self, job: types.Job, row: Job, seconds: float | None, *, reviewed: bool = False
    ) -> Quote:
        """Return the quote for a job as the core sees it, with what `row` says of its size."""
        work = self._of_work(job, row, seconds)
        return self._with_review(work, row) if reviewed else work

    def _of_work(self, job: types.Job, row: Job, seconds: float | None) -> Quote:
        settings, pool = self.catalogue.settings, str(row.pool_id)
        found = settings.executors.get(pool, [])
        rows = {core.id: executor for executor, core in found}
        offers = {
            one.id: offer_of(rows[one.id], job.model)
            for one in candidates(job, [core for _, core in found])
        }
        if not offers:
            if not job.model or settings.is_offered(job.model, pool):
                return Quote(no_executor=True)
            return Quote(unpriced=job.model)
        try:
            prices = price_each(
                offers=sorted(set(offers.values())),
                input_tokens=row.input_tokens,
                output_tokens=row.output_tokens,
                seconds=seconds or settings.policy.default_expected_s,
                now=self.now,
            )
        except UnpricedModel as unpriced:
            return Quote(unpriced=unpriced.model)
        return Quote(prices={one: prices[offer] for one, offer in offers.items()})


def core_job(job: Job, cost: int) -> types.Job:
    """Return the job as placement sees it (before it has an arrival number)."""
    return types.Job(
        id=str(job.id),
        seq=0,
        tenant=str(job.tenant_id),
        workspace=str(job.workspace_id),
        submitted_at=0,
        class_name=job.job_class,
        cost=cost,
        kind=job.kind,
        model=job.model_in_force,
        region=job.region,
        labels=frozenset(job.labels),
        tools=frozenset(job.tools),
        data_class=job.data_class,
        compute_class=job.compute_class,
    )
