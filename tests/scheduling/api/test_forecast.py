"""The forecast and the score of the ETAs over the API."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from billing.models import Budget
from scheduling.models import Attempt, Executor, Job
from scheduling.selectors.foresight.history import KEY
from scheduling.services.drafts import Submission
from tests.scheduling.api.conftest import Caller, World, caller, person
from tests.scheduling.factories import submit_all


def came(workspace: Any, count: int, hours_ago: float, **more: Any) -> list[Job]:
    """Submit jobs, and date them back."""
    wanted = Submission(
        workflow="build", kind="simulated", payload={"seconds": 1, "tokens": {"input": 1}}, **more
    )
    submit_all(workspace, [wanted] * count)
    jobs = list(Job.objects.order_by("-seq")[:count])
    at = timezone.now() - timedelta(hours=hours_ago)
    Job.objects.filter(id__in=[job.id for job in jobs]).update(submitted_at=at)
    return jobs


def ran(job: Job, *, hours_ago: float, waited_s: float, took_s: float, eta: Any = None) -> Attempt:
    """Let a job be done; `eta` is (finish, low, high) in seconds from its submission."""
    begin = timezone.now() - timedelta(hours=hours_ago)
    start = begin + timedelta(seconds=waited_s)
    end = start + timedelta(seconds=took_s)
    Job.objects.filter(id=job.id).update(submitted_at=begin, state="done", fence=1, finished_at=end)
    finish, low, high = (begin + timedelta(seconds=one) for one in eta) if eta else (None,) * 3
    return Attempt.objects.create(
        job=job, fence=1, executor=Executor.objects.get(), state="complete", cost=2, charge=2,
        job_class=job.job_class, expected_s=took_s, lease_until=end, dispatched_at=start,
        started_at=start, ended_at=end, eta_at=begin if eta else None, eta_finish=finish,
        eta_low=low, eta_high=high,
    )  # fmt: skip


@pytest.fixture
def operator(world: World, web: Caller, django_user_model: Any) -> Caller:
    """An operator; the key that is issued too moves the control clock, so nothing is remembered."""
    return person(django_user_model, "op", "operator", None)


def test_without_history_it_says_so(world: World, operator: Caller) -> None:
    told = operator.get("/forecast").json()
    assert told["said"] == (
        "Not enough history: it rests on 0 hours of arrivals and 0 measured runs; two weeks of "
        "arrivals tell the pattern of the week; no run was measured yet, so the policy's default "
        "stands for it."
    )
    assert (told["basis"], told["jobs"], told["groups"]) == ("mean", 0, [])
    assert len(told["hours"]) == 24


def test_what_came_each_hour_is_foreseen_to_come(world: World, operator: Caller) -> None:
    for day in range(1, 16):
        came(world.web, 3, 24 * day)
    told = operator.get("/forecast").json()
    assert (told["basis"], told["jobs"], told["backlog"]) == ("week", 45, 45)
    assert sum(hour["arrivals"] for hour in told["hours"]) == pytest.approx(3, abs=1)
    busiest = max(told["hours"], key=lambda hour: hour["arrivals"])
    assert busiest["arrivals"] > 1
    group = told["groups"][0]
    assert (group["key"], group["tenant"], group["seen"]) == ("build", "acme", 45)
    assert group["arrivals_low"] <= group["arrivals"] <= group["arrivals_high"]


def test_measured_runs_are_told_by_quantile(world: World, operator: Caller) -> None:
    for job, took in zip(came(world.web, 5, 5), (10, 20, 30, 40, 100), strict=True):
        ran(job, hours_ago=5, waited_s=1, took_s=took)
    told = operator.get("/forecast", by="kind").json()
    runs = told["groups"][0]["runs"]
    assert (told["groups"][0]["key"], runs["count"], runs["p50_s"]) == ("simulated", 5, 30)
    assert (runs["mean_s"], told["run_s"], runs["cost"]) == (40, 40, 2)


def test_a_job_of_several_labels_comes_once(world: World, operator: Caller) -> None:
    Executor.objects.update(labels=["gpu", "sandbox"])
    came(world.web, 2, 30, labels=("gpu", "sandbox"))
    told = operator.get("/forecast", by="label").json()
    assert {group["key"]: group["seen"] for group in told["groups"]} == {"gpu": 2, "sandbox": 2}
    assert told["jobs"] == 2


def test_capacity_is_advised_for_a_target_wait(world: World, operator: Caller) -> None:
    for hour in range(1, 60):
        for job in came(world.web, 4, hour):
            ran(job, hours_ago=hour, waited_s=1, took_s=1800)
    tight = operator.get("/forecast", target_wait_s="10").json()["advice"]
    loose = operator.get("/forecast", target_wait_s="3600").json()["advice"]
    assert tight["units"] > loose["units"] >= 4
    assert tight["units_high"] >= tight["units"]
    assert tight["units_now"] == 8
    longer = operator.get("/forecast", outage_s="7200").json()["advice"]
    assert longer["units_recover"] > tight["units_recover"]
    assert longer["reserve"] == max(0, longer["units_recover"] - 8)


def test_a_reading_is_kept_for_some_minutes(world: World, operator: Caller, valkey: Any) -> None:
    assert operator.get("/forecast").json()["jobs"] == 0
    came(world.web, 1, 5)
    assert operator.get("/forecast").json()["jobs"] == 0
    valkey.delete(f"{KEY}{world.pool.id}:workflow")
    assert operator.get("/forecast").json()["jobs"] == 1
    valkey.set(f"{KEY}{world.pool.id}:workflow", b"?")
    assert operator.get("/forecast").json()["jobs"] == 1


def test_a_budget_that_is_drawn_on_is_foreseen_to_end(world: World, operator: Caller) -> None:
    row = Budget.objects.create(
        tenant=world.acme, scope="tenant", scope_id=str(world.acme.id), dimension="attempts",
        window="none", limit=10,
    )  # fmt: skip
    told = operator.get("/forecast").json()["budgets"]
    assert told == [
        {
            "id": str(row.id), "tenant": "acme", "scope": "tenant", "of": "", "dimension": "attempts",
            "window": "none", "window_end": None, "left": "10", "per_hour": "0",
            "exhausted_at": None,
        }
    ]  # fmt: skip


def test_another_tenants_workflows_and_budgets_are_not_told(world: World, foreign: Caller) -> None:
    came(world.web, 2, 3)
    told = foreign.get("/forecast").json()
    assert (told["groups"], told["budgets"], told["jobs"]) == ([], [], 2)
    assert "acme" not in str(told)
    member = caller(world.web, "tenant_admin")
    assert member.get("/forecast").status_code == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"by": "phase"}, "by"),
        ({"target_wait_s": "0"}, "target_wait_s"),
        ({"outage_s": "soon"}, "outage_s"),
        ({"horizon": "1"}, "horizon"),
    ],
)
def test_a_wrong_question_is_told_where(
    operator: Caller, query: dict[str, str], field: str
) -> None:
    answer = operator.get("/forecast", **query)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field


def test_an_unknown_pool_is_none(operator: Caller) -> None:
    assert operator.get("/forecast", pool="nowhere").status_code == 404


def test_each_eta_is_scored_beside_the_naive_formula(world: World, operator: Caller) -> None:
    first, second = came(world.web, 2, 2)
    ran(first, hours_ago=2, waited_s=10, took_s=20, eta=(40, 20, 60))
    ran(second, hours_ago=2, waited_s=30, took_s=20, eta=(40, 20, 45))
    told = operator.get("/forecast/honesty").json()
    whole, build = told["rows"]
    assert (whole["tenant"], whole["workflow"], whole["count"]) == ("", "", 2)
    assert (build["tenant"], build["workflow"]) == ("acme", "build")
    assert build["mean_error_s"] == pytest.approx(10)
    assert build["bias_s"] == pytest.approx(0)
    assert build["hit_rate"] == 0.5
    # Both were pending when they came: 2 x 20 s / 10 units = 4 s, beside 30 s and 50 s.
    assert build["naive_error_s"] == pytest.approx(36, abs=2)


def test_the_score_is_of_the_span_that_is_asked_for(world: World, operator: Caller) -> None:
    job = came(world.web, 1, 50)[0]
    ran(job, hours_ago=50, waited_s=10, took_s=20, eta=(40, 20, 60))
    assert operator.get("/forecast/honesty").json()["rows"] == []
    assert len(operator.get("/forecast/honesty", span="week").json()["rows"]) == 2
    assert operator.get("/forecast/honesty", span="year").status_code == 400


def test_the_score_of_another_tenants_jobs_is_not_told(world: World, foreign: Caller) -> None:
    job = came(world.web, 1, 2)[0]
    ran(job, hours_ago=2, waited_s=10, took_s=20, eta=(40, 20, 60))
    assert foreign.get("/forecast/honesty").json()["rows"] == []


def test_the_command_prints_the_same(world: World, operator: Caller, capsys: Any) -> None:
    first, second = came(world.web, 2, 2)
    ran(first, hours_ago=2, waited_s=10, took_s=20, eta=(40, 20, 60))
    call_command("forecast")
    told = capsys.readouterr().out
    assert "Pool main. Not enough history: it rests on 2 hours of arrivals" in told
    assert "1 measured run;" in told
    assert "acme/build" in told
    assert str(second.id) not in told


def test_the_command_says_what_is_wrong(world: World) -> None:
    with pytest.raises(CommandError, match="there are: main"):
        call_command("forecast", pool="nowhere")
    with pytest.raises(CommandError, match="above 0"):
        call_command("forecast", "--outage", "0")
