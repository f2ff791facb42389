"""Sums of many budgets at once: those that each has alone, in few statements."""

import uuid
from datetime import timedelta
from decimal import Decimal

from billing.core.pricing import Usage
from billing.core.terms import DIMENSIONS
from billing.core.windows import EPOCH, Window
from billing.models import Budget
from billing.services import sums
from billing.services.accounts import ledger_spent
from billing.services.overview import budgets_drawn
from billing.services.sums import ledger_sums
from tests.billing.conftest import NOW, Shop, rule, settle

ALWAYS = Window(start=EPOCH, end=None)
THEN = Window(start=NOW - timedelta(hours=1), end=NOW)


def busy_shop(slug: str) -> list[Budget]:
    """Work of two jobs at two times; budgets of every scope and dimension."""
    shop = Shop(slug)
    jobs = [uuid.uuid4(), uuid.uuid4()]
    for number, job in enumerate(jobs * 2):
        usage = Usage(input_total=1000 + number, output_total=7, worker_seconds=Decimal(3))
        at = NOW - timedelta(minutes=50 * number)
        kind = ("incurred", "wasted", "avoided")[number % 3]
        chain = dict(shop.chain(job)) | {"member": f"m{number % 2}", "mission": str(jobs[0])}
        more = {"chain": tuple(chain.items()), "mission_id": jobs[0], "kind": kind}
        settle(settlements=[shop.used(job, usage, dispatched_at=at, **more)])
    named = {
        "tenant": str(shop.tenant.id), "workspace": str(shop.workspace.id), "member": "m1",
        "workflow": str(shop.workflow_id), "mission": str(jobs[0]), "job": str(jobs[1]),
    }  # fmt: skip
    others = [("member", "nobody"), ("job", "no-id"), ("workflow", str(uuid.uuid4()))]
    return [
        Budget.objects.create(
            tenant=shop.tenant, scope=scope, scope_id=scope_id, dimension=name, limit=9
        )
        for scope, scope_id in [*named.items(), *others]
        for name in DIMENSIONS
    ]


def test_sums_of_many_are_those_of_each(db, monkeypatch):
    rule()
    monkeypatch.setattr(sums, "_MOST_IDS", 5)
    budgets = [*busy_shop("acme"), *busy_shop("zeta")]
    for span in (ALWAYS, THEN):
        found = ledger_sums([(budget, span) for budget in budgets])
        assert found == {budget.id: ledger_spent(budget, span) for budget in budgets}
        assert len({value for value in found.values() if value}) >= 4


def test_one_statement_sums_up_a_scope(db, django_assert_num_queries):
    rule()
    budgets = busy_shop("acme")
    with django_assert_num_queries(6):
        ledger_sums([(budget, ALWAYS) for budget in budgets])


def test_a_ceiling_of_single_attempts_has_drawn_nothing(shop):
    budget = shop.budget("3", scope="attempt", scope_id=str(shop.tenant.id))
    settle(settlements=[shop.used(uuid.uuid4(), Usage(input_total=1000))])
    assert budgets_drawn([budget.id], ALWAYS) == {budget.id: 0}
