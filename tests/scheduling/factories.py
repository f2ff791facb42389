"""Plain functions that make what a test of the scheduler needs, through the real services."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from billing.core.pricing import Rate
from billing.services.budgets import Ceiling, budget_set
from billing.services.prices import cost_rule_publish, prices_forget
from scheduling.controls.policies import policy_publish
from scheduling.controls.pools import ExecutorSettings, executor_put, pool_create
from scheduling.controls.workflows import WorkflowSettings, workflow_put
from scheduling.executors.contract import ErrorClass, Outcome, Status, Usage, status_of
from scheduling.models import Attempt, Circuit, Executor, Job, Pool, Worker, Workflow
from scheduling.services.drafts import Refused, Rights, Submission
from scheduling.services.settlement import Report, SettledSet, attempts_settle
from scheduling.services.submission import Accepted, jobs_submit
from scheduling.tasks.claim import Claimed, attempts_claim
from tenants.controls import tenant_weight
from tenants.models import Tenant, Workspace
from tenants.services import tenant_create, workspace_create

WHO: dict[str, Any] = {"acting_user": "root", "reason": "test"}
CLASSES = ("incident", "expedite", "critical", "normal", "batch")
START = datetime(2020, 1, 1, tzinfo=UTC)
LONG_AGO = "3"
"""The first transaction of a server: what a row last changed by it has been seen."""


def make_policy(**body: Any) -> int:
    """Publish a policy; returns its number."""
    return policy_publish(body=body, note="test", acting_user="root")


def make_price(provider: str = "simulated", model: str = "*", **amounts: str) -> None:
    """Price an offer; amounts are USD per million of each meter."""
    rates = [Rate(meter=meter, amount=Decimal(amount)) for meter, amount in amounts.items()]
    cost_rule_publish(offer=(provider, model), starts_at=START, rates=rates, **WHO)
    prices_forget()


def make_pool(slug: str = "main", budget: int = 10, reserve: int = 0) -> Pool:
    return pool_create(slug=slug, name=slug, budget=budget, reserve=reserve, **WHO)


def make_executor(pool: Pool, slug: str = "", slots: int = 100, **more: Any) -> Executor:
    wanted: dict[str, Any] = {
        "kind": "simulated", "provider": "simulated", "job_kinds": ["simulated"], "slots": slots,
    }  # fmt: skip
    settings = ExecutorSettings(**(wanted | more))
    return executor_put(slug=slug or f"{pool.slug}-sim", pool=pool, settings=settings, **WHO)


def make_reviewers(pool: Pool, slots: int = 100, *, minute: str = "0", **more: Any) -> Executor:
    """Make reviewers of a pool; a minute of theirs costs so many USD."""
    rates = [Rate(meter="review_minutes", amount=Decimal(minute), per=1)]
    cost_rule_publish(offer=("human", "*"), starts_at=START, rates=rates, **WHO)
    prices_forget()
    wanted: dict[str, Any] = {"kind": "human", "provider": "human", "job_kinds": ["review"]}
    settings = ExecutorSettings(**(wanted | {"slots": slots} | more))
    return executor_put(slug=f"{pool.slug}-reviewers", pool=pool, settings=settings, **WHO)


def set_circuit(state: str, until: datetime | None = None, **of: Any) -> Circuit:
    """Put a circuit into a state: of the only executor's key, or of what is named."""
    executor = of.get("executor") or Executor.objects.get()
    key = {"executor": executor, "model": of.get("model", "")}
    values = {"state": state, "failures": 0, "until": until}
    return Circuit.objects.update_or_create(**key, defaults=values)[0]


def make_tenant(slug: str, pool: Pool, *, weight: int = 1, **workflow: Any) -> Workspace:
    """Make a tenant with the workspace `main` and the workflow `build`; returns the workspace."""
    tenant = tenant_create(slug=slug, name=slug, **WHO)
    if weight != 1:
        tenant_weight(tenant_id=tenant.id, weight=weight, **WHO)
    make_workflow(tenant, pool, **workflow)
    return workspace_create(tenant=tenant, slug="main", name="Main", **WHO)


def make_workflow(tenant: Tenant, pool: Pool, slug: str = "build", **settings: Any) -> Workflow:
    return workflow_put(
        tenant=tenant, slug=slug, settings=WorkflowSettings(pool=pool, **settings), **WHO
    )


