"""What admission would say of a stored job now, with what it would hold, and nothing of it kept."""

from decimal import Decimal

import pytest
from django.utils import timezone

from billing.models import Balance, Reservation
from scheduling.models import Executor
from scheduling.services.rehearsal import job_rehearse_again
from tenants.models import Workspace
from tests.scheduling.factories import make_budget, make_policy, submit

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_job_turned_away_by_a_full_backlog_is_told_what_it_would_hold_now(
    acme: Workspace, executor: Executor
) -> None:
    make_budget(acme, "5", dimension="attempts")
    make_policy(backlog={"workspace": 1})
    _, denied = submit(acme, 2)
    assert denied.reason == "backlog_full"
    make_policy(backlog={"workspace": 5})
    found = job_rehearse_again(denied, timezone.now())
    assert found.answer is not None
    assert found.answer.verdict in ("admitted", "queued")
    assert [(one.held, one.asked) for one in found.budgets] == [(Decimal(1), Decimal(1))]
    assert not Reservation.objects.filter(job_id=denied.id).exists()
    assert Balance.objects.get().held == 1


def test_a_job_deferred_for_its_budget_is_told_what_it_would_hold_now(
    acme: Workspace, executor: Executor
) -> None:
    make_budget(acme, "1", dimension="attempts")
    _, deferred = submit(acme, 2)
    assert (deferred.state, deferred.reason) == ("deferred", "budget")
    make_budget(acme, "5", dimension="attempts")
    found = job_rehearse_again(deferred, timezone.now())
    assert [(one.held, one.asked) for one in found.budgets] == [(Decimal(1), Decimal(1))]
    assert not Reservation.objects.filter(job_id=deferred.id).exists()
