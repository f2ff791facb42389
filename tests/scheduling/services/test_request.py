"""The whole of an admission request: each field is refused by its name, or stored and used."""

from decimal import Decimal
from typing import Any

import pytest

from billing.models import Balance, Reservation
from billing.services.checks import balances_differ
from scheduling.models import Attempt, Executor, Job, Pool, Workflow
from scheduling.services.drafts import Refused, Rights
from scheduling.services.submission import Accepted
from tenants.models import Workspace
from tests.scheduling.factories import (
    CLASSES,
    accepted,
    asked,
    claim,
    done,
    make_budget,
    make_executor,
    make_policy,
    make_reviewers,
    make_workflow,
    place,
    running,
    settle,
    submit_all,
)


def refused(space: Workspace, **more: Any) -> list[str]:
    answer = submit_all(space, [asked(**more)], rights=more.pop("rights", None))[0]
    assert isinstance(answer, Refused), answer
    assert all(error.sentence for error in answer.errors)
    return [error.field for error in answer.errors]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"estimate": {"tool_calls": -1}}, "estimate.tool_calls"),
        ({"estimate": {"input_tokens": 10**12}}, "estimate.input_tokens"),
        ({"estimate": {"seconds": 10**8}}, "estimate.seconds"),
        ({"estimate": {"seconds": 5}, "expected_s": 6.0}, "estimate.seconds"),
        ({"estimate": {"luck": 1}}, "estimate.luck"),
        ({"tools": ("x" * 61,)}, "tools"),
        ({"tools": ("a\x00",)}, "tools"),
        ({"data_class": "x" * 61}, "data_class"),
        ({"compute_class": "x" * 61}, "compute_class"),
        ({"keys": ("x" * 201,)}, "keys"),
        ({"max_spend": Decimal(-1)}, "max_spend"),
        ({"max_spend": Decimal("NaN")}, "max_spend"),
        ({"max_spend": Decimal(10**10)}, "max_spend"),
        ({"max_tokens": -1}, "max_tokens"),
    ],
)
def test_a_wrong_field_is_named(acme: Workspace, wrong: dict[str, Any], field: str) -> None:
    assert refused(acme, **wrong) == [field]
    assert not Job.objects.exists()


def test_every_field_is_stored(acme: Workspace, pool: Pool) -> None:
    make_reviewers(pool, data_classes=["secret"])
    make_executor(
        pool, "able", tools=["shell", "web"], data_classes=["secret"], compute_class="gpu-80g"
    )
    amounts = {
        "input_tokens": 5, "output_tokens": 6, "seconds": 7.5, "tool_calls": 8,
        "environment_seconds": 1.5, "storage_byte_hours": 2.5, "network_bytes": 9,
        "review_minutes": 3.5,
    }  # fmt: skip
    accepted(
        acme, estimate=amounts, tools=("shell",), data_class="secret", compute_class="gpu-80g",
        keys=("repo:a", "repo:b"), max_spend=Decimal("1.5"), max_tokens=11, review=True,
    )  # fmt: skip
    job = Job.objects.get()
    assert (job.state, job.input_tokens, job.output_tokens, job.expected_s) == ("queued", 5, 6, 7.5)
    assert job.estimate == {
        name: amount for name, amount in amounts.items()
        if name not in ("input_tokens", "output_tokens", "seconds")
    }  # fmt: skip
    assert (job.tools, job.data_class, job.compute_class) == (["shell"], "secret", "gpu-80g")
    assert (job.keys, job.needs_review) == (["repo:a", "repo:b"], True)
    assert (job.max_spend, job.max_tokens) == (Decimal("1.5"), 11)


@pytest.mark.parametrize(
    ("name", "amount", "spent"),
    [
        ("tokens", {"input_tokens": 30, "output_tokens": 70}, 100),
        ("wall_seconds", {"seconds": 90}, 90),
        ("tool_calls", {"tool_calls": 4}, 4),
        ("environment_seconds", {"environment_seconds": 2.5}, Decimal("2.5")),
        ("storage_byte_hours", {"storage_byte_hours": 7.25}, Decimal("7.25")),
        ("network_bytes", {"network_bytes": 10**10}, 10**10),
        ("review_minutes", {"review_minutes": 0.1}, Decimal("0.1")),
    ],
)
def test_what_is_estimated_is_held_of_the_budget_of_its_dimension(
    acme: Workspace, name: str, amount: dict[str, float], spent: Decimal
) -> None:
    make_budget(acme, str(spent), dimension=name)
    assert accepted(acme, estimate=amount).job.state == "queued"
    assert Balance.objects.get().held == spent
    second = accepted(acme, estimate=amount)
    assert (second.job.state, second.job.reason) == ("deferred", "budget")
    assert balances_differ() == []


def test_the_estimate_sets_the_price_and_null_tokens_are_the_kinds(acme: Workspace) -> None:
    assert accepted(acme, estimate={"output_tokens": 2_000_000}).job.output_tokens == 2_000_000
    assert Reservation.objects.get().spend == 2
    assert accepted(acme, estimate={"tool_calls": 1}).job.output_tokens == 1_000_000


