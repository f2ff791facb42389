"""Budgets along a job's life: leaks on failures, prices that are not known, raises, long runs."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from billing.models import Balance, Reservation
from billing.services.checks import balances_differ
from billing.services.escalations import Increase, budget_escalate
from scheduling.executors.contract import ErrorClass
from scheduling.models import Decision, Job
from scheduling.services.readmission import jobs_readmit, reservations_sweep
from tenants.models import Workspace
from tests.scheduling.factories import (
    WHO,
    accepted,
    done,
    failed,
    make_budget,
    make_price,
    running,
    settle,
    submit,
)

pytestmark = pytest.mark.django_db
HALF = {"input": 0, "output": 500_000}
COUNTED = [fault for fault in ErrorClass if fault.counts_as_try]
DAY = timedelta(days=1)


@pytest.mark.parametrize("fault", [*COUNTED, None])
def test_ten_failures_leave_nothing_held_and_nothing_spent(
    acme: Workspace, worker: int, fault: ErrorClass | None
) -> None:
    """Case C03. No outcome: the worker was lost. What counts as no try ends no job."""
    make_budget(acme, "5", scope="member", scope_id="7")
    for _ in range(10):
        (job,) = submit(acme, tokens=HALF, max_attempts=1, idempotent=False)
        settle([running(job, worker)], None if fault is None else failed(fault))
    balance = Balance.objects.get()
    assert (balance.held, balance.spent) == (0, 0)
    assert Reservation.objects.filter(state="settled").count() == 10
    assert accepted(acme, tokens=HALF).decision.verdict in ("admitted", "queued")
    assert balances_differ() == []


def test_a_model_without_a_price_is_refused_before_its_budget_is_asked(acme: Workspace) -> None:
    """Case C17: a name that is one character off costs nothing only on paper."""
    make_budget(acme, "0.02")
    make_price(provider="local", model="opus-4-1", output="1")
    answer = accepted(acme, model="opus-4.1", tokens=HALF)
    assert (answer.decision.verdict, answer.decision.reason) == ("denied", "unpriced_model")
    assert "opus-4.1" in answer.decision.sentence
    assert not Balance.objects.exclude(spent=0, held=0).exists()


def test_meters_beside_tokens_and_time_are_booked_and_counted(acme: Workspace, worker: int) -> None:
    make_budget(acme, "1000", dimension="environment_seconds")
    attempt = running(submit(acme)[0], worker)
    settle([attempt], done(other={"environment": Decimal("12.5")}))
    assert Balance.objects.get().spent == Decimal("12.5")
    attempt.refresh_from_db()
    assert attempt.usage["other"] == {"environment": "12.5"}
    assert balances_differ() == []


def test_a_run_of_many_lives_is_never_swept(acme: Workspace, worker: int) -> None:
    make_budget(acme, "10")
    attempt = running(submit(acme)[0], worker)
    now = timezone.now()
    for life in range(1, 6):
        assert reservations_sweep(now=now + life * DAY) == 0
        assert Reservation.objects.get().expires_at > now + life * DAY
    assert Balance.objects.get().held == 1
    settle([attempt], done(output_total=1_000_000))
    assert (Balance.objects.get().held, Balance.objects.get().spent) == (0, 1)


def test_a_deferred_job_that_a_raise_lets_in_says_so_and_the_next_one_does_not(
    acme: Workspace,
) -> None:
    now = timezone.now()
    budget = make_budget(acme, "1", window="day")
    submit(acme, 2)
    assert Job.objects.filter(state="deferred").count() == 1
    increase = Increase(extra=Decimal(1), ends_at=now + DAY / 2, owner="eve")
    made = budget_escalate(budget_id=budget, increase=increase, now=now, **WHO)
    Job.objects.filter(state="deferred").update(wake_at=now)
    assert jobs_readmit(now=now) == 1
    last = Decision.objects.latest("id")
    assert [one["id"] for one in last.escalations] == [str(made.id)]
    assert last.control == made.number
    assert "(eve)" in last.sentence
    assert Decision.objects.filter(escalations__isnull=False).count() == 1


def test_a_submitter_with_the_longest_name_is_settled_like_any_other(
    acme: Workspace, worker: int
) -> None:
    name = "n" * 200
    make_budget(acme, "10", scope="member", scope_id=name)
    answer = accepted(acme, tokens=HALF)
    Job.objects.filter(id=answer.job.id).update(submitted_by=name)
    settle([running(answer.job, worker)], done(output_total=100))
    assert Balance.objects.get().spent == Decimal("0.0001")
