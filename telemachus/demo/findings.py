"""What a run of the demo showed, computed from its rows: placements, shares, waits, ETAs, money."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from statistics import fmean

from django.db.models import Count, Sum

from billing.reports import cost_of_job
from scheduling.core.eta.calibration import Checked, Score, score
from scheduling.models import Attempt, Job
from telemachus.demo.scene import PARTS

FIRST_PLACED = 8
WEIGHTS = {part.slug: part.weight for part in PARTS}
LARGEST = {part.slug: part.cost for part in PARTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One placement, in the order in which they were decided."""

    tenant: str
    job_id: str
    cost: int
    turn: int | None
    waited_s: float
    at: datetime
    submitted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFinding:
    """One tenant's part: `share` of the units placed while all waited, beside its weight's."""

    slug: str
    jobs: int
    done: int
    mean_wait_s: float
    share: float
    planned: float
    spend: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The whole run; `faults` are what should never be seen."""

    placed: list[Placed]
    tenants: list[TenantFinding]
    jain: float
    lawful: bool
    smallest_place: int
    eta: Score | None
    text: str
    translation: str
    faults: list[str]


def findings(mission: str) -> Findings:
    """Read a finished run."""
    placed = _placements(mission)
    served = _served_while_all_waited(placed)
    jain = _jain([served[slug] / weight for slug, weight in WEIGHTS.items()])
    example = Job.objects.filter(mission__slug=mission, state="done").order_by("seq").first()
    return Findings(
        placed=placed,
        tenants=[_tenant(mission, slug, placed, served) for slug in WEIGHTS],
        jain=jain,
        lawful=_is_lawful(placed),
        smallest_place=_smallest_place(placed),
        eta=_eta(mission),
        text=example.payload["text"] if example else "",
        translation=(example.result or {}).get("text", "") if example else "",
        faults=_faults(mission),
    )


def _placements(mission: str) -> list[Placed]:
    attempts = Attempt.objects.filter(job__mission__slug=mission).order_by("id")
    return [
        Placed(
            tenant=attempt.job.tenant.slug,
            job_id=str(attempt.job_id),
            cost=attempt.cost,
            turn=attempt.turn,
            waited_s=(attempt.dispatched_at - attempt.job.submitted_at).total_seconds(),
            at=attempt.dispatched_at,
            submitted_at=attempt.job.submitted_at,
        )
        for attempt in attempts.select_related("job__tenant")
    ]


def _contested(placed: list[Placed]) -> list[Placed]:
    """Return the placements made while jobs of all three tenants waited.

    That is from the first placement of the tenant that came last, for the instant at which its
    first job began to wait is in no row, to the last placement of the one that is done first.
    """
    numbers = {slug: [i for i, p in enumerate(placed) if p.tenant == slug] for slug in WEIGHTS}
    first = max(own[0] for own in numbers.values())
    last = min(own[-1] for own in numbers.values())
    return placed[first : last + 1]


def _served_while_all_waited(placed: list[Placed]) -> dict[str, int]:
    served: dict[str, int] = defaultdict(int)
    for one in _contested(placed):
        served[one.tenant] += one.cost
    return served


def _is_lawful(placed: list[Placed]) -> bool:
    """Check law 2 after every placement.

    From equal positions S_u/w_u - S_v/w_v < 1 + cmax_u/w_u. The count begins in mid-run, where v
    may be ahead of u by as much as the same law allows it, 1 + cmax_v/w_v, which is added.
    """
    served = dict.fromkeys(WEIGHTS, 0)
    for one in _contested(placed):
        served[one.tenant] += one.cost
        position = {slug: served[slug] / weight for slug, weight in WEIGHTS.items()}
        if any(position[u] - position[v] >= _step(u) + _step(v) for u in WEIGHTS for v in WEIGHTS):
            return False
    return True


def _step(slug: str) -> float:
    return 1 + LARGEST[slug] / WEIGHTS[slug]


def _smallest_place(placed: list[Placed]) -> int:
    """Return the place of the smallest tenant's first job among those after its submission."""
    smallest = PARTS[-1].slug
    submitted = min(one.submitted_at for one in placed if one.tenant == smallest)
    after = [one.tenant for one in placed if one.at >= submitted]
    return after.index(smallest) + 1


def _jain(values: list[float]) -> float:
    """Return Jain's fairness index (Jain, Chiu, Hawe 1984): 1 is perfectly even."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _tenant(mission: str, slug: str, placed: list[Placed], served: dict[str, int]) -> TenantFinding:
    own = [one for one in placed if one.tenant == slug]
    jobs = Job.objects.filter(mission__slug=mission, tenant__slug=slug)
    costs = (cost_of_job(job_id) for job_id in jobs.values_list("id", flat=True))
    return TenantFinding(
        slug=slug,
        jobs=jobs.count(),
        done=jobs.filter(state="done").count(),
        mean_wait_s=fmean(one.waited_s for one in own) if own else 0.0,
        share=served[slug] / (sum(served.values()) or 1),
        planned=WEIGHTS[slug] / sum(WEIGHTS.values()),
        spend=sum((cost.total for cost in costs), Decimal(0)),
    )


def _eta(mission: str) -> Score | None:
    attempts = Attempt.objects.filter(
        job__mission__slug=mission, state="complete", eta_finish__isnull=False
    )
    return score([_checked(attempt) for attempt in attempts])


def _checked(attempt: Attempt) -> Checked:
    def after(moment: datetime | None) -> float:
        if moment is None or attempt.eta_at is None:
            return 0.0
        return (moment - attempt.eta_at).total_seconds()

    return Checked(
        predicted_s=after(attempt.eta_finish),
        low_s=after(attempt.eta_low),
        high_s=after(attempt.eta_high),
        actual_s=after(attempt.ended_at),
    )


def _faults(mission: str) -> list[str]:
    """Return what should never be seen: jobs not done, or done or settled more than once."""
    jobs = Job.objects.filter(mission__slug=mission)
    twice = jobs.filter(attempts__state="complete").annotate(n=Count("attempts")).filter(n__gt=1)
    told = jobs.filter(events__event="finished").annotate(n=Count("events")).filter(n__gt=1)
    faults = [f"job {job.id} is {job.state}: {job.error}" for job in jobs.exclude(state="done")]
    faults += [f"job {job.id} completed {job.n} times" for job in twice]
    faults += [f"job {job.id} was told finished {job.n} times" for job in told]
    return faults


def counts(mission: str) -> dict[str, int]:
    """Return the run's jobs by state."""
    rows = Job.objects.filter(mission__slug=mission).order_by().values_list("state")
    return dict(rows.annotate(n=Count("id")))


def spend(mission: str) -> Decimal:
    """Return what the run's settled attempts cost in all."""
    total = Attempt.objects.filter(job__mission__slug=mission).aggregate(all=Sum("spend"))["all"]
    return Decimal(total or 0)
