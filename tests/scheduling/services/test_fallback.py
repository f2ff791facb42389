"""Fallback: which model stands in for one that fails, for what money, and what is told of it."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from billing.models import Balance, LedgerEntry, Reservation
from billing.services.checks import balances_differ
from scheduling.executors.contract import ErrorClass
from scheduling.models import Attempt, Circuit, Decision, Executor, Job, JobEvent, Pool
from scheduling.services.cancel import job_cancel
from scheduling.services.readmission import jobs_readmit
from scheduling.tasks.claim import attempts_claim
from tenants.models import Workspace
from tests.scheduling.factories import (
    done,
    failed,
    make_budget,
    make_executor,
    make_policy,
    make_price,
    make_tenant,
    make_worker,
    place,
    running,
    set_circuit,
    settle,
    submit,
)

TOKENS = {"input": 0, "output": 40_000}
DOWN = failed(ErrorClass.PROVIDER_ERROR)


class Scene:
    """Three models, each with an executor of its own: free, paid (0.04 a job), and free again."""

    def __init__(self, pool: Pool, worker: int) -> None:
        self.pool, self.worker = pool, worker
        self.acme = make_tenant("acme", pool)
        make_price("free", input="0", output="0", worker_seconds="0")
        make_price("paid", input="0", output="1", worker_seconds="0")
        self.on = {
            model: make_executor(pool, model, provider=provider, models_offered=[model])
            for model, provider in (("a", "free"), ("b", "paid"), ("c", "free"))
        }

    def policy(self, *candidates: Any, **more: Any) -> None:
        rows = [one if isinstance(one, dict) else {"model": one} for one in candidates]
        make_policy(
            fallback=[{"model": "a", "candidates": rows}],
            retry={"max_attempts": 5, "base_s": 60, "cap_s": 60} | more.pop("retry", {}),
            **more,
        )

    def fail(self, job: Job, outcome: Any = DOWN, now: datetime | None = None) -> Job:
        """Run the job where it may run now, and let it end so."""
        job.refresh_from_db()
        executor = self.on[job.model_in_force]
        settle([running(job, self.worker, job.fence + 1, executor=executor)], outcome, now)
        job.refresh_from_db()
        return job

    def readmit(self, job: Job, now: datetime | None = None) -> Job:
        jobs_readmit(now=now or timezone.now())
        job.refresh_from_db()
        return job

    def switch(self, job: Job, outcome: Any = DOWN) -> Job:
        assert self.fail(job, outcome).reason == "fallback"
        return self.readmit(job)


@pytest.fixture
def scene(pool: Pool) -> Scene:
    return Scene(pool, make_worker())


def told(job: Job, event: str) -> dict[str, Any]:
    return JobEvent.objects.filter(job=job, event=event).order_by("-id")[0].data


def verdicts(job: Job, event: str = "fell_back") -> list[tuple[str, str]]:
    return [(one["model"], one.get("reason", "taken")) for one in told(job, event)["candidates"]]


def held(workspace: Workspace) -> Decimal:
    return sum(
        (row.held for row in Balance.objects.filter(budget__tenant=workspace.tenant_id)), Decimal(0)
    )


def test_a_free_primary_does_not_open_a_paid_fallback_that_is_not_funded(scene: Scene) -> None:
    """Case C05: the limit is used up, the primary is free, the first stand-in is not."""
    scene.policy("b", "c")
    make_budget(scene.acme, "1")
    spender = submit(scene.acme, model="b", tokens={"input": 0, "output": 1_000_000})[0]
    settle([running(spender, scene.worker, executor=scene.on["b"])], done(output_total=1_000_000))
    assert Balance.objects.get().spent == 1
    job = submit(scene.acme, model="a", tokens=TOKENS)[0]
    assert job.state == "queued"
    job = scene.switch(job)
    assert (job.state, job.reason, job.model, job.runs_model) == ("queued", "fell_back", "a", "c")
    assert verdicts(job) == [("b", "budget"), ("c", "taken")]
    decision = Decision.objects.filter(job=job).order_by("-id")[0]
    assert (decision.verdict, decision.reason) == ("queued", "fell_back")
    assert "Model a fails; Model c stands in for it." in decision.sentence
    assert "Model b was passed over: its budgets have no room for it." in decision.sentence
    job = scene.fail(job, done(output_total=40_000))
    assert job.state == "done"
    assert (Balance.objects.get().spent, held(scene.acme)) == (1, 0)
    assert not Attempt.objects.filter(job=job, executor=scene.on["b"]).exists()
    assert balances_differ() == []


def test_where_money_alone_stands_in_the_way_the_job_waits_for_it(scene: Scene) -> None:
    """Case C05 without the second stand-in; then the budget is raised."""
    scene.policy("b")
    make_budget(scene.acme, "0.01")
    now = timezone.now()
    job = scene.switch(submit(scene.acme, model="a", tokens=TOKENS)[0])
    assert (job.state, job.reason, job.runs_model) == ("deferred", "budget", "")
    assert verdicts(job, "deferred") == [("b", "budget")]
    assert job.wake_at is not None
    assert job.wake_at > now + timedelta(seconds=29)
    assert Decision.objects.filter(job=job).order_by("-id")[0].retry_at == job.wake_at
    make_budget(scene.acme, "1")
    Job.objects.update(wake_at=now)
    job = scene.readmit(job)
    assert (job.state, job.reason, job.runs_model) == ("queued", "fell_back", "b")
    assert held(scene.acme) == Decimal("0.04")
    assert balances_differ() == []


def test_what_a_job_holds_is_exchanged_for_what_its_stand_in_costs(scene: Scene) -> None:
    scene.policy("c")
    make_budget(scene.acme, "1")
    make_policy(
        fallback=[
            {"model": "b", "candidates": [{"model": "a"}]},
            {"model": "a", "candidates": [{"model": "b"}]},
        ],
        retry={"max_attempts": 5, "base_s": 60, "cap_s": 60},
    )
    job = submit(scene.acme, model="b", tokens=TOKENS)[0]
    assert held(scene.acme) == Decimal("0.04")
    job = scene.switch(job)
    assert (job.runs_model, held(scene.acme)) == ("a", 0)
    assert sorted(Reservation.objects.values_list("state", "spend")) == [
        ("open", 0), ("released", Decimal("0.04")),
    ]  # fmt: skip
    job = scene.switch(job)
    assert (job.runs_model, job.model_in_force, held(scene.acme)) == ("", "b", Decimal("0.04"))
    assert verdicts(job) == [("b", "taken")]
    scene.fail(job, done(output_total=40_000))
    assert (Balance.objects.get().spent, held(scene.acme)) == (Decimal("0.04"), 0)
    booked = LedgerEntry.objects.exclude(amount=0)
    assert set(booked.values_list("provider", "model")) == {("paid", "b")}
    assert balances_differ() == []


def test_payload_price_and_circuits_are_those_of_the_model_in_force(scene: Scene) -> None:
    scene.policy("b")
    job = scene.switch(submit(scene.acme, model="a", tokens=TOKENS)[0])
    attempt = place(job, fence=2, executor=scene.on["b"])
    (claimed,) = attempts_claim(worker_id=scene.worker, pairs=[(str(attempt.id), 2)])
    assert claimed.model == "b"
    settle([attempt], failed(ErrorClass.PROVIDER_ERROR, output_total=1000))
    entries = LedgerEntry.objects.filter(attempt_id=attempt.id)
    assert set(entries.values_list("provider", "model")) == {("paid", "b")}
    assert set(Circuit.objects.values_list("executor__slug", "model")) == {("a", "a"), ("b", "b")}


@pytest.mark.parametrize(
    ("bounds", "job", "why"),
    [
        ({"model": "b", "quality_floor": 0.5}, {}, "quality"),
        ({"model": "b", "latency_s": 0.5}, {}, "latency"),
        ({"model": "b", "region": "eu"}, {}, "no_executor"),
        ({"model": "b", "price_ratio": 10}, {}, "price"),
        ({"model": "b"}, {"max_spend": Decimal("0.01")}, "hard_ceiling"),
        ({"model": "z"}, {}, "no_executor"),
        ({"model": "u"}, {}, "unpriced_model"),
        ({"model": "r"}, {}, "circuit_open"),
        ({"model": "h"}, {}, "circuit_open"),
        ({"model": "o"}, {}, "no_executor"),
    ],
)
def test_each_bound_passes_a_candidate_over(
    scene: Scene, bounds: dict[str, Any], job: dict[str, Any], why: str
) -> None:
    slow = submit(scene.acme, model="b")[0]
    attempt = running(slow, scene.worker, executor=scene.on["b"])
    settle([attempt], done(), timezone.now() + timedelta(seconds=9))
    for model in "urho":
        scene.on[model] = make_executor(scene.pool, model, provider="free", models_offered=[model])
    Executor.objects.filter(slug="u").update(provider="nobody")
    set_circuit("open", timezone.now() + timedelta(hours=1), executor=scene.on["r"], model="r")
    Executor.objects.filter(slug="h").update(health="down")
    Executor.objects.filter(slug="o").update(enabled=False)
    scene.policy(bounds, "c")
    found = scene.switch(submit(scene.acme, model="a", tokens=TOKENS, **job)[0])
    assert verdicts(found) == [(bounds["model"], why), ("c", "taken")]


def test_reviewed_work_says_how_good_a_model_is(scene: Scene) -> None:
    scene.policy({"model": "b", "quality_floor": 0.5}, "c")
    jobs = submit(scene.acme, 4, model="b", review=True)
    now = timezone.now()
    Job.objects.filter(id__in=[one.id for one in jobs]).update(
        state="done", finished_at=now, outcome="accepted"
    )
    Job.objects.filter(id__in=[one.id for one in jobs[2:]]).update(outcome="rejected")
    assert scene.switch(submit(scene.acme, model="a", tokens=TOKENS)[0]).runs_model == "b"
    Job.objects.filter(id=jobs[0].id).update(outcome="rejected")
    job = scene.switch(submit(scene.acme, model="a", tokens=TOKENS)[0])
    assert verdicts(job) == [("b", "quality"), ("c", "taken")]
    assert "its quality is 0.25 and must be 0.50" in told(job, "fell_back")["sentence"]


def test_a_stand_in_is_placed_where_its_bounds_hold_alone(scene: Scene) -> None:
    eu = make_executor(scene.pool, "c-eu", provider="free", models_offered=["c"], region="eu")
    scene.policy({"model": "c", "region": "eu"})
    job = scene.switch(submit(scene.acme, model="a", tokens=TOKENS)[0])
    assert (job.runs_model, job.places) == ("c", [eu.id])


def test_a_job_whose_circuits_rest_waits_for_the_first_of_them(scene: Scene) -> None:
    scene.policy("z", breaker={"threshold": 1, "cooldown_s": 300})
    now = timezone.now()
    job = scene.switch(submit(scene.acme, model="a", tokens=TOKENS)[0])
    until = Circuit.objects.get(executor=scene.on["a"]).until
    assert (job.state, job.reason, job.wake_at) == ("deferred", "circuit_open", until)
    assert until is not None
    later = until + timedelta(seconds=1)
    assert until > now + timedelta(seconds=299)
    assert scene.readmit(job, later).reason == "circuit_open"  # still open in the table
    Circuit.objects.update(state="half_open")
    job = scene.readmit(job, later + timedelta(hours=1))
    assert (job.state, job.reason, job.error["class"]) == ("queued", "in_order", "provider_error")


def test_a_job_without_a_stand_in_goes_on_with_its_own_retries(scene: Scene) -> None:
    scene.policy("z")
    job = scene.switch(submit(scene.acme, model="a", tokens=TOKENS)[0])
    assert (job.state, job.reason) == ("deferred", "retry_wait")
    assert job.wake_at is not None
    again = scene.readmit(job, job.wake_at)
    assert (again.state, again.reason, again.tries, again.runs_model) == (
        "queued",
        "in_order",
        1,
        "",
    )
    job_cancel(job_id=job.id, acting_user="7", reason="enough", now=timezone.now())
    assert not Reservation.objects.filter(state="open").exists()


def test_the_jobs_own_bound_on_tries_holds_over_all_models(scene: Scene) -> None:
    """Case C32, second run: five tries in all, over two executors, each shown as an attempt."""
    scene.policy("c")
    job = submit(scene.acme, model="a", tokens=TOKENS)[0]
    for _ in range(4):
        scene.switch(job)
    assert scene.fail(job).state == "failed"
    assert job.reason == "attempts_exhausted"
    ran = Attempt.objects.filter(job=job).order_by("fence")
    assert [one.executor.slug for one in ran.select_related("executor")] == list("acaca")
    assert {one.error_class for one in ran} == {"provider_error"}


@pytest.mark.parametrize(
    ("outcome", "asked", "state", "reason"),
    [
        (failed(ErrorClass.INVALID_REQUEST), {}, "failed", "execution_error"),
        (failed(ErrorClass.UNAUTHORIZED), {}, "deferred", "fallback"),
        (
            failed(ErrorClass.RATE_LIMITED, retry_after_s=3600),
            {"deadline": 60},
            "deferred",
            "fallback",
        ),
        (DOWN, {"deadline": 0.5}, "failed", "deadline"),
        (DOWN, {"max_attempts": 1}, "failed", "attempts_exhausted"),
        (None, {}, "queued", "worker_lost"),
        (DOWN, {"model": "b"}, "waiting", "retry_wait"),
    ],
)
def test_only_a_providers_fault_looks_for_another_model_and_only_where_there_is_a_list(
    scene: Scene, outcome: Any, asked: dict[str, Any], state: str, reason: str
) -> None:
    scene.policy("c")
    now = timezone.now()
    if "deadline" in asked:
        asked = {"deadline": now + timedelta(seconds=asked["deadline"])}
    job = submit(scene.acme, **({"model": "a"} | asked))[0]
    job = scene.fail(job, outcome, now)
    assert (job.state, job.reason) == (state, reason)


def test_offers_that_a_budget_cannot_pay_for_are_left_out_and_the_others_admit(
    scene: Scene,
) -> None:
    """Case C05 at submission: the same model, free here and paid there."""
    make_executor(scene.pool, "a-paid", provider="paid", models_offered=["a"])
    make_budget(scene.acme, "0.05")
    rich = submit(scene.acme, model="a", tokens=TOKENS)[0]
    assert (rich.state, rich.places, held(scene.acme)) == ("queued", [], Decimal("0.04"))
    poor = submit(scene.acme, model="a", tokens=TOKENS)[0]
    assert (poor.state, poor.places) == ("queued", [scene.on["a"].id])
    assert held(scene.acme) == Decimal("0.04")
    bound = submit(scene.acme, model="a", tokens=TOKENS, max_spend=Decimal("0.01"))[0]
    assert (bound.state, bound.places) == ("queued", [scene.on["a"].id])
    make_executor(scene.pool, "a", provider="free", models_offered=["other"])
    refused = submit(scene.acme, model="a", tokens=TOKENS)[0]
    assert (refused.state, refused.reason) == ("deferred", "budget")
