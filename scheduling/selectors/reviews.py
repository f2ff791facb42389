"""What waits for a review, as far as who asks may review it: the oldest first."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Prefetch, QuerySet

from scheduling.core.states import AttemptState, Phase
from scheduling.models import Attempt, Job
from scheduling.models.attempt import LIVE
from scheduling.selectors.jobs import NAMED
from tenants.rbac import Permission, Principal, reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a review stands: it `waits` for a reviewer's slot, is `open` to be taken, or `taken`.

    `by` has it, until `until`; `since` it lies before the reviewers.
    """

    state: str
    since: datetime | None = None
    by: str = ""
    until: datetime | None = None


def reviews_list(principal: Principal) -> QuerySet[Job]:
    """Return the jobs in review that the principal may review, with their live attempts."""
    live = Prefetch("attempts", Attempt.objects.filter(state__in=LIVE), to_attr="lies")
    return _reviewable(principal).select_related(*NAMED).prefetch_related(live)


def reviews_count(principal: Principal) -> int:
    """Return how many jobs wait for a review that the principal may do."""
    return _reviewable(principal).count()


def may_review(principal: Principal) -> bool:
    """Tell whether the principal may review anywhere."""
    within = reach(principal, Permission.REVIEW)
    return within.everywhere or bool(within.tenants or within.workspaces)


def standing_of(job: Job) -> Standing:
    """Return where a review of `reviews_list` stands."""
    lies: list[Attempt] = getattr(job, "lies")  # noqa: B009 (an attribute that the query adds)
    if not lies:
        return Standing(state="waits")
    attempt = lies[0]
    if attempt.state == AttemptState.DISPATCHED:
        return Standing(state="open", since=attempt.dispatched_at)
    return Standing(
        state="taken",
        since=attempt.dispatched_at,
        by=attempt.reviewer,
        until=attempt.lease_until,
    )


def _reviewable(principal: Principal) -> QuerySet[Job]:
    rows = Job.objects.filter(phase=Phase.REVIEW, finished_at=None).order_by("seq")
    return rows.filter(reach(principal, Permission.REVIEW).rows())
