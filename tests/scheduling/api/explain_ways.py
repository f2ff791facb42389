"""Ways to each reason: what happens to a job so that it is told so."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from billing.services.budgets import Ceiling, budget_set
from billing.services.reservations import release
from scheduling.controls.executors import executor_enable
from scheduling.controls.limits import limit_set
from scheduling.core.policy.document import to_dict
from scheduling.core.policy.settings import BacklogCaps, Policy
from scheduling.core.states import WorkOutcome
from scheduling.core.types import Reason
from scheduling.governor import glance
from scheduling.models import (
    Decision,
    Executor,
    Job,
    JobDependency,
    JobEvent,
    PolicyVersion,
    Pool,
)
from scheduling.services.reviews import Judgement, review_judge
from tenants.controls import tenant_weight
from tenants.limits import workspace_limit
from tests.scheduling.api.conftest import Caller, World, job
from tests.scheduling.factories import (
    WHO,
    done,
    make_policy,
    make_reviewers,
    make_worker,
    place,
    running,
    settle,
)

TOKENS = {"seconds": 1, "tokens": {"input": 1_000_000, "output": 0}}


@dataclass
class Stage:
    """What a case sets up, and by whom."""

    world: World
    web: Caller
    foreign: Caller
    monkeypatch: pytest.MonkeyPatch

    def submit(self, who: Caller | None = None, **more: Any) -> str:
        response = (who or self.web).post("/jobs", job(**more))
        told = response.json()
        return str(told["id"] if response.status_code == 201 else told["job"])

    def runs(self, who: Caller | None = None, cost: int = 2, **more: Any) -> Job:
        """Submit a job and let it run."""
        stored = Job.objects.get(id=self.submit(who, cost=cost))
        on = Executor.objects.get(slug="sim")
        place(stored, executor=on, cost=cost, expected_s=600.0, **more)
        return stored

    def ended(self, state: str, reason: Reason, **more: Any) -> str:
        stored = self.runs(state="error", ended_at=timezone.now(), error_class="timeout")
        Job.objects.filter(id=stored.id).update(
            state=state, reason=reason, finished_at=timezone.now(), tries=1, **more
        )
        return str(stored.id)

    def waits_after_a_try(self, reason: Reason) -> str:
        name = self.ended("failed", reason)
        wake_at = timezone.now() + timedelta(minutes=1)
        Job.objects.filter(id=name).update(state="waiting", finished_at=None, wake_at=wake_at)
        return name

    def decided(self, verdict: str, reason: Reason, **columns: Any) -> str:
        """Store a job that a decision of this kind was made on."""
        name = self.submit()
        Job.objects.filter(id=name).update(reason=reason, **columns)
        Decision.objects.create(
            job_id=name, verdict=verdict, reason=reason, sentence="As decided.", policy=1, control=0
        )
        return name


def starts_now(stage: Stage) -> str:
    return stage.submit()


def in_order(stage: Stage) -> str:
    stage.monkeypatch.setattr(glance, "WHOLE_MOST", 1)
    stage.submit(stage.foreign)
    return stage.submit()


def head_waits(stage: Stage) -> str:
    stage.runs(stage.foreign, cost=7)
    return stage.submit()


def behind_head(stage: Stage) -> str:
    head_waits(stage)
    return stage.submit(cost=1)


def held(stage: Stage) -> str:
    name = stage.submit()
    tenant_weight(tenant_id=stage.world.acme.id, weight=0, **WHO)
    return name


def paused(stage: Stage) -> str:
    name = stage.submit()
    assert stage.web.post(f"/jobs/{name}/pause", {"reason": "lunch"}).status_code == 200
    return name


def own_limit(stage: Stage) -> str:
    stage.runs()
    workspace_limit(workspace_id=stage.world.web.id, max_running=1, **WHO)
    return stage.submit()


def shared_limit(stage: Stage) -> str:
    load = glance.config_load

    def capped(**given: Any) -> Any:
        config = load(**given)
        config.caps["key", "licence"] = 1
        return config

    stage.monkeypatch.setattr(glance, "config_load", capped)
    first, second = stage.runs(stage.foreign).id, stage.submit()
    Job.objects.filter(id__in=[first, second]).update(keys=["licence"])
    return second


def no_executor(stage: Stage) -> str:
    name = stage.submit()
    executor_enable(
        executor_id=Executor.objects.get(slug="sim").id,
        enabled=False,
        acting_user="root",
        reason="test",
    )
    return name


def executor_busy(stage: Stage) -> str:
    Executor.objects.filter(slug="sim").update(slots=1)
    stage.runs(stage.foreign)
    return stage.submit()


def never_fits(stage: Stage) -> str:
    name = stage.submit(cost=8)
    Pool.objects.update(budget=5)
    return name


def not_before(stage: Stage) -> str:
    later = timezone.now() + timedelta(hours=1)
    return stage.submit(not_before=later.isoformat())


def dependency(stage: Stage) -> str:
    return stage.decided("queued", Reason.DEPENDENCY, state="waiting")


def retry_budget(stage: Stage) -> str:
    make_policy(retry={"budget_floor": 0, "budget_ratio": 0})
    name = stage.ended("failed", Reason.RETRY_WAIT)
    Job.objects.filter(id=name).update(state="queued", finished_at=None)
    return name


def waiting_on_child(stage: Stage) -> str:
    name = stage.submit()
    child = stage.submit()
    Job.objects.filter(id=name).update(state="waiting", reason=Reason.WAITING_ON_CHILD, step=1)
    JobDependency.objects.create(job_id=name, on_id=child, condition="ended", open=True)
    return name


def step_done(stage: Stage) -> str:
    name = stage.submit()
    Job.objects.filter(id=name).update(reason=Reason.STEP_DONE, step=1)
    return name


def circuit_open(stage: Stage) -> str:
    return stage.decided("deferred", Reason.CIRCUIT_OPEN, state="deferred")


def capped_budget(stage: Stage) -> None:
    ceiling = Ceiling(
        tenant_id=stage.world.acme.id,
        scope="tenant",
        scope_id=str(stage.world.acme.id),
        dimension="spend",
        window="day",
    )
    budget_set(ceiling=ceiling, limit=Decimal("1.5"), **WHO)


def budget(stage: Stage) -> str:
    capped_budget(stage)
    stage.submit(payload=TOKENS)
    return stage.submit(payload=TOKENS)


def unpriced(stage: Stage) -> str:
    return stage.submit(model="nobody-sells-it")


def backlog_full(stage: Stage) -> str:
    body = to_dict(Policy(backlog=BacklogCaps(workspace=0)))
    PolicyVersion.objects.update(state="retired")
    PolicyVersion.objects.create(
        number=2, state="active", body=body, author="t", published_at=timezone.now()
    )
    return stage.submit()


def denied(stage: Stage, reason: Reason) -> str:
    name = stage.decided("denied", reason, state="denied", finished_at=timezone.now())
    release(job_ids=[UUID(name)], now=timezone.now())  # a denied job holds nothing
    return name


def placed(stage: Stage, reason: Reason = Reason.PLACED) -> str:
    name = stage.runs().id
    Job.objects.filter(id=name).update(reason=reason)
    return str(name)


def deadline(stage: Stage) -> str:
    return stage.submit(deadline="2020-01-01T00:00:00Z")


def expired(stage: Stage) -> str:
    return stage.submit(expires_at="2020-01-01T00:00:00Z")


def canceled(stage: Stage) -> str:
    name = stage.submit()
    stage.web.post(f"/jobs/{name}/cancel")
    return name


def finished(stage: Stage) -> str:
    return stage.ended("done", Reason.FINISHED)


def reviewed(stage: Stage, *, slots: int = 1, **more: Any) -> str:
    """Submit a job that needs a review and do its work."""
    make_reviewers(stage.world.pool, slots=slots)
    name = stage.submit(review=True, **more)
    attempt = running(
        Job.objects.get(id=name), make_worker(), executor=Executor.objects.get(slug="sim")
    )
    settle([attempt], done())
    return name


def in_review(stage: Stage) -> str:
    name = reviewed(stage)
    lies = {"cost": 0, "job_class": "review", "fence": 2, "expected_s": 900.0}
    place(Job.objects.get(id=name), executor=Executor.objects.get(kind="human"), **lies)
    return name


def accepted(stage: Stage) -> str:
    return _judged(stage, WorkOutcome.ACCEPTED)


def rejected(stage: Stage) -> str:
    return _judged(stage, WorkOutcome.REJECTED)


def _judged(stage: Stage, verdict: WorkOutcome) -> str:
    name = in_review(stage)
    judgement = Judgement(verdict=verdict, note="so it is")
    review_judge(job_id=UUID(name), reviewer="rita", judgement=judgement, now=timezone.now())
    return name


def requeued(stage: Stage) -> str:
    name = canceled(stage)
    assert stage.web.post(f"/jobs/{name}/requeue", {"reason": "again"}).status_code == 200
    return name


def lost(stage: Stage) -> str:
    return stage.ended("failed", Reason.WORKER_LOST)


def preempted(stage: Stage, for_job: str = "", stop_for: str = "preempt", cost: int = 2) -> str:
    """Let a job run that is asked to stop."""
    stored = stage.runs(state="stopping", started_at=timezone.now(), stop_for=stop_for, cost=cost)
    told = {"stop_for": stop_for} | ({"for_class": "incident"} if stop_for == "preempt" else {})
    JobEvent.objects.create(
        job=stored,
        tenant_id=stored.tenant_id,
        attempt_id=stored.attempts.get().id,
        event="preempting",
        reason=Reason.PREEMPTED,
        data=told | {"for_job": for_job},
    )
    return str(stored.id)


def rate_window(stage: Stage) -> str:
    stage.runs()
    limit_set(
        scope="tenant",
        scope_id=str(stage.world.acme.id),
        measure="requests_a_minute",
        value=1,
        **WHO,
    )
    return stage.submit()
