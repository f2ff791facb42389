"""What fits under a chain of ceilings."""

from dataclasses import dataclass
from decimal import Decimal

import pytest

from billing.core.dimensions import spent_by_dimension
from billing.core.headroom import crossings, refusal, remaining
from billing.core.pricing import MeterCharge

D = Decimal


@dataclass(frozen=True)
class Line:
    budget_id: str
    dimension: str
    limit: Decimal
    spent: Decimal
    held: Decimal


def line(
    limit: str = "10",
    spent: str = "0",
    held: str = "0",
    budget_id: str = "b",
    dimension: str = "spend",
) -> Line:
    return Line(
        budget_id=budget_id,
        dimension=dimension,
        limit=D(limit),
        spent=D(spent),
        held=D(held),
    )


def test_reaching_the_limit_exactly_is_allowed():
    assert refusal([line(spent="8.20", held="0.90")], {"spend": D("0.90")}) is None


def test_the_smallest_excess_is_refused():
    full = line(spent="1.00", limit="1.00")
    assert refusal([full], {"spend": D("0.000001")}) is full


def test_the_first_line_that_does_not_pass_is_the_answer():
    lines = [line(), line(limit="1", budget_id="second"), line(limit="0", budget_id="third")]
    refused = refusal(lines, {"spend": D(2)})
    assert refused is not None
    assert refused.budget_id == "second"


def test_a_dimension_that_is_not_asked_for_is_not_touched():
    assert refusal([line(limit="0", dimension="tokens", spent="5")], {"spend": D(1)}) is None


def test_asking_for_nothing_passes_at_the_limit_and_not_beyond_it():
    assert refusal([line(limit="1", spent="1")], {"spend": D(0)}) is None
    assert refusal([line(limit="1", spent="1.1")], {"spend": D(0)}) is not None


def test_what_remains_is_never_negative():
    assert remaining(line(limit="10", spent="7", held="1")) == 2
    assert remaining(line(limit="10", spent="11")) == 0


@pytest.mark.parametrize(
    ("before", "after", "marks"),
    [
        ("0", "49.99", ()),
        ("0", "50", (50,)),
        ("50", "79", ()),
        ("50", "80", (80,)),
        ("10", "120", (50, 80, 100)),
        ("100", "130", ()),
        ("60", "60", ()),
    ],
)
def test_crossing_a_mark_is_told_once(before, after, marks):
    assert crossings(before=D(before), after=D(after), limit=D(100)) == marks


def test_a_budget_of_zero_has_no_marks():
    assert crossings(before=D(0), after=D(5), limit=D(0)) == ()


def test_charges_count_against_their_dimensions():
    charges = [
        MeterCharge(meter="input", quantity=D(100), amount=D("0.1")),
        MeterCharge(meter="cached_read", quantity=D(20), amount=D("0.01")),
        MeterCharge(meter="output", quantity=D(3), amount=D("0.2")),
        MeterCharge(meter="worker_seconds", quantity=D("1.5"), amount=D(0)),
        MeterCharge(meter="tool_calls", quantity=D(2), amount=D(0)),
    ]
    spent = spent_by_dimension(charges, tries=1)
    assert {name: value for name, value in spent.items() if value} == {
        "tokens": D(123),
        "spend": D("0.31"),
        "wall_seconds": D("1.5"),
        "tool_calls": D(2),
        "attempts": D(1),
    }
