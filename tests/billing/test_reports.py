"""Reports: five amounts apart, the same totals however they are grouped."""

import csv
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from billing.core.pricing import Usage
from billing.exports import COST_COLUMNS, cell, costs_csv, csv_lines
from billing.models import Reservation
from billing.reports import (
    GROUPINGS,
    CostRow,
    charges_of_job,
    cost_of_job,
    costs_total,
    tenant_costs,
)
from billing.services import prices
from billing.services.reservations import reserve
from tests.billing.conftest import NOW, Shop, rule, settle

D = Decimal
FOREVER: dict[str, Any] = {
    "since": datetime(2000, 1, 1, tzinfo=UTC),
    "until": datetime(3000, 1, 1, tzinfo=UTC),
}


@pytest.fixture
def busy(shop: Shop) -> Shop:
    """Two tenants' work of all kinds, and one job that holds 0.7."""
    rule("n", input="1")
    other = Shop("zeta")
    executors = [uuid.uuid4(), None]
    settlements = []
    for number, kind in enumerate(["incurred", "wasted", "avoided", "unallocated"] * 2):
        owner = shop if number % 3 else other
        usage = Usage(input_total=1000 * (number + 1), output_total=number, reasoning=number)
        more = {
            "kind": kind,
            "failure_class": "provider_error" if kind == "wasted" else "",
            "executor_id": executors[number % 2],
            "model": "n" if number == 5 else "m",
        }
        settlements.append(owner.used(uuid.uuid4(), usage, **more))
    settle(settlements=settlements)
    reserve(requests=[shop.ask("0.7")], now=NOW)
    return shop


@pytest.mark.parametrize("by", GROUPINGS)
def test_totals_are_the_same_under_every_grouping(busy, by):
    total = costs_total(tenant_costs(tenants=None, **FOREVER, by=by))
    reference = costs_total(tenant_costs(tenants=None, **FOREVER))
    for name in COST_COLUMNS:
        if name != "jobs":  # a job may fall into several groups
            assert getattr(total, name) == getattr(reference, name)
    assert total.reserved == D("0.7")
    assert total.total == total.incurred + total.wasted + total.unallocated > 0
    assert total.avoided > 0
    assert (total.input_tokens, total.output_tokens) == (36_000, 28)


def test_rows_carry_the_slugs_that_billing_knows(busy):
    tenants = tenant_costs(tenants=None, **FOREVER)
    assert sorted(row.label for row in tenants) == ["acme", "zeta"]
    workspaces = tenant_costs(tenants=None, **FOREVER, by="workspace")
    assert sorted(row.label for row in workspaces) == ["acme/main", "zeta/main"]
    assert sum(row.jobs for row in tenants) == 8


def test_a_report_shows_the_tenants_asked_for_alone(busy):
    (row,) = tenant_costs(tenants=[busy.tenant.id], **FOREVER)
    assert (row.key, row.jobs, row.reserved) == (str(busy.tenant.id), 5, D("0.7"))
    assert tenant_costs(tenants=[], **FOREVER) == []


def test_what_has_no_key_falls_into_the_group_without_one(busy):
    rows = tenant_costs(tenants=None, **FOREVER, by="failure_class")
    assert [row.key for row in rows] == ["", "provider_error"]
    assert rows[1].wasted == rows[1].total


def test_the_period_is_half_open_and_goes_by_the_dispatch(shop):
    settle(settlements=[shop.used(uuid.uuid4(), Usage(input_total=1000))])
    hour = timedelta(hours=1)
    assert tenant_costs(tenants=None, since=NOW - hour, until=NOW) == []
    (row,) = tenant_costs(tenants=None, since=NOW, until=NOW + hour)
    assert row.incurred == D("0.002")


def test_a_closed_day_keeps_its_bill_when_prices_change(shop, make_rule):
    make_rule("opus", input="5.00", output="30.00")
    usage = Usage(input_total=100_000, output_total=10_000)
    job = uuid.uuid4()
    settle(settlements=[shop.used(job, usage, model="opus")])
    make_rule("opus", starts_at=datetime(2026, 8, 19, tzinfo=UTC), input="4", output="20")
    prices.prices_forget()
    day = {"since": datetime(2026, 8, 20, tzinfo=UTC), "until": datetime(2026, 8, 21, tzinfo=UTC)}
    for _ in range(3):
        (row,) = tenant_costs(tenants=None, **day, by="rule")
        assert row.incurred == D("0.80")
    assert charges_of_job(job)[0].rule_starts_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_jobs_cost_has_its_failed_attempts_in_it(shop):
    job = uuid.uuid4()
    failed = {"kind": "wasted", "failure_class": "provider_error", "final": False}
    settle(
        settlements=[
            shop.used(job, Usage(input_total=1000, output_total=50), **failed),
            shop.used(job, **failed),
            shop.used(job, Usage(input_total=1000, output_total=200)),
        ]
    )
    cost = cost_of_job(job)
    assert (cost.total, cost.wasted, cost.jobs) == (D("0.0065"), D("0.0025"), 1)
    assert cost.input_tokens + cost.output_tokens == 2250
    lines = charges_of_job(job)
    assert sum(line.amount for line in lines) == D("0.0065")
    assert len({line.attempt_id for line in lines}) == 3


def test_a_job_that_only_waits_shows_what_it_holds(shop):
    ask = shop.ask("0.4")
    reserve(requests=[ask], now=NOW)
    assert cost_of_job(ask.job_id) == CostRow(key=str(ask.job_id), reserved=D("0.4"))
    assert Reservation.objects.count() == 1


def test_an_unknown_job_has_cost_nothing(db):
    job = uuid.uuid4()
    assert cost_of_job(job) == CostRow(key=str(job))


def test_an_unknown_grouping_is_refused(db):
    with pytest.raises(ValueError, match="unknown grouping 'mood': use one of tenant"):
        tenant_costs(tenants=None, **FOREVER, by="mood")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("=1+1", "'=1+1"),
        ("+a", "'+a"),
        ("-a", "'-a"),
        ("@a", "'@a"),
        ("\t=a", "'\t=a"),
        ("  =a", "'  =a"),
        ("plain", "plain"),
        (None, ""),
        (-5, "-5"),
        (D("-1E-7"), "-0.0000001"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
    ],
)
def test_cells_are_plain_and_defused(value, text):
    assert cell(value) == text


def test_lines_are_csv_that_reads_back():
    lines = list(csv_lines(["a", "b"], [["x,y", D("1.50")], ['say "hi"', "=cmd"]]))
    assert list(csv.reader(lines)) == [["a", "b"], ["x,y", "1.50"], ['say "hi"', "'=cmd"]]
    assert lines[0] == "a,b\r\n"


def test_a_cost_report_is_written_with_its_total():
    rows = [CostRow(key="k", label="=evil", incurred=D("0.1"), wasted=D("0.2"), jobs=3)]
    header, line = csv.reader(costs_csv(rows))
    assert header == list(COST_COLUMNS)
    written = dict(zip(header, line, strict=True))
    assert (written["label"], written["total"], written["jobs"]) == ("'=evil", "0.3", "3")
