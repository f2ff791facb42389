"""A ceiling of single attempts: each estimate by itself, nothing adds up."""

import pytest

from billing.core.pricing import Usage
from billing.models import Balance
from billing.services.checks import balances_differ
from billing.services.reservations import reserve
from billing.services.verdicts import Refused, Reserved
from tests.billing.conftest import NOW, Shop, settle

pytestmark = pytest.mark.django_db


def cap(shop: Shop, limit: str, of: str = "workflow", **more: str) -> None:
    ids = dict(shop.chain(shop.workflow_id))
    shop.budget(limit, scope="attempt", scope_id=ids[of], **more)


def test_an_attempt_may_ask_for_the_cap_and_not_for_more(shop):
    cap(shop, "2")
    answers = reserve(requests=[shop.ask("2"), shop.ask("2"), shop.ask("2.01")], now=NOW)
    assert [type(answer) for answer in answers] == [Reserved, Reserved, Refused]
    refused = answers[2]
    assert isinstance(refused, Refused)
    assert (refused.scope, refused.limit, refused.spent, refused.held) == ("attempt", 2, 0, 0)
    assert refused.retry_at is None
    assert "The attempt's spend budget of 2 has 2 left" in refused.sentence


@pytest.mark.parametrize("of", ["tenant", "workspace", "member", "workflow"])
def test_a_cap_may_stand_on_any_scope_of_the_chain(shop, of):
    cap(shop, "100", of, dimension="tokens")
    assert isinstance(reserve(requests=[shop.ask("9", tokens=101)], now=NOW)[0], Refused)
    assert isinstance(reserve(requests=[shop.ask("9", tokens=100)], now=NOW)[0], Reserved)


def test_a_cap_on_another_workflow_is_not_asked(shop):
    shop.budget("0", scope="attempt", scope_id="0198f000-0000-7000-8000-000000000000")
    assert isinstance(reserve(requests=[shop.ask("9")], now=NOW)[0], Reserved)


def test_the_scopes_own_budget_speaks_before_the_cap(shop):
    cap(shop, "1")
    shop.budget("1", scope="workflow")
    refused = reserve(requests=[shop.ask("2")], now=NOW)[0]
    assert isinstance(refused, Refused)
    assert refused.scope == "workflow"


def test_a_cap_keeps_no_balance_and_books_nothing(shop):
    cap(shop, "2")
    ask = shop.ask("2")
    reserve(requests=[ask], now=NOW)
    settle(settlements=[shop.used(ask.job_id, Usage(output_total=1_000_000))])
    assert not Balance.objects.exists()
    assert balances_differ() == []
