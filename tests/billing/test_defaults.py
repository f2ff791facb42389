"""Defaults make a scope's budget on first use, once, audited, in the verdict's transaction."""

import uuid
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from billing.models import Balance, Budget, BudgetDefault
from billing.services.accounts import Chain
from billing.services.budgets import Ceiling, budget_set
from billing.services.checks import balances_differ
from billing.services.defaults import ACTOR, budget_default_set
from billing.services.reservations import reserve
from billing.services.verdicts import Refused, Reserved, ReserveRequest
from tenants.controls import ControlRefused
from tenants.models import AuditEntry
from tests.billing.conftest import NOW, Shop, rule
from tests.billing.test_parallel import CLIENTS, at_once

D = Decimal
BY: dict[str, Any] = {"acting_user": "olga", "reason": "plan"}


def default(shop: Shop, limit: str | None, **more: Any) -> int:
    fields = {"scope": "member", "scope_id": "", "dimension": "spend"} | more
    return budget_default_set(
        default=Ceiling(tenant_id=shop.tenant.id, **fields),
        limit=None if limit is None else D(limit),
        **BY,
    )


def chain_of(shop: Shop, member: str, job: uuid.UUID) -> Chain:
    return tuple((s, member if s == "member" else name) for s, name in shop.chain(job))


def ask_as(shop: Shop, member: str, spend: str) -> ReserveRequest:
    job = uuid.uuid4()
    return shop.ask(spend, job, chain=chain_of(shop, member, job))


@pytest.mark.django_db
def test_a_new_member_gets_the_budget_and_it_holds_at_once(shop):
    default(shop, "2", window="month", anchor=5, timezone="Asia/Tokyo")
    answers = reserve(
        requests=[ask_as(shop, "ann", "1.5"), ask_as(shop, "ann", "1"), ask_as(shop, "bob", "2")],
        now=NOW,
    )
    assert [type(answer) for answer in answers] == [Reserved, Refused, Reserved]
    made = Budget.objects.filter(scope="member").order_by("scope_id")
    assert [(b.scope_id, b.limit, b.window, b.anchor, b.timezone) for b in made] == [
        ("ann", 2, "month", 5, "Asia/Tokyo"),
        ("bob", 2, "month", 5, "Asia/Tokyo"),
    ]
    entries = AuditEntry.objects.filter(action="budget_default_use").order_by("number")
    assert [(e.actor, e.target_id) for e in entries] == [(ACTOR, str(b.id)) for b in made]
    assert entries[0].after == {"limit": "2", "budget": "member ann spend per month"}
    assert balances_differ() == []


@pytest.mark.django_db
def test_a_second_use_makes_nothing_more(shop):
    default(shop, "2")
    for _ in range(2):
        reserve(requests=[ask_as(shop, "ann", "1")], now=NOW)
    assert AuditEntry.objects.filter(action="budget_default_use").count() == 1
    assert Balance.objects.get().held == 2


@pytest.mark.django_db
def test_a_budget_of_its_own_stands_before_the_default(shop):
    own = shop.budget("9", scope="member", scope_id="ann")
    default(shop, "2")
    default(shop, "5", window="day")
    reserve(requests=[ask_as(shop, "ann", "4")], now=NOW)
    assert set(Budget.objects.values_list("limit", "window")) == {(9, "none"), (5, "day")}
    own.refresh_from_db()
    assert own.limit == 9


@pytest.mark.django_db
@pytest.mark.parametrize("scope", ["workspace", "workflow"])
def test_other_scopes_have_defaults_too(shop, scope):
    default(shop, "1", scope=scope)
    refused = reserve(requests=[shop.ask("2")], now=NOW)[0]
    assert isinstance(refused, Refused)
    assert refused.scope == scope


@pytest.mark.django_db
def test_another_tenant_has_none_of_it(shop):
    default(shop, "1")
    other = Shop("other")
    assert isinstance(reserve(requests=[other.ask("2")], now=NOW)[0], Reserved)
    assert not Budget.objects.exists()


@pytest.mark.django_db
def test_a_changed_default_is_for_those_who_come_later(shop):
    default(shop, "2")
    reserve(requests=[ask_as(shop, "ann", "1")], now=NOW)
    default(shop, "5")
    reserve(requests=[ask_as(shop, "bob", "1")], now=NOW)
    default(shop, None)
    reserve(requests=[ask_as(shop, "eve", "1")], now=NOW)
    made = dict(Budget.objects.values_list("scope_id", "limit"))
    assert made == {"ann": 2, "bob": 5}
    assert not BudgetDefault.objects.exists()
    changes = AuditEntry.objects.filter(action="budget_default_set").order_by("number")
    assert [(e.before["limit"], e.after["limit"]) for e in changes] == [
        (None, "2"), ("2", "5"), ("5", None),
    ]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"scope": "tenant"}, "scope"),
        ({"scope": "attempt"}, "scope"),
        ({"dimension": "hugs"}, "dimension"),
        ({"window": "month", "anchor": 0}, "anchor"),
    ],
)
def test_a_senseless_default_is_refused_by_field(shop, wrong, field):
    with pytest.raises(ControlRefused) as error:
        default(shop, "1", **wrong)
    assert error.value.field == field


@pytest.mark.django_db(transaction=True)
def test_parallel_first_use_makes_one_budget_and_never_overshoots_it():
    rule()
    for number in range(5):
        shop = Shop(f"race-{number}")
        default(shop, "2.7")
        default(shop, "1000", dimension="tokens", window="day")
        asks = [ask_as(shop, "ann", "0.90") for _ in range(CLIENTS)]
        answers = at_once([partial(reserve, requests=[ask], now=NOW) for ask in asks])
        names = sorted(type(answer).__name__ for (answer,) in answers)
        assert names == ["Refused"] * 5 + ["Reserved"] * 3
        assert Budget.objects.filter(tenant=shop.tenant).count() == 2
        used = AuditEntry.objects.filter(action="budget_default_use", tenant=shop.tenant)
        assert used.count() == 2
        assert balances_differ(tenant_id=shop.tenant.id) == []


@pytest.mark.django_db(transaction=True)
def test_first_uses_beside_levers_on_the_same_budgets_do_not_deadlock():
    rule()
    shop = Shop()
    default(shop, "1000")
    shop.budget("1000")
    members = [f"member-{number}" for number in range(4)]

    def submit(turn: int) -> None:
        turned = members[turn:] + members[:turn]
        reserve(requests=[ask_as(shop, name, "1") for name in turned], now=NOW)

    def pull(name: str) -> None:
        ceiling = Ceiling(
            tenant_id=shop.tenant.id, scope="member", scope_id=name, dimension="spend"
        )
        budget_set(ceiling=ceiling, limit=D(500), **BY)

    calls = [partial(submit, turn) for turn in range(4)] + [partial(pull, n) for n in members]
    at_once(calls)
    assert Budget.objects.filter(scope="member").count() == 4
    assert balances_differ() == []


@pytest.mark.django_db(transaction=True)
def test_a_verdict_that_is_undone_leaves_no_budget_behind():
    rule()
    shop = Shop()
    default(shop, "2")
    with transaction.atomic():
        reserve(requests=[ask_as(shop, "ann", "1")], now=NOW)
        transaction.set_rollback(True)
    assert not Budget.objects.exists()
    with transaction.atomic():
        assert isinstance(reserve(requests=[ask_as(shop, "ann", "1")], now=NOW)[0], Reserved)
    assert Budget.objects.count() == 1