def make_budget(
    workspace: Workspace, limit: str, dimension: str = "spend", **more: Any
) -> uuid.UUID:
    """Set a ceiling on a workspace's tenant, or on another scope of it."""
    ceiling = Ceiling(
        tenant_id=workspace.tenant_id,
        scope=more.pop("scope", "tenant"),
        scope_id=str(more.pop("scope_id", workspace.tenant_id)),
        dimension=dimension,
        **more,
    )
    return budget_set(ceiling=ceiling, limit=Decimal(limit), **WHO)


def make_worker(threads: int = 1000, queues: Sequence[str] = ("simulated",)) -> int:
    """Make a worker's row that counts as seen for a day; nothing holds its lock."""
    seen = timezone.now() + timedelta(days=1)
    row = Worker.objects.create(name="test", queues=list(queues), threads=threads, seen_at=seen)
    return row.id


def asked(**more: Any) -> Submission:
    """Return a good submission of no seconds and a million output tokens, or of what is named."""
    tokens = more.pop("tokens", {"input": 0, "output": 1_000_000})
    payload = {"seconds": more.pop("seconds", 0), "tokens": tokens}
    fields: dict[str, Any] = {"workflow": "build", "kind": "simulated", "payload": payload}
    return Submission(**(fields | more))


def submit_all(
    workspace: Workspace, submissions: Sequence[Submission], **more: Any
) -> list[Accepted | Refused]:
    return jobs_submit(
        workspace=workspace,
        submitted_by=more.pop("submitted_by", "7"),
        submissions=submissions,
        rights=more.pop("rights", None) or Rights(classes=more.pop("may_ask", CLASSES)),
        now=more.pop("now", None) or timezone.now(),
    )


def submit(workspace: Workspace, count: int = 1, **more: Any) -> list[Job]:
    """Submit jobs that must be accepted; returns them."""
    answers = submit_all(workspace, [asked(**more)] * count)
    return [answer.job for answer in answers if isinstance(answer, Accepted)]


def accepted(workspace: Workspace, now: datetime | None = None, **more: Any) -> Accepted:
    """Submit one job that must not be refused; returns the answer."""
    answer = submit_all(workspace, [asked(**more)], now=now)[0]
    assert isinstance(answer, Accepted), answer
    return answer


def place(job: Job, *, fence: int = 1, **more: Any) -> Attempt:
    """Dispatch a queued job by hand, as the governor's statement would."""
    executor = more.pop("executor", None) or Executor.objects.filter(pool=job.pool_id)[0]
    now = timezone.now()
    Job.objects.filter(id=job.id).update(state="running", fence=fence, changed=LONG_AGO)
    fields: dict[str, Any] = {
        "cost": 1, "charge": 1, "job_class": job.job_class, "expected_s": 1.0,
        "lease_until": now, "sent_at": now, "sends": 1, "state": "dispatched",
        "model": job.model_in_force,
    }  # fmt: skip
    return Attempt.objects.create(job=job, fence=fence, executor=executor, **(fields | more))


def claim(worker: int, attempts: Sequence[Attempt] | None = None) -> list[Claimed]:
    """Claim these attempts, or all that are dispatched, in the order of their dispatch."""
    if attempts is None:
        attempts = list(Attempt.objects.filter(state="dispatched").order_by("dispatched_at", "id"))
    return attempts_claim(worker_id=worker, pairs=[(str(one.id), one.fence) for one in attempts])


def running(job: Job, worker: int, fence: int = 1, **more: Any) -> Attempt:
    """Dispatch a job by hand and claim it; returns the attempt."""
    attempt = place(job, fence=fence, **more)
    assert len(claim(worker, [attempt])) == 1
    return attempt


def done(result: dict[str, Any] | None = None, **usage: Any) -> Outcome:
    """Return a complete outcome."""
    counted = Usage(**({"requests": 1} | usage))
    return Outcome(status=Status.COMPLETE, usage=counted, result=result or {"text": "ok"})


def failed(error: ErrorClass, retry_after_s: float | None = None, **usage: Any) -> Outcome:
    """Return the outcome of an attempt that did not complete."""
    return Outcome(
        status=status_of(error),
        usage=Usage(**usage),
        error_class=error,
        message=f"it was {error}",
        retry_after_s=retry_after_s,
    )


def settle(
    attempts: Sequence[Attempt | Claimed], outcome: Outcome | None, now: datetime | None = None
) -> SettledSet:
    """Report the same outcome of all the attempts."""
    reports = [
        Report(
            attempt_id=one.id if isinstance(one, Attempt) else one.attempt_id,
            fence=one.fence,
            outcome=outcome,
        )
        for one in attempts
    ]
    return attempts_settle(reports=reports, now=now or timezone.now())
