"""Escalations raise one budget for a time, name their owner, and end by themselves."""

import uuid
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from billing.models import Budget, Escalation
from billing.services.escalations import Increase, budget_escalate, escalation_end
from billing.services.moves import reservations_move
from billing.services.reservations import reserve
from billing.services.verdicts import Refused, Reserved
from tenants.controls import ControlRefused
from tenants.models import AuditEntry
from tests.billing.conftest import NOW, Shop

pytestmark = pytest.mark.django_db
D = Decimal
HOUR = timedelta(hours=1)


def escalate(budget: Budget, extra: str, **more: Any) -> uuid.UUID:
    by = {"acting_user": "olga", "reason": more.pop("reason", "launch")}
    increase = Increase(extra=D(extra), **({"ends_at": NOW + HOUR} | more))
    return budget_escalate(budget_id=budget.id, increase=increase, now=NOW, **by).id


def verdict(shop: Shop, spend: str, now: datetime = NOW) -> Reserved | Refused:
    return reserve(requests=[shop.ask(spend)], now=now)[0]


def test_a_job_that_fits_only_by_it_names_it(shop):
    budget = shop.budget("1")
    made = escalate(budget, "2", owner="eve")
    small, large = verdict(shop, "1"), verdict(shop, "2")
    assert isinstance(small, Reserved)
    assert small.escalations == ()
    assert isinstance(large, Reserved)
    (named,) = large.escalations
    assert (named.escalation_id, named.scope, named.extra) == (made, "tenant", 2)
    assert named.sentence == (
        "It fits because the tenant's spend budget is raised by 2 until 2026-08-20T13:00+00:00 "
        "(eve)."
    )
    assert named.told()["owner"] == "eve"


def test_more_than_the_raised_limit_is_refused_with_what_is_in_force(shop):
    budget = shop.budget("1", window="day")
    escalate(budget, "2")
    refused = verdict(shop, "3.5")
    assert isinstance(refused, Refused)
    assert (refused.limit, refused.remaining, refused.retry_at) == (3, 3, None)


def test_it_ends_by_itself_at_its_instant(shop):
    escalate(shop.budget("1"), "2")
    assert isinstance(verdict(shop, "2", NOW + HOUR), Refused)
    assert isinstance(verdict(shop, "2", NOW + HOUR - timedelta(microseconds=1)), Reserved)


def test_it_may_begin_later(shop):
    escalate(shop.budget("1"), "2", starts_at=NOW + HOUR, ends_at=NOW + 2 * HOUR)
    assert isinstance(verdict(shop, "2"), Refused)
    assert isinstance(verdict(shop, "2", NOW + HOUR), Reserved)


def test_several_add_up_and_each_is_named(shop):
    budget = shop.budget("1")
    made = [escalate(budget, "1"), escalate(budget, "1.5")]
    answer = verdict(shop, "3.5")
    assert isinstance(answer, Reserved)
    assert [one.escalation_id for one in answer.escalations] == made


def test_it_opens_its_own_budget_alone(shop):
    escalate(shop.budget("1"), "5")
    shop.budget("1", scope="workflow")
    refused = verdict(shop, "2")
    assert isinstance(refused, Refused)
    assert refused.scope == "workflow"


def test_a_ceiling_of_attempts_can_be_raised_too(shop):
    cap = shop.budget("1", scope="attempt", scope_id=str(shop.tenant.id))
    made = escalate(cap, "1")
    answer = verdict(shop, "2")
    assert isinstance(answer, Reserved)
    assert [one.escalation_id for one in answer.escalations] == [made]


def test_ending_it_early_acts_on_the_next_verdict_and_is_audited(shop):
    budget = shop.budget("1")
    made = escalate(budget, "2")
    later = NOW + timedelta(minutes=5)
    by = {"acting_user": "eve", "reason": "over"}
    escalation_end(escalation_id=made, now=later, **by)
    assert isinstance(verdict(shop, "2", later), Refused)
    row = Escalation.objects.get()
    assert (row.owner, row.reason, row.starts_at, row.ends_at) == ("olga", "launch", NOW, later)
    first, second = AuditEntry.objects.filter(target_id=str(budget.id)).order_by("number")[1:]
    assert (first.action, first.after["extra"]) == ("budget_escalate", "2")
    assert first.after["escalation"] == str(made)
    assert (second.action, second.actor, second.reason) == ("escalation_end", "eve", "over")
    assert second.before["ends_at"] != second.after["ends_at"]
    with pytest.raises(ControlRefused, match="ended at"):
        escalation_end(escalation_id=made, now=later, **by)


def test_one_that_has_not_begun_can_be_ended(shop):
    made = escalate(shop.budget("1"), "2", starts_at=NOW + HOUR, ends_at=NOW + 2 * HOUR)
    escalation_end(escalation_id=made, now=NOW, acting_user="eve", reason="over")
    assert isinstance(verdict(shop, "2", NOW + HOUR), Refused)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"extra": "0"}, "extra"),
        ({"extra": "-1"}, "extra"),
        ({"extra": "NaN"}, "extra"),
        ({"ends_at": NOW}, "ends_at"),
        ({"starts_at": NOW + HOUR, "ends_at": NOW + HOUR}, "ends_at"),
        ({"ends_at": NOW + timedelta(days=400)}, "ends_at"),
        ({"owner": "x" * 201}, "owner"),
        ({"reason": " "}, "reason"),
    ],
)
def test_a_senseless_raise_is_refused_by_field(shop, wrong, field):
    budget = shop.budget("1")
    extra = wrong.pop("extra", "1")
    with pytest.raises(ControlRefused) as error:
        escalate(budget, extra, **wrong)
    assert error.value.field == field


def test_a_waiting_job_moves_into_a_window_that_is_raised(shop):
    budget = shop.budget("2", window="day")
    ask = shop.ask("2")
    reserve(requests=[ask], now=NOW)
    tomorrow = NOW + timedelta(days=1)
    reserve(requests=[shop.ask("1")], now=tomorrow)
    escalate(budget, "1", ends_at=tomorrow + HOUR)
    assert reservations_move(job_ids=[ask.job_id], now=tomorrow) == []


def test_without_the_raise_the_same_job_loses_its_reservation(shop):
    budget = shop.budget("2", window="day")
    ask = shop.ask("2")
    reserve(requests=[ask], now=NOW)
    tomorrow = NOW + timedelta(days=1)
    reserve(requests=[shop.ask("1")], now=tomorrow)
    escalate(budget, "1", ends_at=tomorrow - HOUR)
    (refused,) = reservations_move(job_ids=[ask.job_id], now=tomorrow)
    assert refused.limit == 2