@pytest.mark.parametrize(
    ("asks", "named"),
    [
        ({"tools": ("shell",)}, "the tools that it asks for"),
        ({"data_class": "secret"}, "the data class that it asks for"),
        ({"compute_class": "gpu"}, "the compute class that it asks for"),
        ({"labels": ("licence",)}, "the labels that it asks for"),
        ({"region": "mars"}, "the region that it asks for"),
        ({"tools": ("shell",), "region": "mars"}, "the region that it asks for or the tools"),
    ],
)
def test_a_constraint_that_no_executor_meets_is_named(
    acme: Workspace, asks: dict[str, Any], named: str
) -> None:
    decision = accepted(acme, **asks).decision
    assert (decision.verdict, decision.reason) == ("denied", "no_executor")
    assert named in decision.sentence
    assert [one["action"] for one in decision.alternatives] == ["relax_constraints"]


def test_constraints_that_only_different_executors_meet_are_said_to_fail_together(
    acme: Workspace, pool: Pool
) -> None:
    make_executor(pool, "tools", tools=["shell"])
    make_executor(pool, "gpu", compute_class="gpu")
    assert accepted(acme, tools=("shell",)).job.state == "queued"
    assert accepted(acme, compute_class="gpu").job.state == "queued"
    decision = accepted(acme, tools=("shell",), compute_class="gpu").decision
    assert decision.reason == "no_executor"
    assert "all of its constraints together" in decision.sentence


def test_an_estimate_above_a_ceiling_is_denied_with_the_ceiling_that_would_do(
    acme: Workspace,
) -> None:
    for more, action in (
        ({"max_spend": Decimal("0.99")}, "raise_max_spend"),
        ({"max_tokens": 999_999}, "raise_max_tokens"),
    ):
        decision = accepted(acme, **more).decision
        assert (decision.verdict, decision.reason) == ("denied", "hard_ceiling")
        assert [one["action"] for one in decision.alternatives] == [action]
    assert accepted(acme, max_spend=Decimal(1), max_tokens=1_000_000).job.state == "queued"
    assert Reservation.objects.count() == 1


def test_an_attempt_knows_the_ceilings_of_its_job(acme: Workspace, worker: int) -> None:
    attempt = place(accepted(acme, max_spend=Decimal("2.5"), max_tokens=2_000_000).job)
    (claimed,) = claim(worker, [attempt])
    assert (claimed.max_spend, claimed.max_tokens) == (Decimal("2.5"), 2_000_000)


@pytest.mark.parametrize(("review", "outcome"), [(False, "accepted"), (True, "unreviewed")])
def test_a_job_that_asks_for_a_review_is_not_accepted_by_itself(
    acme: Workspace, executor: Executor, worker: int, review: bool, outcome: str
) -> None:
    reviewers = make_reviewers(executor.pool)
    attempt = running(accepted(acme, review=review).job, worker, executor=executor)
    settle([attempt], done())
    assert (Job.objects.get().finished_at is None) == review
    assert not Attempt.objects.filter(executor=reviewers).exists()
    assert Job.objects.get().outcome == outcome


RISKY = {"high": {"labels": ["sealed"], "needs_review": True, "asked_by": "tenant_admin"}}


def test_the_policys_rule_of_a_risk_asks_for_labels_and_a_review(
    acme: Workspace, pool: Pool
) -> None:
    make_policy(risk=RISKY)
    make_reviewers(pool)
    assert accepted(acme, risk="high").decision.reason == "no_executor"
    make_executor(pool, "safe", labels=["sealed", "own"])
    job = accepted(acme, risk="high", labels=("own", "sealed")).job
    assert (job.state, job.labels, job.needs_review) == ("queued", ["own", "sealed"], True)
    plain = accepted(acme).job
    assert (plain.state, plain.labels, plain.needs_review) == ("queued", [], False)


def test_a_risk_that_the_submitter_may_not_ask_for_is_refused_even_as_the_workflows_default(
    acme: Workspace, pool: Pool
) -> None:
    rights = Rights(classes=CLASSES, risks=("low", "medium"))
    assert isinstance(submit_all(acme, [asked(risk="medium")], rights=rights)[0], Accepted)
    answer = submit_all(acme, [asked(risk="high")], rights=rights)[0]
    assert isinstance(answer, Refused)
    assert [error.field for error in answer.errors] == ["risk"]
    Workflow.objects.update(risk="critical")
    make_workflow(acme.tenant, pool, "other")  # moves the control clock
    answer = submit_all(acme, [asked()], rights=rights)[0]
    assert isinstance(answer, Refused)
    assert "'critical'" in answer.errors[0].sentence


def test_a_class_with_a_quota_takes_no_more_of_a_workspace(acme: Workspace) -> None:
    make_policy(classes=[
        {"name": "expedite", "fifo": True, "quota": 2}, {"name": "normal"},
    ])  # fmt: skip
    wanted = [asked(job_class="expedite")] * 3 + [asked(job_class="normal")]
    answers = submit_all(acme, wanted)
    reasons = [one.decision.reason for one in answers if isinstance(one, Accepted)]
    assert reasons == ["in_order", "in_order", "class_quota", "in_order"]
    last = accepted(acme, job_class="expedite").decision
    assert last.alternatives == [{"action": "change_class", "sentence": "class normal now"}]
    above = Rights(classes=CLASSES, above_quota=True)
    (free,) = submit_all(acme, [asked(job_class="expedite")], rights=above)
    assert isinstance(free, Accepted)
    assert free.job.state == "queued"


def test_an_executor_is_shown_and_changed_with_its_offers(pool: Pool) -> None:
    make_executor(pool, "x", tools=["a"], data_classes=["d"], compute_class="c")
    row = Executor.objects.get()
    assert (row.tools, row.data_classes, row.compute_class) == (["a"], ["d"], "c")
    make_executor(pool, "x")
    row.refresh_from_db()
    assert (row.tools, row.data_classes, row.compute_class) == ([], [], "")
