"""All nine dimensions: reserved from the estimate, booked from the meters, capped each alone."""

import uuid
from decimal import Decimal

import pytest

from billing.core.dimensions import spent_by_dimension
from billing.core.pricing import MeterCharge, Usage
from billing.core.terms import DIMENSIONS
from billing.models import Balance, Budget
from billing.services.checks import balances_differ
from billing.services.reservations import reserve
from billing.services.verdicts import Refused, Reserved
from tests.billing.conftest import NOW, Shop, settle, sums

pytestmark = pytest.mark.django_db
D = Decimal
USED = Usage(
    input_total=300_000,
    output_total=40_000,
    tool_calls=3,
    worker_seconds=D("1.5"),
    other={
        "environment": D(20),
        "storage": D("2000000000000.5"),
        "network": D(4096),
        "review_minutes": D("2.5"),
    },
)
SPENT = {
    "tokens": "340000",
    "spend": "1",
    "wall_seconds": "1.5",
    "attempts": "1",
    "tool_calls": "3",
    "environment_seconds": "20",
    "storage_byte_hours": "2000000000000.5",
    "network_bytes": "4096",
    "review_minutes": "2.5",
}


def estimates(**more: str) -> dict[str, Decimal]:
    other = {name: D(5) for name in DIMENSIONS if name not in ("spend", "tokens")}
    return other | {name: D(value) for name, value in more.items()}


def budgets(shop: Shop, limit: str) -> dict[str, Budget]:
    return {name: shop.budget(limit, dimension=name) for name in DIMENSIONS}


def test_every_dimension_is_held_then_spent(shop):
    found = budgets(shop, "9000000000000")
    ask = shop.ask("5", tokens=5, other=estimates())
    assert isinstance(reserve(requests=[ask], now=NOW)[0], Reserved)
    assert {name: sums(budget) for name, budget in found.items()} == dict.fromkeys(
        DIMENSIONS, ("0", "5")
    )
    settle(settlements=[shop.used(ask.job_id, USED)])
    assert {name: sums(budget) for name, budget in found.items()} == {
        name: (spent, "0") for name, spent in SPENT.items()
    }
    assert balances_differ() == []


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_each_dimension_alone_turns_a_job_away(shop, dimension):
    budget = shop.budget("4.999", dimension=dimension)
    answer = reserve(requests=[shop.ask("5", tokens=5, other=estimates())], now=NOW)[0]
    assert isinstance(answer, Refused)
    assert (answer.budget_id, answer.dimension, answer.asked) == (budget.id, dimension, 5)
    assert not Balance.objects.exclude(held=0).exists()


def test_an_estimate_of_an_unknown_dimension_is_refused_by_name(shop):
    with pytest.raises(ValueError, match="unknown dimension 'hugs'"):
        shop.ask("1", other={"hugs": D(1)})


def test_a_member_with_a_long_name_is_booked_like_any_other(shop):
    name = "m" * 200
    job = uuid.uuid4()
    chain = tuple((scope, name if scope == "member" else of) for scope, of in shop.chain(job))
    budget = shop.budget("10", scope="member", scope_id=name)
    reserve(requests=[shop.ask("2", job, chain=chain)], now=NOW)
    settle(settlements=[shop.used(job, Usage(output_total=100_000), chain=chain)])
    assert sums(budget) == ("1", "0")
    assert balances_differ() == []


def test_a_meter_of_no_dimension_counts_as_spend_alone():
    charge = MeterCharge(meter="retrieval", quantity=D(7), amount=D("0.5"))
    assert spent_by_dimension([charge], tries=1) == {"spend": D("0.5"), "attempts": D(1)}
